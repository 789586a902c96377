"""How full the fullest rank is by recorded and assumed loads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.popularity import Popularity
from planner.problems.balance import Balanced, assumed, fullest, place
from solvers.linear import Limits


def test_assumed_loads_spread_as_the_law_says():
    loads = assumed(256)

    assert loads.shape == (1, 1, 256)
    assert loads.mean() == pytest.approx(1.0, rel=0.01)
    assert loads.std() == pytest.approx(0.6, rel=0.05)


def test_without_copies_assumed_loads_are_not_balanced():
    assert Balanced().hottest(256, 32, 0) == Popularity().in_order(256, 32)
    assert Balanced().hottest(256, 32, 32) < 1.05
    assert Balanced().hottest(256, 1, 0) == 1.0


def test_the_fullest_rank_by_hand():
    """Loads 8, 2, 4 and 2 ranks of 2: expert 0 twice gives 4 + 2 against 4 + 4."""
    tokens = np.array([[[8.0, 2.0, 4.0]]])

    assert fullest(tokens, np.array([[[0, 1], [0, 2]]])) == pytest.approx(8 / 7)


def test_every_step_is_judged_alone():
    """Two steps that mirror each other: their sum is balanced, neither of them is."""
    tokens = np.array([[[3.0, 1.0]], [[1.0, 3.0]]])
    popularity = Balanced(tokens, "loads.csv")

    assert popularity.hottest(2, 2, 0) == pytest.approx(1.5)
    assert popularity.in_order(2, 2) == pytest.approx(1.5)


@settings(max_examples=30)
@given(
    st.integers(2, 6).flatmap(
        lambda ep: st.tuples(
            st.just(ep),
            st.integers(1, 3),
            st.lists(st.floats(0.1, 100.0), min_size=2 * ep, max_size=2 * ep),
        )
    )
)
def test_copies_never_leave_a_rank_fuller_than_the_bound_allows_or_the_order_does(case):
    ep, more, loads = case
    tokens = np.array([[loads, loads[::-1]]])
    popularity = Balanced(tokens, "loads.csv")
    copies = (more - 1) * ep
    found = place(tokens[0], ep, copies, ep, Limits(seconds=5.0))
    best = fullest(tokens, np.array(found.place))

    assert found.balance_bound.mean() <= best * (1 + 1e-9)
    assert best <= popularity.hottest(2 * ep, ep, copies) * (1 + 1e-9)
    if copies == 0:
        assert best <= popularity.in_order(2 * ep, ep) * (1 + 1e-9)

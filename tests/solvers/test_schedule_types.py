"""A schedule's numbers by hand: what counts cost, whether they carry and keep, what is worth reserving."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.schedule.types import Kind, Problem, Solution, reserve

BIG, SMALL = Kind("big", 10.0, 4.0, 3), Kind("small", 3.0, 1.5, 4)
DAY = Problem((BIG, SMALL), (6.0, 12.0, 3.0), hours=2.0)
COUNTS = np.array([[0, 1, 0], [2, 1, 1]])


def test_dollars_are_prices_times_hours_of_all_that_runs():
    """1 big slot at $4 and 4 small ones at $1.5, two hours each."""
    assert DAY.cost(COUNTS, (0, 0)) == pytest.approx(2 * (4.0 + 4 * 1.5))


def test_a_start_costs_its_cold_hours_but_in_the_first_slot():
    cold = replace(DAY, kinds=(replace(BIG, cold_hours=0.5), replace(SMALL, cold_hours=0.25)))
    started = 4.0 * 0.5  # the one big server of slot 1; the small ones stood from the beginning

    assert cold.cost(COUNTS, (0, 0)) - DAY.cost(COUNTS, (0, 0)) == pytest.approx(started)


def test_reserved_machines_cost_their_share_of_every_slot_and_more_is_paid_beside():
    kinds = (BIG, replace(SMALL, reserved=0.6))
    p = replace(DAY, kinds=kinds)

    # small runs 2, 1, 1: one reserved is paid 0.6 of three slots, the second in slot 0 in full
    assert p.cost(COUNTS, (0, 1)) == pytest.approx(2 * (4.0 + 1.5 * (1 + 0.6 * 3)))


def test_as_many_machines_are_worth_reserving_as_run_in_more_than_their_share_of_slots():
    p = replace(DAY, kinds=(replace(BIG, reserved=0.5), replace(SMALL, reserved=0.6)))

    assert reserve(p, COUNTS) == [
        0,
        1,
    ]  # big in a third of the slots, small's first in all, its second in one
    assert reserve(DAY, COUNTS) == [0, 0]  # not on offer
    assert reserve(p, 0 * COUNTS) == [0, 0]


@given(st.lists(st.integers(0, 4), min_size=3, max_size=6), st.floats(0.05, 0.95), st.integers(0, 4))
@settings(max_examples=60)
def test_no_other_number_reserved_is_cheaper(used, share, other):
    p = Problem((Kind("small", 3.0, 1.5, 4, reserved=share),), [0.0] * len(used), hours=1.0)
    n = np.array([used])

    assert p.cost(n, reserve(p, n)) <= p.cost(n, [other]) + 1e-9


def test_counts_carry_where_each_slot_has_capacity_for_its_need():
    assert DAY.carries(COUNTS)
    assert not DAY.carries(COUNTS - np.array([[0, 0, 0], [1, 0, 0]]))  # slot 0: 3 of 6
    assert DAY.carries(COUNTS - np.array([[0, 0, 0], [0, 0, 0]]))


def test_what_may_be_taken_away_does_not_count_as_safe():
    risky = replace(DAY, kinds=(replace(BIG, risky=True), SMALL), safe=0.5)

    assert DAY.carries(COUNTS)
    assert not risky.carries(COUNTS)  # slot 1: small alone carries 3 of the 6 that must be safe
    assert replace(risky, safe=0.25).carries(COUNTS)
    assert risky.sure.tolist() == [0.0, 1.0]


def test_several_needs_are_each_carried():
    both = Problem((Kind("big", np.array([[10.0], [1.0]]), 4.0, 3),), np.array([[9.0], [2.0]]), hours=1.0)

    assert not both.carries(np.array([[1]]))  # enough of the first need only
    assert both.carries(np.array([[2]]))


def test_kinds_on_the_same_machines_share_their_number():
    p = Problem(
        (Kind("prefill", 1.0, 2.0, 3, of="node"), Kind("decode", 1.0, 2.0, 3, of="node")),
        (1.0,),
        hours=1.0,
    )

    assert p.machines == [[0, 1]]
    assert p.on(np.array([[2], [1]])).tolist() == [[3]]
    assert p.keeps(np.array([[2], [1]]))
    assert not p.keeps(np.array([[2], [2]]))


def test_a_server_stays_as_long_as_it_must():
    stays = Problem((Kind("a", 1.0, 1.0, 5, up_slots=3),), (0.0,) * 5, hours=1.0)

    assert stays.keeps(np.array([[0, 1, 1, 1, 0]]))
    assert not stays.keeps(np.array([[0, 1, 1, 0, 0]]))
    assert stays.keeps(np.array([[0, 0, 0, 1, 1]]))  # the end is not too early
    assert not stays.keeps(np.array([[2, 1, 2, 2, 2]]))


def test_keeping_every_row_includes_carrying():
    assert DAY.keeps(COUNTS)
    assert not DAY.keeps(0 * COUNTS)
    assert not DAY.keeps(COUNTS + np.array([[0, 3, 0], [0, 0, 0]]))  # four big ones of three


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"kinds": ()}, "needs kinds"),
        ({"demand": ()}, "needs kinds"),
        ({"demand": (1.0, -1.0)}, "needs kinds"),
        ({"demand": (1.0, float("nan"))}, "needs kinds"),
        ({"hours": 0.0}, "above 0"),
        ({"kinds": (replace(BIG, capacity=float("inf")),)}, "above 0"),
        ({"kinds": (replace(BIG, capacity=0.0),)}, "carries nothing"),
        ({"kinds": (replace(BIG, of="node"), replace(SMALL, of="node"))}, "share price"),
    ],
)
def test_figures_that_are_none_are_refused(broken, said):
    with pytest.raises(ValueError, match=said):
        replace(DAY, **broken)


def test_the_gap_is_a_share_of_the_value_and_without_end_where_one_is_unknown():
    known = Solution(COUNTS, (0, 0), 20.0, 19.0, "within_gap", "HiGHS")

    assert known.gap == pytest.approx(0.05)
    assert replace(known, bound=None).gap == np.inf
    assert replace(known, value=None).gap == np.inf

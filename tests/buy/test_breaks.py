"""Prices at which a mix changes, against all mixes at once."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.buy.breaks import Line, affords, leaves

MIXES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=2, max_size=12, unique_by=lambda mix: mix[1]
)


def lines(mixes):
    return [Line(float(rest), nodes) for rest, nodes in mixes]


def cheapest(every):
    """By looking at all; None where each takes more than the limit."""

    def found(price, limit):
        best = min(every, key=lambda mix: mix.at(price))
        return best if best.at(price) <= limit * (1 + 1e-9) else None

    return found


@given(MIXES, st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.sampled_from([0.01, 0.1, 10.0, 100.0]))
def test_a_mix_is_left_where_the_first_other_line_crosses_its_own(mixes, price, start):
    every = lines(mixes)
    own = min(every, key=lambda mix: mix.at(price))
    assume(own.at(price) > 0)
    assume(all(m is own or m.at(price) > own.at(price) * 1.001 for m in every))
    crossings = [(m.rest - own.rest) / (own.nodes - m.nodes) for m in every if m is not own]
    low, high = min(price, start), max(price, start)
    between = [p for p in crossings if low <= p <= high]
    expected = None if not between else min(between) if start > price else max(between)

    found, gap = leaves(own, start, cheapest(every))

    assert gap == 0.0
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-4))


@given(MIXES, st.integers(1, 80), st.sampled_from([0.01, 0.1, 1.0]))
def test_a_limit_pays_up_to_the_highest_price_of_any_mix_within_it(mixes, limit, start):
    every = lines(mixes)
    within = [m for m in every if m.at(start) <= limit]
    prices = [(limit - m.rest) / m.nodes if m.nodes else float("inf") for m in within]

    found, gap = affords(start, float(limit), cheapest(every))

    assert gap == 0.0
    assert found == (pytest.approx(max(prices), rel=1e-4) if prices else None)

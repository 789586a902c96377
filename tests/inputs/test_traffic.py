"""Requests over time: slots that fit each other, and the same traffic of more users."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from planner.errors import Misplaced
from planner.inputs.traffic import Dispersion, Traffic

DAY = Traffic(
    slot_s=3600,
    rate_rps=[4.0, 1.0],
    peak_rps=[6.0, 2.0],
    needed_rps=[5.0, 3.0],
    dispersion=[Dispersion(window_s=10, index=2)],
    shares=[[0.5, 0.5], [0.25, 0.75]],
)


def test_four_times_the_users_have_four_times_the_rate_and_twice_the_spread():
    """By hand: a queue needs 4·4 + 2·(5 − 4) and 4·1 + 2·(3 − 1)."""
    more = DAY.scaled(4)

    assert more.rate_rps == [16.0, 4.0]
    assert more.peak_rps == [24.0, 8.0]
    assert more.needed_rps == [18.0, 8.0]
    assert (more.slot_s, more.dispersion, more.shares) == (DAY.slot_s, DAY.dispersion, DAY.shares)


@settings(max_examples=30)
@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_users_that_come_in_two_steps_are_those_that_come_in_one(a: float, b: float):
    twice, once = DAY.scaled(a).scaled(b), DAY.scaled(a * b)

    assert twice.rate_rps == pytest.approx(once.rate_rps)
    assert twice.needed_rps == pytest.approx(once.needed_rps)
    assert DAY.scaled(1) == DAY


def test_what_is_not_known_of_slots_stays_so():
    more = Traffic(slot_s=60, rate_rps=[1.0]).scaled(3)

    assert (more.rate_rps, more.peak_rps, more.needed_rps) == ([3.0], [], [])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"peak_rps": [1.0]}, "`peak_rps` has 1 slots, `rate_rps` 2"),
        ({"needed_rps": [1.0, 2.0, 3.0]}, "`needed_rps` has 3 slots, `rate_rps` 2"),
        ({"shares": [[1.0]]}, "`shares` has 1 slots, `rate_rps` 2"),
        ({"shares": [[0.5, 0.5], [1.0]]}, "shares of slot 1"),
        ({"shares": [[0.5, 0.5], [0.5, 0.48]]}, "shares of slot 1 add up to 0.98"),
        ({"rate_rps": [0.0, 0.0]}, "no slot has any requests"),
    ],
)
def test_slots_that_do_not_fit_are_refused_where_they_stand(fields: dict[str, Any], said: str):
    with pytest.raises((ValidationError, Misplaced), match=said):
        Traffic(**{"slot_s": 60, "rate_rps": [1.0, 2.0]} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"slot_s": 0.5},
        {"rate_rps": []},
        {"rate_rps": [-1.0]},
        {"rate_rps": [float("nan")]},
        {"shares": [[1.5, -0.5], [0.5, 0.5]]},
        {"rates": [1.0]},
    ],
)
def test_figures_out_of_range_are_refused(fields: dict[str, Any]):
    with pytest.raises(ValidationError):
        Traffic(**{"slot_s": 60, "rate_rps": [1.0, 2.0]} | fields)


def test_shares_may_be_rounded():
    assert Traffic(slot_s=60, rate_rps=[1.0], shares=[[0.333, 0.333, 0.333]]).shares[0] == [0.333] * 3

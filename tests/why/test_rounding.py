"""Figures of hints: on the side on which the hint holds, and no further from it than their digits."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.why.rounding import ceil_to, floor_to

FIGURES = st.floats(1e-12, 3e15)


@given(FIGURES)
def test_a_hint_holds_and_gives_up_one_per_cent_at_most(x):
    up, down = float(ceil_to(x)), float(floor_to(x))

    assert x * (1 - 1e-8) <= up <= 1.0101 * x
    assert x * (1 + 1e-8) >= down >= 0.99 * x


@given(FIGURES, FIGURES)
def test_what_is_more_is_not_said_to_be_less(x, y):
    low, high = sorted((x, y))

    assert float(ceil_to(low)) <= float(ceil_to(high))
    assert float(floor_to(low)) <= float(floor_to(high))


@given(st.integers(100, 999), st.integers(-6, 6))
@example(104, -5)
def test_three_digits_stay_as_they_are(digits, power):
    x = float(f"{digits}e{power}")

    assert float(ceil_to(x)) == pytest.approx(x, rel=1e-12)
    assert float(floor_to(x)) == pytest.approx(x, rel=1e-12)


@pytest.mark.parametrize(
    ("x", "up", "down"),
    [
        (1.0, "1", "1"),
        (999.5, "1000", "999"),
        (99.95, "100", "99.9"),
        (0.001234, "0.00124", "0.00123"),
        (123_456.0, "124000", "123000"),
        (0.0, "0", "0"),
        (-3.0, "-3", "-3"),
        (float("inf"), "inf", "inf"),
    ],
)
def test_by_hand(x, up, down):
    assert (ceil_to(x), floor_to(x)) == (up, down)

"""The most of its traffic that a fleet carries: found of limits that grow in any way, never more."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.plans.carried import JUDGED, MOST, as_carried, most
from planner.plans.strain import SLACK

NEAR = 1e-4


@given(st.floats(0.25, 3.0), st.floats(0.5, 4.0))
def test_where_a_power_of_the_traffic_is_used_the_root_is_found(root, power):
    """(x / root) ^ power of the limit, which is 1 at x = root."""

    def used(x: float) -> float:
        return (x / root) ** power

    found = most(used, used(1.0), NEAR)
    assert used(found) <= 1 + SLACK
    assert found >= root * (1 - 1.01 * NEAR)


@given(st.floats(0.05, 0.9), st.floats(0.3, 3.0))
def test_where_a_server_is_full_at_some_load_the_answer_is_short_of_it(idle, full):
    """A time of idle / (1 - x / full), of 1 as promised: kept until x = full (1 - idle)."""

    def used(x: float) -> float:
        return idle / (1 - x / full) if x < full else inf

    found, root = most(used, used(1.0), NEAR), full * (1 - idle)
    assert found == 0 or used(found) <= 1 + SLACK
    assert found <= root * (1 + 1e-5)
    assert found >= root * (1 - 1.01 * NEAR)


def test_what_is_as_full_as_can_be_is_left_as_it_is():
    def never(x: float) -> float:
        raise AssertionError(f"looked at {x}")

    assert most(never, 1.0) == 1.0
    assert most(never, 1 + SLACK) == 1.0
    assert most(never, 1 - SLACK, NEAR) == 1.0


@pytest.mark.parametrize("floor", [0.0, 0.5, 0.9])
def test_what_uses_nearly_all_may_carry_far_more(floor):
    """Of a time that hardly grows with the traffic, little less than all is not near the most."""

    def used(x: float) -> float:
        return 1 - NEAR / 2 + (1 - floor) * (x - 1)

    most_ = 1 + NEAR / 2 / (1 - floor)
    assert most(used, used(1.0), NEAR) >= most_ * (1 - 1.01 * NEAR)


@pytest.mark.parametrize("used", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("root", [0.03, 0.3, 0.97, 1.03, 2.0, 5.0])
def test_a_jump_from_little_to_too_much_is_found_by_halves(used, root):
    found = most(lambda x: used if x <= root else inf, used if root >= 1 else inf, 2 * NEAR)

    assert root * (1 - 2.02 * NEAR) <= found <= root


def test_a_limit_that_is_broken_without_any_traffic_lets_none_through():
    assert most(lambda x: 2.0, 2.0) == 0.0
    assert most(lambda x: inf, inf) == 0.0


def test_no_traffic_beyond_the_most_is_tried():
    assert MOST * 0.99 < most(lambda x: 1e-3 * x, 1e-3) <= MOST


@given(st.floats(0.01, 100))
def test_it_looks_no_more_often_than_it_may(root):
    looked = []

    def used(x: float) -> float:
        looked.append(x)
        return (x / root) ** 1.7

    most(used, root**-1.7)
    assert len(looked) <= JUDGED
    assert all(0 < x <= MOST for x in looked)


@pytest.mark.parametrize(("broken_without", "kept"), [(False, 0.5), (True, None)])
def test_a_fleet_is_scaled_to_what_it_carries(monkeypatch, broken_without, kept):
    """A fleet whose strain is twice its traffic, or is too much at any."""
    monkeypatch.setattr(
        "planner.plans.carried.strain", lambda found, made, x=1.0: 2.0 if broken_without else 2.0 * x
    )
    monkeypatch.setattr("planner.plans.carried.scaled", lambda found, x: (found, x))

    found = as_carried("fleet", [])
    assert found == (None if kept is None else ("fleet", pytest.approx(kept, rel=1e-5)))

"""Watts of a GPU: idle, busy and at its limit, and never less for more work; how much limits slow it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.power import (
    IDLE_SHARE,
    LEAST_SHARE,
    SLOWED_ARITHMETIC,
    SLOWED_MEMORY,
    busy_watts,
    idle_watts,
    mean_watts,
    slowdown,
)

TABLE = {"base": 0.3, "compute": 0.5, "memory": 0.4}
SHARE = st.floats(0, 1)


def watts(table, tdp, busy, *shares):
    drawn = busy_watts(table, tdp, *(np.array([x]) for x in shares))
    return float(mean_watts(drawn, np.array([busy]), table.get("limit_watts", tdp))[0])


@pytest.mark.parametrize(
    ("table", "shares", "expected"),
    [
        (TABLE, (0.0, 1.0, 1.0), 0.12 * 700),  # nothing to do
        (TABLE, (1.0, 0.0, 0.0), 0.3 * 700),  # busy with neither: the base
        (TABLE, (1.0, 0.5, 0.5), (0.3 + 0.25 + 0.2) * 700),
        (TABLE, (0.5, 0.5, 0.5), (0.12 + (0.75 - 0.12) / 2) * 700),  # half of the time
        (TABLE, (1.0, 1.0, 1.0), 700),  # 1.2 of the limit is the limit
        (TABLE, (2.0, 0.0, 0.0), 0.3 * 700),  # no busier than always
        (TABLE | {"limit_watts": 500}, (1.0, 1.0, 1.0), 500),
        (TABLE | {"base_watts": 100}, (1.0, 0.5, 0.0), 100 + 0.25 * 700),  # measured watts, not a share
    ],
)
def test_by_hand(table, shares, expected):
    assert watts(table, 700.0, *shares) == pytest.approx(expected)


@given(SHARE, SHARE, SHARE, SHARE)
def test_more_arithmetic_bytes_or_time_never_draw_less_and_never_more_than_the_limit(busy, a, b, more):
    now = watts(TABLE, 400.0, busy, a, b)

    assert IDLE_SHARE * 400 - 1e-9 <= now <= 400 + 1e-9
    assert watts(TABLE, 400.0, busy, min(a + more, 1), b) >= now - 1e-9
    assert watts(TABLE, 400.0, busy, a, min(b + more, 1)) >= now - 1e-9
    assert watts(TABLE, 400.0, min(busy + more, 1), a, b) >= now - 1e-9


def test_a_gpu_without_work_draws_a_share_of_its_limit():
    assert idle_watts(400.0) == pytest.approx(48.0)


def slowed(allowed, arithmetic):
    return float(slowdown(np.array([allowed]), np.array([arithmetic]))[0])


@pytest.mark.parametrize(
    ("allowed", "arithmetic", "expected"),
    [
        (1.0, 1.0, 1.0),
        (3.0, 1.0, 1.0),  # it would draw less than it may
        (0.729, 1.0, 1 + SLOWED_ARITHMETIC),  # where as much is missing as is left above what is held
        (0.729, 0.0, 1 + SLOWED_MEMORY),
        (0.729, 0.5, 1 + (SLOWED_ARITHMETIC + SLOWED_MEMORY) / 2),
    ],
)
def test_a_limit_by_hand(allowed, arithmetic, expected):
    assert slowed(allowed, arithmetic) == pytest.approx(expected)


@given(st.floats(0.0, 2.0), st.floats(0.0, 0.5), SHARE, st.floats(0.0, 0.5))
def test_fewer_watts_never_speed_a_step_up_and_arithmetic_is_slowed_at_least_as_much(x, more, a, rest):
    assert slowed(x, a) >= slowed(x + more, a) >= 1
    assert slowed(x, min(a + rest, 1)) >= slowed(x, a)
    assert slowed(x, a) <= slowed(LEAST_SHARE, 1.0)

"""Watts of a GPU: idle, busy and at its limit, and never less for more work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.power import IDLE_SHARE, activity_watts, idle_watts

TABLE = {"base": 0.3, "compute": 0.5, "memory": 0.4}
SHARE = st.floats(0, 1)


def watts(table, tdp, *shares):
    return float(activity_watts(table, tdp, *(np.array([x]) for x in shares))[0])


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

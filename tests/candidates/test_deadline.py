"""Until when candidates are looked for."""

from __future__ import annotations

import time
from math import inf

import pytest

from planner.candidates.deadline import deadline, in_time, left_s
from planner.errors import OutOfTime


def test_beyond_the_deadline_nothing_more_is_looked_for():
    in_time()
    assert left_s() == inf
    with deadline(time.perf_counter() - 1):
        assert left_s() == 0
        with pytest.raises(OutOfTime, match="before any plan"):
            in_time()
    in_time()


def test_an_earlier_deadline_stays_in_force():
    with deadline(time.perf_counter() - 1), deadline(time.perf_counter() + 100), pytest.raises(OutOfTime):
        in_time()
    with deadline(time.perf_counter() + 100):
        in_time()
        assert 99 < left_s() <= 100

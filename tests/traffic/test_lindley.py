"""The rate that arrivals need: by hand, against a queue step by step, and at its edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.traffic.lindley import needed, needed_by_slot, waits_s


def queue(arrival_s, work, rate):
    """One server, request by request."""
    free, waits = 0.0, []
    for at, size in zip(arrival_s, work, strict=True):
        begins = max(at, free)
        waits.append(begins - at)
        free = begins + size / rate
    return waits


TRACES = st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 4)), min_size=2, max_size=40)


@given(TRACES, st.floats(0.2, 20))
def test_waits_are_those_of_a_queue_step_by_step(rows, rate):
    at, work = np.cumsum([gap for gap, _ in rows]), np.array([size for _, size in rows])

    assert waits_s(at, work, rate) == pytest.approx(queue(at, work, rate), abs=1e-9)


@given(TRACES, st.sampled_from([0.5, 0.9, 1.0]), st.floats(0.01, 3))
def test_at_the_needed_rate_enough_are_in_time_and_just_below_it_too_few(rows, share, wait_s):
    at, work = np.cumsum([gap for gap, _ in rows]), np.array([size for _, size in rows])
    found = needed(at, work, wait_s, share)
    unit, may = work / work.mean(), int((1 - share) * len(rows) + 1e-9)

    def late(rate):
        return sum(w > wait_s + 1e-12 for w in queue(at, unit, rate))

    if found.rate_rps > 0:
        assert late(found.rate_rps) <= may
        assert late(found.rate_rps * 0.999) > may


def test_ten_at_once_need_nine_served_within_the_wait():
    """The last of ten waits for nine requests: nine in two seconds."""
    at = np.zeros(10) + np.linspace(0, 1e-9, 10)

    assert needed(at, np.ones(10), 2.0, 1.0).rate_rps == pytest.approx(4.5, rel=1e-3)


def test_the_busy_period_that_sized_it_is_the_burst():
    at = np.concatenate([np.arange(0.0, 100.0, 10.0), 200 + np.arange(0.0, 1.0, 0.05), [400.0, 500.0]])
    found = needed(at, np.ones(len(at)), 0.5, 1.0)

    assert (found.from_s, found.requests) == (200.0, 20)
    assert found.to_s == pytest.approx(200.95)


def test_requests_that_may_all_wait_need_no_rate():
    assert needed(np.array([0.0, 1.0]), np.ones(2), 0.1, 0.5).rate_rps == 0.0


def test_the_unit_of_work_does_not_matter():
    at, work = np.sort(np.random.default_rng(1).random(200)) * 20, np.random.default_rng(2).random(200) + 0.5

    assert needed(at, work, 0.3, 0.95) == needed(at, 1000 * work, 0.3, 0.95)


def test_slots_are_sized_each_by_itself():
    """Four in one slot within a second's wait, none in the next, one alone."""
    at = np.array([0.0, 1e-9, 2e-9, 3e-9, 20.5])
    found = needed_by_slot(at, np.ones(5), np.array([10.0, 20.0, 30.0]), 1.0, 1.0)

    assert found == pytest.approx([3.0, 0.0, 0.0], rel=1e-3)

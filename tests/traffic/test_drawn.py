"""Arrivals like those that were seen: the same requests, the same bursts, the same rates."""

import numpy as np
import pytest

from planner.inputs.traces import Trace
from planner.inputs.traffic import Dispersion, Traffic
from planner.inputs.workload import Bucket, Workload
from planner.traffic.drawn import bursty, busiest, parts, resampled
from planner.traffic.summary import dispersion


def trace(at, isl=None, osl=None):
    n = len(at)
    isl, osl = (np.arange(1, n + 1) if x is None else np.array(x) for x in (isl, osl))
    return Trace("t.csv", np.array(at, dtype=float), isl, osl, 0, np.zeros(0, int), np.zeros(n + 1, int))


RNG = np.random.default_rng(0)
HOUR = trace(np.sort(RNG.random(4000)) * 3600)


def test_a_resampled_trace_has_the_same_requests_in_each_ten_minutes():
    like = resampled(HOUR, 1)

    for t in range(6):
        own, new = (
            sorted(x.isl[(x.arrival_s >= 600 * t) & (x.arrival_s < 600 * (t + 1))]) for x in (HOUR, like)
        )
        moved = len(set(own) ^ set(new))
        assert moved <= 6  # the trace begins at its first request, not at the full minute


def test_a_resampled_trace_is_in_order_and_another_by_each_seed():
    one, other = resampled(HOUR, 1), resampled(HOUR, 2)

    assert (np.diff(one.arrival_s) >= 0).all()
    assert list(one.isl) != list(other.isl) != list(HOUR.isl)
    assert list(resampled(HOUR, 1).isl) == list(one.isl)


def test_lengths_of_a_request_stay_together():
    like = resampled(trace(HOUR.arrival_s, HOUR.isl, 2 * HOUR.isl), 3)

    assert (like.osl == 2 * like.isl).all()


def test_bursts_of_a_minute_survive_resampling():
    at = np.sort(np.concatenate([RNG.random(500) * 3600, 1230 + RNG.random(500)]))
    counts = np.bincount(resampled(trace(at), 5).arrival_s.astype(int))

    assert counts.max() > 200  # 500 in a second, cut by no more than a second's edge


FLAT = Workload(buckets=[Bucket(isl=100, osl=10)], rate_rps=5.0)
GIVEN = [
    Dispersion(window_s=1, index=3.0),
    Dispersion(window_s=10, index=12.0),
    Dispersion(window_s=60, index=20.0),
]
BURSTS = FLAT.model_copy(update={"traffic": Traffic(slot_s=3600, rate_rps=[5.0], dispersion=GIVEN)})


def test_drawn_arrivals_come_at_the_rate():
    rates = [len(bursty(FLAT, seed)) / 3600 for seed in range(5)]

    assert np.mean(rates) == pytest.approx(5.0, rel=0.03)


def test_requests_that_come_seldom_are_drawn_all_the_same():
    """One in thirty years, bursty as `BURSTS`: an hour of them would have none (fuzz, seed 3401)."""
    seldom = BURSTS.model_copy(update={"rate_rps": 1e-9})
    drawn = [bursty(seldom, seed) for seed in range(10)]

    assert np.mean([len(d) for d in drawn]) == pytest.approx(100, rel=0.1)
    assert np.mean([d.rate_rps for d in drawn]) == pytest.approx(1e-9, rel=0.15)


def test_without_dispersion_counts_spread_as_at_random():
    drawn = bursty(FLAT, 1)

    assert dispersion(drawn.arrival_s, 3600, 10.0, 3600) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(("window_s", "index"), [(1.0, 3.0), (10.0, 12.0), (60.0, 20.0)])
def test_drawn_counts_spread_as_the_workload_says(window_s, index):
    """The mean of many draws, as one hour has few minutes."""
    seen = []
    for seed in range(12):
        drawn = bursty(BURSTS, seed)
        seen.append(dispersion(drawn.arrival_s, 3600, window_s, 3600))

    assert np.mean(seen) == pytest.approx(index, rel=0.3)


def test_parts_of_the_rate_add_up_to_what_windows_show():
    held = parts(GIVEN, 5.0)

    for window, seen in ((1.0, 2 / 5), (10.0, 11 / 50), (60.0, 19 / 300)):
        assert sum(v * min(1.0, d / window) for d, v in held) == pytest.approx(seen)


def test_less_than_at_random_is_drawn_at_random():
    assert parts([Dispersion(window_s=10, index=0.5)], 5.0) == []


def test_the_busiest_of_a_long_trace_are_those_that_come_fastest():
    at = np.concatenate([np.arange(0, 100, 1.0), 100 + np.arange(0, 5, 0.1), 200 + np.arange(0, 50, 1.0)])
    most = busiest(trace(at), 50)

    assert len(most) == 50
    assert most.arrival_s[-1] == pytest.approx(4.9)
    assert most.isl[0] == 101


def test_a_stretched_trace_has_the_rate_asked_for():
    assert HOUR.at_rate(7.5).rate_rps == pytest.approx(7.5)


def test_a_rate_beyond_all_draws_no_more_than_the_most():
    busy = FLAT.model_copy(update={"rate_rps": 1e9})

    assert 15_000 < len(bursty(busy, 1)) < 25_000

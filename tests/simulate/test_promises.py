"""Whether a limit was kept: at its percentile, in a closed loop but for two per cent."""

import numpy as np
import pytest

from planner.inputs.workload import Bucket, Slo, Workload
from planner.simulate.promises import promises_of


def kept(tpot_ms, loop="open", percentile="mean", **limits):
    slo = Slo(**{"ttft_ms": None, "tpot_ms": 50.0, "percentile": percentile} | limits)
    load = Workload(buckets=[Bucket(isl=100, osl=10)], slo=slo, arrivals=loop)
    tpot = np.array(tpot_ms)
    times = {"ttft_ms": np.full(len(tpot), 100.0), "tpot_ms": tpot, "e2e_ms": 100.0 + 10 * tpot}
    found, _ = promises_of(load, times, np.zeros(len(tpot), dtype=int))
    return {name: p.kept for name, p in found.items()}


@pytest.mark.parametrize(
    ("loop", "mean", "good"), [("closed", 50.9, True), ("closed", 51.1, False), ("open", 50.1, False)]
)
def test_only_a_closed_loop_may_be_a_little_beyond(loop, mean, good):
    assert kept([mean, mean], loop) == {"tpot_ms": good}


def test_a_percentile_is_kept_where_its_share_of_requests_is_within():
    for loop in ("open", "closed"):
        assert kept([40.0] * 90 + [60.0] * 10, loop, "p50") == {"tpot_ms": True}
        assert kept([40.0] * 90 + [60.0] * 10, loop, "p95") == {"tpot_ms": False}


def test_a_limit_on_whole_requests_is_one_too():
    assert kept([40.0], e2e_ms=501.0) == {"tpot_ms": True, "e2e_ms": True}
    assert kept([40.0], e2e_ms=499.0) == {"tpot_ms": True, "e2e_ms": False}


def test_every_bucket_keeps_its_own_percentile():
    """Nine of ten requests are quick, but of the long ones only three of four."""
    load = Workload(
        buckets=[Bucket(isl=100, osl=10), Bucket(isl=900, osl=10)],
        slo=Slo(ttft_ms=50.0, tpot_ms=None, percentile="p90"),
        arrivals="open",
    )
    ttft = np.array([10.0] * 60 + [40.0] * 30 + [60.0] * 10)
    kinds = np.array([0] * 60 + [1] * 40)
    found, within = promises_of(load, {"ttft_ms": ttft}, kinds)

    assert within.mean() == pytest.approx(0.9)
    assert found["ttft_ms"].attained == pytest.approx(0.75)
    assert found["ttft_ms"].achieved_ms == pytest.approx(60.0)
    assert not found["ttft_ms"].kept

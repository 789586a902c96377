"""What replicas carry of another mix: nothing where no limit is kept, of their own as much as was planned."""

from __future__ import annotations

import numpy as np
import pytest

from planner.inputs.traffic import Traffic
from planner.inputs.workload import Bucket, Slo, Workload
from planner.question.asked import read
from planner.schedule.capacity import MOST, mixes, of_fleet, of_replica, runs
from planner.schedule.units import _simplest, units
from solvers.linear import Limits

BUCKETS = [Bucket(isl=3000, osl=50), Bucket(isl=200, osl=600)]


@pytest.fixture(scope="module")
def found():
    workload = Workload(buckets=BUCKETS, slo=Slo(ttft_ms=2000, tpot_ms=50), rate_rps=5.0)
    asked = read(None, "qwen3-8b", "1xH100", workload, {}, {"engine": "vllm"})
    return _simplest(asked, Limits(gap=0.01, seconds=20.0)), workload


def test_its_own_mix_is_what_was_planned(found) -> None:
    best, workload = found
    carried = of_fleet(runs(best, workload), np.array([[0.5, 0.5]]))
    assert carried[0] == pytest.approx(best.solution.objective, rel=0.02)


def test_a_mix_of_one_bucket_is_that_bucket_planned_alone(found) -> None:
    """With the same design; a mix in between lies between."""
    best, workload = found
    (run, *_), shares = runs(best, workload), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    long, half, short = (run.rps(share) for share in shares)
    assert min(long, short) < half < max(long, short)
    alone = Workload(buckets=BUCKETS[:1], slo=workload.slo, rate_rps=5.0)
    asked = read(None, "qwen3-8b", "1xH100", alone, {}, {"engine": "vllm"})
    assert long <= _simplest(asked, Limits(gap=0.01, seconds=20.0)).solution.objective * 1.01


def test_a_fleet_found_with_two_of_many_lengths_is_asked_for_all_of_them() -> None:
    """What a unit serves is near what is found with all lengths, and slots of short ones carry more."""
    lengths = [Bucket(isl=isl, osl=osl) for isl, osl in ((100, 100), (400, 200), (1500, 100), (3000, 300))]
    traffic = Traffic(slot_s=3600, rate_rps=[1.0, 1.0], shares=[[0.25] * 4, [0.5, 0.5, 0, 0]])
    workload = Workload(buckets=lengths, slo=Slo(ttft_ms=2000, tpot_ms=50), rate_rps=1.0, traffic=traffic)
    asked = read(None, "qwen3-8b", "1xH100", workload, {}, {"engine": "vllm"})
    (unit,) = units(asked, Limits(gap=0.01, seconds=20.0)).units
    whole = _simplest(asked, Limits(gap=0.01, seconds=20.0)).solution.objective

    assert unit.rps == pytest.approx(whole, rel=0.1)
    assert unit.by_slot[0] == pytest.approx(unit.rps)
    assert unit.by_slot[1] > 2 * unit.rps


def test_limits_that_nothing_keeps_leave_nothing(found) -> None:
    from dataclasses import replace

    best, workload = found
    run = runs(best, workload)[0]
    tight = replace(run.setup, promise=replace(run.setup.promise, tpot_s=1e-6))
    assert of_replica(tight, run.candidate, np.array([0.5, 0.5])) == 0.0


def test_many_slots_have_few_mixes_of_like_lengths() -> None:
    rng = np.random.default_rng(0)
    part = rng.choice([0.1, 0.5, 0.9], 200) + rng.uniform(-0.02, 0.02, 200)
    shares = [[round(float(x), 5), round(float(1 - x), 5)] for x in part]
    traffic = Traffic(slot_s=3600, rate_rps=[1.0] * 200, shares=shares)
    few, which = mixes(Workload(buckets=BUCKETS, traffic=traffic))
    assert len(few) <= MOST
    assert np.abs(few[which] - np.array(shares)).max() < 0.05
    day = traffic.model_copy(update={"rate_rps": [1.0] * 5, "shares": shares[:5]})
    own, each = mixes(Workload(buckets=BUCKETS, traffic=day))
    assert np.allclose(own[each], shares[:5])
    flat = mixes(Workload(buckets=BUCKETS, traffic=Traffic(slot_s=60, rate_rps=[1.0, 2.0])))
    assert (len(flat[0]), flat[1].tolist()) == (1, [0, 0])

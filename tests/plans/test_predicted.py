"""Totals of a plan: whose error each band is, what keeps a limit, and who draws power."""

from __future__ import annotations

from math import exp, log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner import plan
from planner.check import check
from planner.cost.bands import Z80
from planner.cost.student import chance_below
from planner.inputs.workload import Bucket, Slo, Workload
from planner.plans import bands, predicted
from planner.plans.found import Path
from planner.plans.schema import Plan

FIRST, OTHER = 0.4, 0.1
"""Deviations of TTFT and of TPOT, wherever they are told apart below."""


@pytest.fixture(autouse=True)
def one_design(monkeypatch):
    monkeypatch.setattr(predicted, "index_of", lambda setup, candidate: 0)


def group(ttft: float, tpot: float, does: str = "mixed") -> Any:
    """A group whose predictions are off by so much."""
    designs = SimpleNamespace(take=lambda index: None)
    model = SimpleNamespace(sigmas=lambda designs: np.array([[ttft], [tpot]]))
    setup = SimpleNamespace(designs=designs, model=model, risk_z=0.0)
    operation = SimpleNamespace(does=does)
    return SimpleNamespace(setup=setup, operation=operation, candidate=None)


def found(**limits: float | None) -> Any:
    load = Workload(buckets=[Bucket(isl=100, osl=50), Bucket(isl=10, osl=1)], slo=Slo(**limits))
    return SimpleNamespace(workload=load)


def test_the_server_of_the_prompt_answers_for_ttft_and_that_of_the_tokens_for_tpot():
    """Each is less sure of it: the one's requests wait for the other, which takes caches in meanwhile."""
    first, second = group(FIRST, 9.0, "prefill"), group(9.0, OTHER, "decode")
    firsts, others = predicted.times_ms(found(), [Path(0, 2.0, first, second, ttft_s=0.5, tpot_s=0.02)])

    assert firsts == [(2.0, 500.0, pytest.approx(np.hypot(FIRST, 0.35)), 0.0)]
    assert others == [(2.0, 20.0, pytest.approx(np.hypot(OTHER, 0.03)), 0.0)]


def test_answers_of_one_token_have_no_time_between_tokens():
    one = Path(1, 2.0, group(FIRST, OTHER), None, ttft_s=0.5, tpot_s=0.02)

    assert predicted.times_ms(found(), [one])[1] == []
    assert predicted.kept(found(ttft_ms=500.0, tpot_ms=1.0), [one]) == (pytest.approx(0.5), None)


def ways() -> list[Path]:
    """99 of 100 requests have a first token after 500 ms and one each 49 ms, one after 800 and each 20."""
    fast = Path(0, 99.0, group(FIRST, OTHER), None, ttft_s=0.5, tpot_s=0.049)
    return [fast, Path(0, 1.0, group(FIRST, OTHER), None, ttft_s=0.8, tpot_s=0.02)]


def test_the_mean_of_all_ways_says_how_sure_a_limit_is():
    """Errors that ways have in common move them alike, so of one deviation the mean has it, too."""
    ttft, tpot = predicted.kept(found(ttft_ms=1000.0, tpot_ms=50.0), ways())

    assert ttft == pytest.approx(chance_below(log(1000 / 503) / FIRST))
    assert tpot == pytest.approx(chance_below(log(50 / (0.99 * 49 + 0.01 * 20)) / OTHER))


def test_the_bucket_that_is_kept_worst_says_how_sure_a_limit_is():
    late = Path(1, 1.0, group(FIRST, OTHER), None, ttft_s=0.9, tpot_s=0.02)

    assert predicted.kept(found(ttft_ms=1000.0), [*ways(), late])[0] == pytest.approx(
        chance_below(log(1000 / 900) / FIRST)
    )


def test_of_a_percentile_the_worst_way_says_how_sure_a_limit_is():
    """TTFT of the second, however few take it; TPOT of the first."""
    asked = found(ttft_ms=1000.0, tpot_ms=50.0, percentile="p90")
    asked.workload = asked.workload.model_copy(update={"arrivals": "open"})
    ttft, tpot = predicted.kept(asked, ways())

    assert ttft == pytest.approx(chance_below(log(1000 / 800) / FIRST))
    assert tpot == pytest.approx(chance_below(log(50 / 49) / OTHER))


def test_without_a_limit_there_is_no_chance():
    way = Path(0, 1.0, group(FIRST, OTHER), None, ttft_s=0.5, tpot_s=0.02)

    assert predicted.kept(found(ttft_ms=None, tpot_ms=None), [way]) == (None, None)


def test_bands_of_several_ways_are_the_mean_of_theirs():
    band = bands.mean_band([bands.Way(3.0, 10.0, 0.1), bands.Way(1.0, 50.0, 0.3)])

    assert band.value == pytest.approx(20.0)
    assert band.low == pytest.approx((30 * exp(-0.1 * Z80) + 50 * exp(-0.3 * Z80)) / 4)
    assert band.high == pytest.approx((30 * exp(0.1 * Z80) + 50 * exp(0.3 * Z80)) / 4)


@pytest.fixture(scope="module")
def small() -> Plan:
    """One of eight GPUs serves what is asked for."""
    return plan(None, "llama-3.1-8b", gpus="8xH100", rate=3.0, objective="gpus", engine="vllm", explain=False)


@pytest.fixture(scope="module")
def largest() -> Plan:
    """All GPUs serve as much as they can."""
    return plan(None, "llama-3.1-8b", gpus="2xH100", engine="vllm", explain=False)


def test_gpus_in_no_replica_draw_12_per_cent_of_their_limit(small: Plan):
    assert sum(r.count * s.gpus for r in small.replicas for s in r.stages) == 1
    assert small.predicted.watts.value == pytest.approx(small.replicas[0].watts + 7 * 0.12 * 700)
    assert small.predicted.joules_per_tok.value == pytest.approx(
        small.predicted.watts.value / small.predicted.out_tok_per_s.value
    )
    assert check(small) == []


def test_the_energy_objective_is_what_all_gpus_draw():
    made = plan(
        None, "llama-3.1-8b", gpus="4xH100", rate=3.0, objective="energy", engine="vllm", explain=False
    )
    own = sum(r.count * r.watts for r in made.replicas)
    idle = 4 - sum(r.count * s.gpus for r in made.replicas for s in r.stages)

    assert idle > 0
    assert made.proof.objective == pytest.approx(own + idle * 84.0) == made.predicted.watts.value


def test_a_rate_that_was_asked_for_has_no_band_and_a_largest_one_has(small: Plan, largest: Plan):
    assert small.predicted.rps.low == small.predicted.rps.high == pytest.approx(3.0)
    assert largest.predicted.rps.low < 0.95 * largest.predicted.rps.value


def test_a_token_costs_least_where_the_rate_turns_out_highest(largest: Plan):
    p = largest.predicted
    assert p.usd_per_mtok is not None

    assert p.usd_per_mtok.low == pytest.approx(p.usd_per_mtok.value * p.rps.value / p.rps.high)
    assert p.usd_per_mtok.high == pytest.approx(p.usd_per_mtok.value * p.rps.value / p.rps.low)


def test_of_one_way_the_chance_is_that_of_the_band(largest: Plan):
    """Reports show both: log(limit / value) in deviations, of which the band's edge is 1.28 away."""
    p = largest.predicted
    for chance, band, limit in ((p.chance_ttft, p.ttft_ms, 2000.0), (p.chance_tpot, p.tpot_ms, 50.0)):
        sigma = log(band.high / band.value) / Z80
        assert chance == pytest.approx(chance_below(log(limit / band.value) / sigma))

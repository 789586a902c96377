"""The longest requests, one in a hundred at most, that alone decide a plan or that there is none."""

from __future__ import annotations

import time
from functools import cache

import pytest

from planner import plan
from planner.candidates.deadline import late
from planner.errors import Infeasible, OutOfTime
from planner.inputs.workload import Bucket, Slo, Workload
from planner.plans.schema import Plan
from planner.question.asked import read
from planner.why import rare_lengths as module
from planner.why.rare_lengths import rare_lengths, with_rare_lengths

SHARE = 5e-4


def workload(long: int = 8_000, share: float = SHARE, ttft_ms: float | None = 1500.0) -> Workload:
    buckets = [Bucket(isl=500, osl=100, share=1 - share), Bucket(isl=long, osl=100, share=share)]
    return Workload(buckets=buckets, rate_rps=1.0, slo=Slo(ttft_ms=ttft_ms, tpot_ms=50.0))


@cache
def planned(long: int = 8_000, ttft_ms: float | None = 1500.0, gpus: str = "4xL4") -> Plan:
    return plan(
        None,
        "qwen3-4b",
        gpus=gpus,
        workload=workload(long, ttft_ms=ttft_ms),
        engine="vllm",
        objective="gpus",
    )


@pytest.mark.parametrize(
    ("shares", "rare"),
    [
        ((0.5, 0.5), None),
        ((0.99, 0.01), 0.01),
        ((0.989, 0.011), None),
        ((0.991, 0.004, 0.005), 0.009),
        ((0.98, 0.015, 0.005), 0.005),
        ((1.0,), None),
        ((0.0005, 0.9995), None),  # the shortest are rare, not the longest
    ],
)
def test_rare_are_the_longest_of_at_most_one_in_a_hundred(shares, rare):
    buckets = [Bucket(isl=100 * 4**i, osl=10, share=share) for i, share in enumerate(shares)]
    found = rare_lengths(Workload(buckets=buckets, rate_rps=8.0))

    assert (None if found is None else found.share) == (None if rare is None else pytest.approx(rare))
    if found is not None:
        assert [*found.rest.buckets, *found.alone.buckets] == buckets
        assert found.alone.rate_rps == pytest.approx(8.0 * rare)
        assert found.rest.rate_rps == pytest.approx(8.0 * (1 - rare))


def test_a_plan_that_few_long_prompts_decide_names_them_with_what_the_rest_takes():
    """The figure is that of a plan of the rest, and of those alone without the limit on their first token."""
    (told,) = (w for w in planned().warnings if w.code == "rare_lengths_decide")
    rest = planned(long=500)

    assert told.message.startswith("0.05 % of requests (prompts of 8,000 tokens) decide: without them 1 GPU")
    assert told.objective_without == rest.proof.own == 1.0
    assert told.objective_apart >= planned().proof.own
    assert told.objective_apart_without_ttft == 2.0


@pytest.mark.parametrize(("long", "ttft_ms"), [(500, 1500.0), (700, 1500.0)])
def test_nothing_is_said_where_they_decide_nothing(long: int, ttft_ms: float):
    assert all(w.code != "rare_lengths_decide" for w in planned(long, ttft_ms).warnings)


def test_that_there_is_no_plan_names_them_and_what_serving_them_apart_takes():
    with pytest.raises(Infeasible) as caught:
        planned(16_000, gpus="2xL4")

    assert "0.05 % of requests (prompts of 16,000 tokens) alone are why" in caught.value.message
    assert "without them there is a plan: 1 GPU" in caught.value.message
    assert "plan them apart: in all" in (caught.value.hint or "")
    assert "--ttft-ms" in (caught.value.hint or "")


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_out_of_time_names_them_with_what_is_known_by_then(seconds: float, monkeypatch: pytest.MonkeyPatch):
    asked = read(None, "qwen3-4b", "4xL4", workload(), {}, {"engine": "vllm", "objective": "gpus"})
    error = with_rare_lengths(late(), asked, time.perf_counter() + seconds)

    assert isinstance(error, OutOfTime)
    assert ("may be why, without them there is a plan: 1 GPU" in error.message) == (seconds > 0)
    monkeypatch.setattr(module, "without", lambda *_: None)
    error = with_rare_lengths(late(), asked, time.perf_counter() + 60.0)
    assert error.message.endswith("whether 0.05 % of requests (prompts of 8,000 tokens) are why is not known")


def test_an_error_of_other_causes_stays_as_it_is():
    """The rest has no plan either."""
    asked = read(None, "qwen3-4b", "1xL4", workload(ttft_ms=1.0), {}, {"engine": "vllm"})
    error = Infeasible("none", hint="more")
    told = with_rare_lengths(error, asked, time.perf_counter() + 60.0)

    assert (told.message, told.hint) == ("none", "more")

"""Requests at random wait for a place: a plan with few of them says so in its first tokens."""

from __future__ import annotations

import pytest

from planner.check import waits
from planner.check.case import open_case
from planner.inputs.workload import Bucket
from planner.plans.schema import Plan
from tests.check.plans import dense


def few(rps: float, batch: int, ttft_ms: float = 100.0, kv_tokens: float = 1e9, **load: object) -> Plan:
    """The first group alone, one server of `batch` places, all requests of 1,024 tokens in and 101 out: a
    prompt takes 0.1 s, a token 19 ms, so each stays 2 s."""
    plan = dense()
    step = plan.replicas[0].step.model_copy(update={"prefill_s": 0.1, "decode_s": 0.019})
    own = {"count": 1, "max_batch": batch, "kv_tokens": kv_tokens, "step": step}
    band = plan.predicted.ttft_ms.model_copy(update={"value": ttft_ms})
    rates = plan.predicted.rps.model_copy(update={"value": rps})
    workload = plan.problem.workload | {"rate_rps": rps, "buckets": [Bucket(isl=1024, osl=101).model_dump()]}
    told = {
        "replicas": [plan.replicas[0].model_copy(update=own)],
        "routing": [plan.routing[0].model_copy(update={"bucket": 0, "replica": "r1", "share": 1.0})],
        "predicted": plan.predicted.model_copy(update={"ttft_ms": band, "rps": rates}),
        "problem": plan.problem.model_copy(update={"workload": workload | load}),
    }
    return plan.model_copy(update=told)


def codes(plan: Plan) -> list[str]:
    return [v.code for v in waits.violations(open_case(plan))]


@pytest.mark.parametrize(
    ("rps", "batch", "waited_s"),
    [(0.25, 1, 1.0), (0.5, 2, 1 / 3), (0.5, 30, 0.0), (1.0, 2, float("inf"))],
)
def test_the_wait_is_half_of_what_erlang_has_by_hand(rps: float, batch: int, waited_s: float):
    """One place, half busy: 0.5 · 2 s / 0.5, halved. Two, one of them busy: 1/3 · 2 s / 1, halved."""
    case = open_case(few(rps, batch))
    assert waits.wait_s(case, case.plan.replicas[0]) == pytest.approx(waited_s)


def test_a_wait_left_out_is_told_and_one_that_is_in_is_not():
    assert codes(few(0.25, 1)) == ["ttft_below_wait"]
    assert not codes(few(0.25, 1, ttft_ms=1100.0))
    assert not codes(few(0.25, 30))


def test_places_are_those_of_the_cache_too():
    """1,074 tokens each on average, and a part of one more: two of 1,100 to 2,100."""
    assert codes(few(0.4, 30, kv_tokens=100.0)) == ["ttft_below_wait"]
    assert not codes(few(0.4, 30, kv_tokens=60_000.0))


@pytest.mark.parametrize(
    "load", [{"rate_rps": None, "arrivals": "closed"}, {"slo": {"ttft_ms": 3000.0, "percentile": "p90"}}]
)
def test_of_closed_loops_and_percentiles_nothing_is_said(load: dict[str, object]):
    assert not codes(few(0.25, 1, **load))

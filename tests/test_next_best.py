"""Where a plan fails its check the next best is given; where time runs out, what was found by then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from planner import api
from planner.check import check
from planner.errors import OutOfTime
from planner.inputs.workload import Workload
from planner.plans import verified
from planner.plans.verified import Unsound

QUESTION: dict[str, Any] = {
    "cluster": None,
    "model": "qwen3-8b",
    "gpus": "4xL4",
    "engine": "vllm",
    "workload": "chat",
    "explain": False,
}

REPLAYED = {**QUESTION, "gpus": "4xL40S", "rate": 2.0, "e2e_ms": 20_000.0, "objective": "gpus"}
"""Whole requests are promised, so that a replay sizes the plan."""


@dataclass(frozen=True)
class Broken:
    message: str = "too full"
    where: str = "replicas[0]"


@pytest.mark.parametrize("question", [QUESTION, REPLAYED])
def test_the_next_best_plan_is_given_with_the_bound_of_all(
    monkeypatch: pytest.MonkeyPatch, question: dict[str, Any]
):
    best = api.plan(**question)
    designs = {(r.tp, r.pp, r.role) for r in best.replicas}

    def suspicious(plan: Any) -> Any:
        return [Broken()] if designs & {(r.tp, r.pp, r.role) for r in plan.replicas} else check(plan)

    monkeypatch.setattr(verified, "check", suspicious)
    other = api.plan(**question)

    assert not designs & {(r.tp, r.pp, r.role) for r in other.replicas}
    sign = 1 if other.proof.sense == "max" else -1
    values = [sign * x for x in (other.proof.objective, best.proof.objective, other.proof.bound)]
    assert values[0] < values[1] <= values[2] + 1e-9 * abs(values[2])
    (warning,) = [w for w in other.warnings if w.code == "unsound"]
    assert "too full (at replicas[0])" in warning.message
    assert not [w for w in best.warnings if w.code == "unsound"]


def test_a_mistake_in_every_plan_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verified, "check", lambda plan: [Broken()])
    with pytest.raises(Unsound, match="too full"):
        api.plan(**QUESTION)


def test_a_question_that_is_too_large_for_its_time_ends_in_time():
    buckets = [{"isl": 10 + 97 * i, "osl": 5 + 13 * i, "share": 1.0} for i in range(60)]
    with pytest.raises(OutOfTime, match="before any plan was found"):
        api.plan(**{**QUESTION, "workload": Workload.model_validate({"buckets": buckets})}, time_limit_s=0.01)

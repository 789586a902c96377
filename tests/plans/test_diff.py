"""What `diff` says of two plans."""

from __future__ import annotations

import json
from typing import Any

from planner.plans.diff import Change, diff
from planner.plans.schema import Plan
from tests.check.plans import dense, golden, pair


def changed(plan: Plan, **parts: Any) -> Plan:
    return Plan.model_validate(json.loads(plan.model_dump_json(by_alias=True)) | parts)


def test_a_plan_does_not_differ_from_itself() -> None:
    assert diff(golden(), golden()) == []


def test_names_order_and_timing_do_not_count() -> None:
    plan = dense()
    data = json.loads(plan.model_dump_json(by_alias=True))
    for replica in data["replicas"]:
        replica["id"] += "x"
    for route in data["routing"]:
        route["replica"] += "x"
    data["replicas"].reverse()
    data["proof"]["seconds"] = 99.0

    assert diff(plan, Plan.model_validate(data)) == []


def test_a_changed_count_is_told_by_design() -> None:
    plan = dense()
    data = json.loads(plan.model_dump_json(by_alias=True))
    data["replicas"][0]["count"] = 3

    assert diff(plan, Plan.model_validate(data)) == [
        Change("replicas[mixed tp1 on h, vllm, bf16/bf16/kv bf16].count", 4, 3)
    ]


def test_designs_of_only_one_plan_are_told_with_none() -> None:
    found = {change.where: change for change in diff(dense(), pair())}

    gone = found["replicas[mixed tp2 on h, vllm, bf16/bf16/kv bf16].count"]
    come = found["replicas[prefill tp1 on h, vllm, bf16/bf16/kv bf16].count"]
    assert (gone.before, gone.after) == (2, None)
    assert (come.before, come.after) == (None, 2)


def test_figures_and_the_question_are_compared() -> None:
    before = golden()
    data = json.loads(before.model_dump_json(by_alias=True))
    data["predicted"]["rps"]["value"] *= 1.25
    data["problem"]["workload"]["slo"]["tpot_ms"] = 40.0
    data["warnings"] = []
    found = {change.where: change for change in diff(before, Plan.model_validate(data))}

    assert set(found) == {"predicted.rps", "problem.workload.slo.tpot_ms", "warnings"}
    assert round(found["predicted.rps"].ratio or 0, 6) == 0.25
    assert found["problem.workload.slo.tpot_ms"].after == 40.0
    assert found["warnings"].after is None


def test_a_figure_that_cannot_be_known_is_none() -> None:
    before = golden()
    predicted = json.loads(before.predicted.model_dump_json()) | {"usd_per_hour": None}
    found = diff(before, changed(before, predicted=predicted))

    assert [(c.where, c.after, c.ratio) for c in found] == [("predicted.usd_per_hour", None, None)]

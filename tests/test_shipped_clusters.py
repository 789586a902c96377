"""Every cluster that comes along, and every kind of replica, is planned as before: a sound plan, proven
within the gap, on all GPUs or with a word about those left idle."""

from __future__ import annotations

import json

import pytest

from benchmarks.shipped import FOLDER, MODELS
from cluster_configs.reading import read_cluster
from planner import api
from planner.check import check
from planner.plans.schema import Plan
from tests.golden_plans import GAP, MADE_ON, NAMES, PLANS, WORK, canonical, machine, planned


def test_every_example_has_a_model_here():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(MODELS)


LEFT_OPEN = {"long-prompts": 0.012}
"""Few replicas whose times jump with load: no fleet was found nearer to what means over routes allow."""


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_as_it_was_sound_and_proven_and_says_what_idles(name: str):
    """One test, so that each plan is made once; where it moves: `python -m tests.golden_plans NAME`."""
    plan = planned(name)

    assert plan.proof.status in ("optimal", "within_gap") or name in LEFT_OPEN
    assert plan.proof.gap <= LEFT_OPEN.get(name, GAP)
    assert plan.predicted.rps.value > 0
    assert check(plan) == []
    if name in MODELS:
        assert _idle(plan, name) == {w.node_class: w.count for w in plan.warnings if w.code == "idle_gpus"}
        assert all(w.reason for w in plan.warnings if w.code == "idle_gpus")
    before = (PLANS / f"{name}.json").read_text(encoding="utf-8")
    if canonical(plan) != before and json.loads(MADE_ON.read_text(encoding="utf-8")) != machine():
        assert plan.proof.objective == pytest.approx(json.loads(before)["proof"]["objective"], rel=GAP)
        pytest.skip("the plan differs, and was made on another kind of machine: it is as good")
    assert canonical(plan) == before


def _idle(plan: Plan, name: str) -> dict[str, int]:
    """GPUs of each class that no replica has."""
    there = {node.id: node.gpus for node in read_cluster(str(FOLDER / f"{name}.yaml")).classes}
    busy = dict.fromkeys(there, 0)
    for replica in plan.replicas:
        for stage in replica.stages:
            busy[stage.node_class] += replica.count * stage.gpus
    return {name: there[name] - busy[name] for name in there if busy[name] < there[name]}


@pytest.mark.parametrize("name", ["lab", "melange-cloud", "three-zones", "mi300x-8"])
def test_an_example_with_a_light_load_serves_just_that(name: str):
    rate = 0.1 if name == "mi300x-8" else 3.0  # 405B in 16 bits: TPOT is 42 ms with one request
    asked = {"rate": rate, "gap": GAP, "work_limit": WORK, "explain": False}
    plan = api.plan(FOLDER / f"{name}.yaml", MODELS[name], **asked)

    assert plan.predicted.rps.value == pytest.approx(rate)
    assert plan.proof.unit in ("USD/h", "GPUs")
    assert plan.proof.gap <= GAP
    assert check(plan) == []


def test_the_default_promise_is_relaxed_where_an_old_gpu_cannot_keep_it():
    asked = {"engine": "trtllm", "work_limit": WORK, "explain": False}
    plan = api.plan(FOLDER / "three-zones.yaml", "llama-3.1-70b", **asked)

    assert [w.code for w in plan.warnings].count("slo_relaxed") == 1
    assert plan.problem.workload["slo"]["tpot_ms"] > 50
    assert check(plan) == []

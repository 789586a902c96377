"""Every cluster that comes along is planned as it stands: a sound plan, proven within the gap, on all GPUs or
with a word about those left idle."""

from __future__ import annotations

import pytest

from benchmarks.shipped import FOLDER, MODELS
from cluster_configs.reading import read_cluster
from planner import api
from planner.check import check
from planner.plans.schema import Plan

GAP = 0.01
WORK = 1000
"""Branch-and-bound nodes: the same answer on any machine."""

plans: dict[tuple[str, float | None], Plan] = {}


def planned(name: str, rate: float | None = None) -> Plan:
    """The plan of one example, made once."""
    if (name, rate) not in plans:
        file = FOLDER / f"{name}.yaml"
        plans[name, rate] = api.plan(file, MODELS[name], rate=rate, engine="any", gap=GAP, work_limit=WORK)
    return plans[name, rate]


def test_every_example_has_a_model_here():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_an_example_is_planned_within_the_gap(name: str):
    plan = planned(name)

    assert plan.proof.status in ("optimal", "within_gap")
    assert plan.proof.gap <= GAP
    assert plan.predicted.rps.value > 0
    assert check(plan) == []


@pytest.mark.parametrize("name", MODELS)
def test_every_gpu_of_an_example_works_or_is_said_to_be_idle(name: str):
    plan = planned(name)
    there = {node.id: node.gpus for node in read_cluster(str(FOLDER / f"{name}.yaml")).classes}
    busy = dict.fromkeys(there, 0)
    for replica in plan.replicas:
        for stage in replica.stages:
            busy[stage.node_class] += replica.count * stage.gpus
    idle = {w.node_class: w for w in plan.warnings if w.code == "idle_gpus"}

    assert {name: there[name] - busy[name] for name in there if busy[name] < there[name]} == {
        name: warning.count for name, warning in idle.items()
    }
    assert all(warning.reason for warning in idle.values())


@pytest.mark.parametrize("name", ["lab", "melange-cloud", "three-zones", "mi300x-8"])
def test_an_example_with_a_light_load_serves_just_that(name: str):
    rate = 0.5 if name == "mi300x-8" else 3.0
    plan = planned(name, rate)

    assert plan.predicted.rps.value == pytest.approx(rate)
    assert plan.proof.unit in ("USD/h", "GPUs")
    assert plan.proof.gap <= GAP
    assert check(plan) == []


def test_the_default_promise_is_relaxed_where_an_old_gpu_cannot_keep_it():
    plan = api.plan(FOLDER / "three-zones.yaml", "llama-3.1-70b", engine="trtllm", work_limit=WORK)

    assert [w.code for w in plan.warnings].count("slo_relaxed") == 1
    assert plan.problem.workload["slo"]["tpot_ms"] > 50
    assert check(plan) == []

"""Fleets that `predict` alone tells of, against bounds: which count, and what they have of each goal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.honest import predicted
from benchmarks.honest.answers import Answer, Effort, ask
from benchmarks.honest.problems import Problem
from cluster_configs.reading import from_gpus
from planner.cost.power import idle_watts
from planner.inputs.workload import Bucket, Slo

ONE = Problem(
    ((2, "l4"),), "qwen3-8b", (Bucket(isl=512, osl=128),), Slo(), "energy", rate=0.5, engine="vllm", risk=0.2
)
MOE = replace(ONE, entries=((4, "h100-sxm"),), model="qwen3-30b-a3b", rate=8.0)


@pytest.mark.parametrize("objective", ["energy", "latency", "gpus"])
def test_no_fleet_of_predict_beats_a_bound_and_the_best_is_near(objective):
    answer = ask(replace(ONE, objective=objective), Effort(seconds=30.0, gap=0.01))
    (found,) = predicted.compared(answer)

    assert not found.refuted
    assert found.excess > -0.05  # one design of two GPUs: nearly the plan itself


def test_experts_are_divided_in_all_ways_and_a_false_bound_is_refuted():
    value, told = predicted.best_of(MOE)
    answer = ask(MOE, Effort(seconds=30.0, gap=0.01))
    false = answer.plan.proof.model_copy(update={"bound": 1.1 * value})
    bold = replace(answer, plan=answer.plan.model_copy(update={"proof": false}))

    assert {row["ep"] for row in predicted.layouts(MOE, told.node)} == {"1", "2", "4"}
    assert value >= answer.bound * (1 - 1e-6)
    assert [one.refuted for one in predicted.compared(bold)] == [True]


def test_watts_count_gpus_at_rest():
    cluster = from_gpus(ONE.gpus)
    (node,) = cluster.classes
    told = [one for one in predicted.fleets(ONE.limited(None, None), cluster) if one.gpus == 1]
    rest = idle_watts(node.device.tdp_watts)

    assert told
    for one in told:
        assert predicted.figure(ONE, cluster, one) == pytest.approx(one.prediction.watts + rest)


def test_limits_are_kept_with_the_caution_of_the_risk():
    cluster = from_gpus(ONE.gpus)
    free = list(predicted.fleets(ONE.limited(None, None), cluster))
    limit = 1.01 * min(one.prediction.tpot_ms for one in free)
    many, few = (
        list(predicted.fleets(replace(ONE, risk=risk).limited(None, limit), cluster)) for risk in (0.5, 0.05)
    )

    assert len(free) > len(many) > len(few) == 0
    assert all(one.prediction.tpot_ms <= limit for one in many)


def test_three_kinds_of_request_are_judged_where_they_have_no_limits():
    three = tuple(Bucket(isl=isl, osl=osl, share=0.3) for isl, osl in ((512, 128), (2048, 64), (256, 300)))
    problem = replace(ONE, buckets=three)
    free = problem.limited(None, None)

    assert predicted.best_of(problem) is None
    assert predicted.best_of(replace(free, objective="latency")) is None
    assert predicted.best_of(free) is not None
    assert list(predicted.compared(Answer(problem, "infeasible"))) == []

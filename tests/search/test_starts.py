"""Fleets of one kind, of a pair of kinds and of other goals for `--objective energy`: none is better than the
fleet that the search ends with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.inputs.workload import Bucket, Workload
from planner.plans.strain import watts
from planner.question.asked import read
from planner.question.posed import pose
from planner.search import find as module
from planner.search import starts
from planner.search.find import find
from planner.search.starts import best_start
from solvers import fleet
from solvers.linear import Limits

LIMITS = Limits(gap=0.01, work=1000)


TWO = Workload(
    buckets=[Bucket(isl=512, osl=128, share=0.6), Bucket(isl=4096, osl=512, share=0.4)], rate_rps=8.0
)


def posed(objective="energy", rate=20.0, workload="chat", **options):
    loads = {"rate": rate} if workload == "chat" else {}
    options = {"objective": objective, **options}
    return pose(read(None, "qwen3-30b-a3b", "4xH100", workload, loads, options))[1:]


@pytest.fixture(scope="module")
def energy():
    return posed()


def test_no_kind_of_replica_alone_draws_less_than_the_fleet_found(energy):
    """Pipelines of two stages drew 0.6 % less than the split that the bound's lines had chosen."""
    pool, question = energy
    found = find(question, pool, LIMITS)
    empty = module.Found(
        question.cluster,
        question.workload,
        question.objective,
        pool,
        question.state(pool, "bound"),
        found.solution,
    )
    alone = best_start(question, empty, LIMITS)
    kinds = {c.kind: c for c in pool.candidates if c.role == "mixed"}
    some = [k for k in sorted(kinds) if "tp1 " in k or "pp2 " in k or "tp2 " in k]

    assert alone is not None
    assert len(some) > 3
    for name in some:
        own = replace(pool, candidates=tuple(c for c in pool.candidates if c.kind == name))
        theirs = find(question, own, LIMITS).solution.objective
        for mine in (alone, found):
            assert theirs is None or mine.solution.objective <= theirs * (1 + 1e-6), name


@pytest.fixture(scope="module")
def two_kinds_of_request():
    pool, question = posed(workload=TWO, engine="sglang")
    return pool, question, find(question, pool, replace(LIMITS, gap=0.2))


@pytest.mark.parametrize("goal", ["gpus", "cost"])
def test_no_other_goal_draws_less(two_kinds_of_request, goal):
    """Where requests are of several kinds, the bound's lines lie far below: they chose worse fleets."""
    _, _, found = two_kinds_of_request
    pool, question = posed(goal, workload=TWO, engine="sglang")
    other = find(question, pool, LIMITS)

    assert found.solution.objective <= watts(other, module.groups(other)) * (1 + 1e-6)


def test_no_pair_of_kinds_draws_less(two_kinds_of_request):
    pool, question, found = two_kinds_of_request
    bounding = question.state(pool, "bound")
    parts = (question.cluster, question.workload, question.objective, pool, bounding)
    empty = module.Found(*parts, fleet.solve(bounding, LIMITS))
    served = {w: 8.0 * share for w, share in bounding.share.items()}
    pairs = sorted(starts._pairs(empty, served), key=lambda one: one.watts)
    kept = [starts.carrying(question, starts._stated(empty, one, served), LIMITS) for one in pairs[:12]]
    drawn = [one.solution.objective for one in kept if one is not None]

    assert len(pairs) > 12
    assert all(one.watts <= value * (1 + 1e-6) for one, value in zip(pairs, drawn, strict=False))
    assert drawn
    assert found.solution.objective <= min(drawn) * (1 + 1e-6)


def test_only_where_watts_are_minimised():
    pool, question = posed("gpus")
    bounding = question.state(pool, "bound")
    parts = (question.cluster, question.workload, question.objective, pool, bounding)

    assert best_start(question, module.Found(*parts, fleet.solve(bounding, LIMITS)), LIMITS) is None

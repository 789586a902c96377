"""Fleets of one kind for `--objective energy`: none is better than what the search ends with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.question.asked import read
from planner.question.posed import pose
from planner.search import find as module
from planner.search.find import find
from planner.search.starts import of_one_kind
from solvers import fleet
from solvers.linear import Limits

LIMITS = Limits(gap=0.01, work=1000)


def posed(objective="energy", rate=20.0):
    asked = read(None, "qwen3-30b-a3b", "4xH100", "chat", {"rate": rate}, {"objective": objective})
    return pose(asked)[1:]


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
    alone = of_one_kind(question, empty, LIMITS)
    kinds = {c.kind: c for c in pool.candidates if c.role == "mixed"}
    some = [k for k in sorted(kinds) if "tp1 " in k or "pp2 " in k or "tp2 " in k]

    assert alone is not None
    assert len(some) > 3
    for name in some:
        own = replace(pool, candidates=tuple(c for c in pool.candidates if c.kind == name))
        theirs = find(question, own, LIMITS).solution.objective
        for mine in (alone, found):
            assert theirs is None or mine.solution.objective <= theirs * (1 + 1e-6), name


def test_only_where_watts_are_minimised():
    pool, question = posed("gpus")
    bounding = question.state(pool, "bound")
    parts = (question.cluster, question.workload, question.objective, pool, bounding)

    assert of_one_kind(question, module.Found(*parts, fleet.solve(bounding, LIMITS)), LIMITS) is None

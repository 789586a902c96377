"""Fleets of the plan's own problem keep what they promise; out of time a plainer one is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.inputs.options import Survive
from planner.plans.found import groups
from planner.plans.strain import SLACK, broken, strain, watts
from planner.search import sound
from planner.search.sound import sound_fleet
from planner.search.traffic import short_of
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits
from tests.beside.solved import on, solved

LIMITS = Limits(gap=0.01, seconds=10)


def answer(asked, **changed):
    """The sound fleet of a question, with its problem `changed`."""
    question, found = asked[1:]
    return sound_fleet(question, found.pool, replace(question.state(found.pool), **changed), LIMITS, 0.1)


def test_what_it_finds_keeps_every_limit_and_is_no_better_than_the_bound():
    asked = solved("2xH100", "llama-3.1-8b", tpot_ms=50, ttft_ms=500)
    own = answer(asked)

    assert strain(own, groups(own)) <= 1 + SLACK
    assert not broken(own, groups(own))
    assert 0.9 * asked[2].solution.bound <= own.solution.objective <= asked[2].solution.bound * (1 + 1e-5)


def test_a_column_that_promises_too_much_is_loaded_less_until_it_keeps_the_promise():
    """Its rows at half of what they are, the program sends twice as much, and the one model says late."""
    question, found = solved("1xH100", "llama-3.1-8b", tpot_ms=50)[1:]
    problem = question.state(found.pool)
    half = {
        c: replace(k, use={j: {w: u / 2 for w, u in row.items()} for j, row in k.use.items()})
        for c, k in problem.columns.items()
    }
    own = answer((None, question, found), columns=half)

    assert strain(own, groups(own)) <= 1 + SLACK
    assert own.solution.rate == pytest.approx(found.solution.rate, rel=0.03)


def test_where_a_node_may_be_lost_the_rest_serves_its_share():
    """Two nodes of one GPU, of which either alone serves all of a rate that takes more than one of four."""
    form = Node(name="n", device="l4", count=3, price_usd_per_hour=1.0, gpus_per_node=1)
    cluster = resolve(Cluster(nodes=[form]))
    asked = on(cluster, "llama-3.1-8b", rate=1.0, objective="cost", survive="node")
    own = answer(asked)

    assert short_of(asked[1], own, LIMITS) <= 1 + SLACK
    assert own.solution.rate == pytest.approx(1.0)


def test_a_rest_that_is_short_is_left_more_in_the_next_round(monkeypatch):
    """By hand: short by a tenth, so a tenth and a fiftieth of that more than its share."""
    asked = solved("1xH100", "llama-3.1-8b", tpot_ms=50)
    question = replace(asked[1], survive=Survive(nodes=1, share=0.5))
    problem, seen = question.state(asked[2].pool), []
    free = replace(problem, survive=None)
    real = sound.fleet.solve

    def solve(given, *more):
        seen.append(given.survive.share)
        return real(free, *more)

    monkeypatch.setattr(sound.fleet, "solve", solve)
    monkeypatch.setattr(sound, "settled", lambda question, problem, s, *_: s)
    monkeypatch.setattr(sound, "carrying", lambda q, found, *_: found if len(seen) > 2 else None)
    monkeypatch.setattr(sound, "short_of", lambda *_: 1.1)

    assert sound_fleet(question, asked[2].pool, problem, LIMITS, 0.1) is not None
    assert seen == pytest.approx([0.5, 0.5 * 1.1 * 1.02, 0.5 * (1.1 * 1.02) ** 2])


def test_a_problem_without_columns_has_no_fleet():
    assert answer(solved("1xH100", "llama-3.1-8b", tpot_ms=50), columns={}, pairs={}) is None


@pytest.mark.parametrize("rests", [True, False])
def test_out_of_time_the_largest_batch_of_each_layout_is_planned_under_the_bound_so_far(monkeypatch, rests):
    asked = solved("1xH100", "llama-3.1-8b", tpot_ms=50)
    real, calls = sound.fleet.solve, []

    def late(problem, *more):
        calls.append(problem)
        bound = 1e3 if rests else None
        return FleetSolution("time_limit", None, bound, "none") if len(calls) == 1 else real(problem, *more)

    monkeypatch.setattr(sound.fleet, "solve", late)
    own = answer(asked)

    mixed = [c for c in asked[2].pool.candidates if c.id in calls[1].columns]
    assert len(calls[1].columns) < len(calls[0].columns)
    assert {c.role for c in mixed} == {"mixed"}
    assert not calls[1].pairs
    best = {}
    for c in asked[2].pool.candidates:
        if c.id in calls[0].columns and c.role == "mixed":
            best[str(c.design)] = max(best.get(str(c.design), 0), c.batch)
    assert {str(c.design): c.batch for c in mixed} == best
    assert (own.solution.status, own.solution.objective > 0) == ("time_limit", True)
    assert own.solution.bound >= own.solution.objective
    assert (own.solution.bound == 1e3) == rests


def test_watts_at_the_real_load_keep_the_budget_where_latency_counted_them_at_rest():
    free = solved("4xH100", "llama-3.1-8b", rate=20.0, objective="latency")
    drawn = watts(free[2], groups(free[2]))
    question = free[1]
    capped = replace(question, budget=question.budget.model_copy(update={"watts": 0.9 * drawn}))
    own = sound_fleet(capped, free[2].pool, capped.state(free[2].pool), LIMITS, 0.1)

    assert own is None or watts(own, groups(own)) <= 0.9 * drawn * (1 + SLACK)
    assert own is not None

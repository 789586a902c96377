"""The simplest fleet that is near enough to the best, against one search for each number of kinds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner import api
from planner.search import shortlists, simple
from planner.search.find import find
from planner.search.simple import kinds, simplest
from solvers.linear import Limits
from tests.beside.solved import solved

LIMITS = Limits(gap=0.002, work=1000)
TWO = {"gpus": "8xH100,8xL40S", "model": "llama-3.1-8b"}
ASKED = {
    "one class": {"tpot_ms": 30},
    "throughput": TWO,
    "gpus": {**TWO, "rate": 60.0, "objective": "gpus"},
    "energy": {**TWO, "gpus": "4xH100,4xL40S", "rate": 40.0, "objective": "energy"},
    "latency": {**TWO, "rate": 60.0, "objective": "latency"},
}
THREE = {"gpus": "2xH100,2xA100,2xL40S", "model": "llama-3.1-8b", "engine": "vllm"}


@cache
def known(case):
    """The question, its best fleet, and the best objective of each number of kinds up to its own."""
    _, question, best = solved(**ASKED.get(case, THREE))
    found = {k: find(replace(question, most_kinds=k), best.pool, LIMITS) for k in range(1, kinds(best))}
    return question, best, {k: f.solution.objective for k, f in found.items()}


@pytest.mark.parametrize("share", [0.03, 0.1, 0.6])
@pytest.mark.parametrize("case", ASKED)
def test_it_has_the_fewest_kinds_that_lose_no_more_than_asked_for(case, share, monkeypatch):
    monkeypatch.setattr(simple, "PRICED", 0)  # what is near enough is not found by looking at all
    question, best, by_kinds = known(case)
    value = best.solution.objective
    lost = {k: question.objective.loss(value, v) for k, v in by_kinds.items() if v is not None}
    near = [k for k, x in lost.items() if x <= share]
    made = simplest(question, best, share, LIMITS)

    assert kinds(made.chosen) == min(near, default=kinds(best))
    assert (
        -1e-6
        <= question.objective.loss(made.best.solution.objective, made.chosen.solution.objective)
        <= share
    )
    assert made.by_kinds[-1] == (kinds(made.best), made.best.solution.objective)
    assert (kinds(made.chosen), made.chosen.solution.objective) in made.by_kinds


def test_a_fleet_that_is_the_best_by_chance_stands_in_all_that_the_bound_speaks_of(monkeypatch):
    """It was found among few candidates, with few kinds of replica."""
    question, best, _ = known("throughput")
    few = tuple(c for c in best.pool.candidates if c.id in best.solution.replicas)
    small = replace(best.pool, candidates=few)
    chosen = replace(
        best, pool=small, bounding=replace(question, most_kinds=kinds(best)).state(small, "bound")
    )
    monkeypatch.setattr(simple._Fewer, "near_enough", lambda *_: chosen)
    monkeypatch.setattr(simple, "without_copies", lambda question, best, chosen, *rest: chosen)
    made = simplest(question, best, 0.03, LIMITS)

    assert made.chosen is chosen
    assert made.best.pool.candidates == best.pool.candidates
    assert made.best.space is best.space
    assert made.best.solution.bound == best.solution.bound


def test_the_list_tells_what_fewer_kinds_give_even_where_they_are_too_far():
    question, best, by_kinds = known("one class")
    made = simplest(question, best, 0.15, LIMITS)

    assert made.chosen is best
    assert [k for k, _ in made.by_kinds] == [1, 2]
    assert made.by_kinds[0][1] == pytest.approx(by_kinds[1], rel=0.01)
    assert by_kinds[1] < 0.85 * best.solution.objective


@pytest.mark.parametrize("times", [0.9, 1.1])
def test_kinds_beyond_the_second_bring_more_than_their_own_band(times, monkeypatch):
    """One class of three is left out where that loses less than the band, though nothing else asks for it."""
    monkeypatch.setattr(simple, "without_copies", lambda question, best, chosen, *rest: chosen)
    question, best, by_kinds = known("three classes")
    value = best.solution.objective
    lost = question.objective.loss(value, by_kinds[2])
    monkeypatch.setattr(simple, "own_band", lambda found, few: times * lost)
    made = simplest(question, best, 0.001, LIMITS)

    assert kinds(best) > 2
    assert (kinds(made.chosen) == 2) is (times > 1)
    assert made.unpaid == (times * lost if times > 1 else None)
    assert question.objective.loss(value, made.chosen.solution.objective) <= times * lost
    assert simplest(question, best, 0.0, LIMITS).chosen is best


def test_who_gives_up_nothing_gets_the_best():
    question, best, _ = known("one class")

    assert simplest(question, best, 0.0, LIMITS).chosen is best


def test_where_only_pairs_keep_the_limits_one_kind_is_none():
    peers = {"device": "l40s", "count": 2, "peer_to_peer": True, "nic": "roce"}
    plan = api.plan(
        resolve(Cluster.model_validate({"nodes": [peers]})),
        "qwen3-32b",
        isl=1885,
        osl=2081,
        ttft_ms=588.5,
        tpot_ms=20.42,
        risk=0.5,
        explain=False,
    )

    assert {r.role for r in plan.replicas} == {"prefill", "decode"}
    assert min(k.kinds for k in plan.proof.kinds) == 2


def test_foremost_are_those_that_the_best_fleets_could_have(monkeypatch):
    monkeypatch.setattr(shortlists, "FOREMOST", 2)
    question, best, _ = known("throughput")
    a, b, c = best.pool.candidates[:3]
    least = {a.id: 5.0, b.id: 9.0, c.id: 7.0}

    assert shortlists.foremost(best.pool, least, question.sign).candidates == (b, c)  # more is better
    assert shortlists.foremost(best.pool, least, 1.0).candidates == (a, c)
    assert shortlists.foremost(best.pool, {}, 1.0) is best.pool


def test_out_of_time_it_is_looked_for_among_the_kinds_of_the_best(monkeypatch):
    question, best, _ = known("energy")
    own = {best.candidates[c].kind for c, _ in best.solution.flows}
    nothing = replace(best.solution, objective=None, status="time_limit")

    def slow(asked, pool, limits):
        late = any(c.kind not in own for c in pool.candidates)
        return replace(best, solution=nothing) if late else find(asked, pool, limits)

    monkeypatch.setattr(simple, "find", slow)
    monkeypatch.setattr(simple, "without_copies", lambda question, best, chosen, *rest: chosen)
    made = simplest(question, best, 3.0, LIMITS)

    assert kinds(made.chosen) < kinds(best)
    assert {made.chosen.candidates[c].kind for c, _ in made.chosen.solution.flows} <= own


@pytest.mark.parametrize("share", [0.05, 0.6])
@pytest.mark.parametrize("case", ["throughput", "energy"])
def test_of_many_kinds_the_fewest_of_the_best_fleets_own_are_taken(case, share, monkeypatch):
    monkeypatch.setattr(simple, "MOST", 0)
    monkeypatch.setattr(simple, "without_copies", lambda question, best, chosen, *rest: chosen)
    question, best, _ = known(case)
    own = {best.candidates[c].kind for c, _ in best.solution.flows}
    few = replace(best.pool, candidates=tuple(c for c in best.pool.candidates if c.kind in own))
    made = simplest(question, best, share, LIMITS).chosen

    def near(k):
        theirs = find(replace(question, most_kinds=k), few, LIMITS).solution.objective
        return theirs is not None and question.objective.loss(best.solution.objective, theirs) <= share

    assert {made.candidates[c].kind for c, _ in made.solution.flows} <= own
    assert kinds(made) == min((k for k in range(1, kinds(best)) if near(k)), default=kinds(best))

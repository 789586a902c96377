"""What caution costs, where nobody said how sure a plan must be."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.beside import risk
from planner.beside.planned import Planned
from planner.beside.risk import risk_price
from planner.inputs.options import MEDIAN, RISK
from planner.plans.found import Found
from planner.plans.schema import Alternative
from planner.question.asked import Asked, read
from planner.question.posed import pose
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.question import Question
from planner.search.simple import simplest
from solvers.linear import Limits

LIMITS = Limits(gap=0.0, work=500)


def solved(
    loads: dict[str, Any], options: dict[str, Any], gpus: str = "1xH100"
) -> tuple[Asked, Question, Found]:
    asked = read(None, "llama-3.1-8b", gpus, "chat", loads, {"engine": "vllm", "gap": 0.0, **options})
    asked, pool, question = pose(asked)
    return asked, question, find(question, pool, LIMITS)


def priced(loads: dict[str, Any], gpus: str = "1xH100", **options: Any) -> tuple[list[Alternative], Found]:
    asked, question, found = solved(loads, options, gpus)
    return risk_price(Planned(asked, question, found, LIMITS)), found


def test_it_is_what_a_plan_at_the_median_serves():
    (told,), found = priced({"tpot_ms": 30.0})
    _, _, bold = solved({"tpot_ms": 30.0}, {"risk": MEDIAN})

    assert told.what == "limits kept by the median prediction (--risk 0.5)"
    assert told.objective == pytest.approx(bold.solution.objective)
    assert told.objective > 1.01 * found.solution.objective
    assert told.loss == 0
    assert re.search(r"with a chance of 5\d %, this plan with 8\d %$", told.why)


def few_kinds(nodes: list[Node], **loads: Any) -> Planned:
    """The fleet that a plan on these nodes chooses for its few kinds of replica."""
    cluster = resolve(Cluster(nodes=nodes))
    asked, pool, question = pose(read(cluster, "llama-3.1-8b", None, "chat", loads, {"engine": "sglang"}))
    limits = Limits(gap=0.0, work=2000)
    chosen = simplest(question, find(question, pool, limits), 0.03, limits).chosen
    return Planned(asked, question, chosen, limits)


def test_what_a_plan_of_few_kinds_gives_up_is_no_part_of_what_caution_costs():
    """Four H100 are chosen without the L4 that serves a little more beside them, and are as they are where
    there is no L4 at all: so is what they would gain by being bold."""
    alone = [Node(name="n", device="h100-sxm", gpus_per_node=1, count=4)]
    mixed = [*alone, Node(name="small", device="l4", gpus_per_node=1)]
    of_both, of_one = few_kinds(mixed, tpot_ms=36.0), few_kinds(alone, tpot_ms=36.0)
    (ours,), (theirs,) = risk_price(of_both), risk_price(of_one)

    assert of_both.found.space.most_kinds == 1
    assert ours.objective == pytest.approx(theirs.objective)
    assert "l4" not in ours.why


def test_for_a_rate_it_is_what_a_plan_at_the_median_costs():
    loads = {"tpot_ms": 12.0, "rate": 22.5}
    (told,), found = priced(loads, gpus="4xH100", objective="gpus")
    _, _, bold = solved(loads, {"risk": MEDIAN, "objective": "gpus"}, gpus="4xH100")

    assert told.objective == bold.solution.objective < found.solution.objective
    assert told.loss == 0


def test_where_no_limit_holds_the_plan_back_nothing_is_solved(monkeypatch):
    monkeypatch.setattr(risk, "anew", None)

    assert priced({"tpot_ms": 5000.0, "ttft_ms": 60_000.0})[0] == []


def test_what_the_best_designs_cannot_is_not_said_of_all(monkeypatch):
    """Where none of the best candidates' designs serves the rate, all are looked at."""
    loads = {"tpot_ms": 12.0, "rate": 22.5}
    find, status = risk.find, list[str]()

    def poor(question: Question, pool: Pool, limits: Limits) -> Found:
        first = replace(pool, candidates=() if not status else pool.candidates)
        found = find(question, first, limits)
        status.append(found.solution.status)
        return found

    monkeypatch.setattr(risk, "find", poor)
    (told,), _ = priced(loads, gpus="4xH100", objective="gpus")
    _, _, bold = solved(loads, {"risk": MEDIAN, "objective": "gpus"}, gpus="4xH100")

    assert status == ["infeasible", "optimal"]
    assert told.objective == bold.solution.objective


@pytest.mark.parametrize(
    ("loads", "options"),
    [({}, {"risk": 0.5}), ({}, {"risk": 0.2}), ({"ttft_ms": "none", "tpot_ms": "none"}, {})],
)
def test_a_risk_that_was_asked_for_has_no_price_nor_has_one_without_limits(loads: Any, options: Any):
    assert priced(loads, **options)[0] == []


@pytest.mark.parametrize(
    ("options", "assumed", "used"),
    [({}, True, RISK), ({"risk": 0.5}, False, 0.5), ({"engine": "chains"}, False, MEDIAN)],
)
def test_a_risk_is_assumed_where_there_are_bands_and_none_was_asked_for(
    options: Any, assumed: bool, used: float
):
    asked = read(None, "llama-3.1-8b", "1xH100", "chat", {}, options)

    assert ("options.risk" in asked.defaulted) == assumed
    assert asked.options.risk == used

"""What being surer costs, where nobody said how sure."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner.beside import risk
from planner.beside.planned import Planned
from planner.beside.risk import SURER, risk_price
from planner.plans.found import Found
from planner.plans.schema import Alternative
from planner.question.asked import Asked, read
from planner.question.posed import pose
from planner.search.find import find
from planner.search.question import Question
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


def test_it_is_what_a_plan_at_that_risk_serves():
    (told,), found = priced({"tpot_ms": 30.0})
    _, _, surer = solved({"tpot_ms": 30.0}, {"risk": SURER})

    assert told.what == "limits kept with a chance of 80 % (--risk 0.2)"
    assert told.objective == pytest.approx(surer.solution.objective)
    assert told.objective < 0.99 * found.solution.objective
    assert told.loss == pytest.approx(1 - told.objective / found.solution.objective)
    assert re.search(r"this plan keeps them with a chance of 5\d %$", told.why)


def test_for_a_rate_it_is_what_a_plan_at_that_risk_costs():
    loads = {"tpot_ms": 12.0, "rate": 25.5}
    (told,), found = priced(loads, gpus="4xH100", objective="gpus")
    _, _, surer = solved(loads, {"risk": SURER, "objective": "gpus"}, gpus="4xH100")

    assert told.objective == surer.solution.objective > found.solution.objective
    assert told.loss == pytest.approx(told.objective / found.solution.objective - 1)


def test_where_the_plan_is_as_sure_nothing_is_solved(monkeypatch):
    monkeypatch.setattr(risk, "anew", None)
    (told,), found = priced({"tpot_ms": 5000.0, "ttft_ms": 60_000.0})

    assert (told.objective, told.loss, told.why) == (found.solution.objective, 0.0, "this plan keeps them so")


def test_where_nothing_is_as_sure_that_is_said():
    """A prompt alone has its first token after 49 ms."""
    (told,), _ = priced({"ttft_ms": 56.0, "tpot_ms": "none", "isl": 1000})

    assert (told.objective, told.loss) == (None, None)
    assert told.why == "no replica is as sure to keep them"


@pytest.mark.parametrize(
    ("loads", "options"),
    [({}, {"risk": 0.5}), ({}, {"risk": 0.2}), ({"ttft_ms": "none", "tpot_ms": "none"}, {})],
)
def test_a_risk_that_was_asked_for_has_no_price_nor_has_one_without_limits(loads: Any, options: Any):
    assert priced(loads, **options)[0] == []


@pytest.mark.parametrize(
    ("options", "assumed"), [({}, True), ({"risk": 0.5}, False), ({"engine": "chains"}, False)]
)
def test_the_median_prediction_is_assumed_only_where_nothing_else_was_said(options: Any, assumed: bool):
    asked = read(None, "llama-3.1-8b", "1xH100", "chat", {}, options)

    assert ("options.risk" in asked.defaulted) == assumed

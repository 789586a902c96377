"""Pairs of a rate shown and a lower one: drawn for random arrivals, and counted by what became of them."""

from __future__ import annotations

import pytest

from benchmarks.choice import lower_rates
from benchmarks.choice.lower_rates import SHARE, drawn, lower, pairs, report
from benchmarks.choice.sound import Outcome, Question
from planner import api

SMALL = Question("0:0", "llama-3.1-8b", {"gpus": "1xL40S", "engine": "vllm"})


def test_questions_are_for_the_most_random_arrivals_and_never_for_chains():
    every = [drawn(0, number) for number in range(40)]
    asked = [one.options for one in every if one is not None]

    assert None in every
    assert {(o["objective"], o["loop"]) for o in asked} == {("throughput", "open")}
    assert all(o["engine"] != "chains" for o in asked)


def test_the_lower_rate_is_a_share_of_the_one_shown_and_is_served(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lower_rates, "drawn", lambda seed, number: SMALL)
    (pair,) = pairs(1, 0)
    assert pair.most.plan is not None
    shown = pair.most.plan.predicted.rps.value

    assert pair.lower.question.options["rate"] == pytest.approx(SHARE * shown)
    assert pair.what == "served"
    assert pair.lower.plan is not None
    assert pair.lower.plan.problem.options["objective"] == "cost"


def test_a_rate_that_is_said_to_be_infeasible_is_shown_with_its_command(monkeypatch: pytest.MonkeyPatch):
    plan = api.plan(None, SMALL.model, **SMALL.options, explain=False)
    most = Outcome(SMALL, plan, 0)
    refused = Outcome(lower(most), None, 3, "at most 1 req/s")
    monkeypatch.setattr(lower_rates, "pairs", lambda *asked: [lower_rates.Pair(most, refused)])

    shown = report(1)
    assert "infeasible                  1" in shown
    assert "--gpus 1xL40S --engine vllm -m llama-3.1-8b" in shown
    assert "at most 1 req/s" in shown


def test_of_large_clusters_nothing_is_asked_where_small_ones_are(monkeypatch: pytest.MonkeyPatch):
    asked: list[Question] = []
    monkeypatch.setattr(lower_rates, "answer", lambda q, explain: asked.append(q) or Outcome(q, None, 5))

    assert not list(pairs(30, 0, gpus=4))
    assert asked
    assert all(question.gpus <= 4 for question in asked)
    assert Question("0:0", "x", {"gpus": "8xh100,4xl40s"}).gpus == 12

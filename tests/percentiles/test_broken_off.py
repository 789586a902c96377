"""Ctrl-C in one of several plans that are replayed: no further one is looked for."""

from types import SimpleNamespace as Some

import pytest
from pydantic import BaseModel

from planner.errors import OutOfTime
from planner.percentiles import plan as module
from planner.percentiles.plan import replayed
from planner.percentiles.tighten import Trial
from planner.plans.schema import Plan

ASKED = Some(workload=Some(slo=Some(percentile="p95"), rate_rps=4.0))


class Proof(BaseModel):
    status: str


class Made(BaseModel):
    """The `number`th plan."""

    number: int
    proof: Proof
    interrupted = Plan.interrupted


@pytest.fixture
def answers(monkeypatch):
    """What each replay has of the TTFT's limit, and how the search for its plan ended."""
    arrivals = Some(replay=lambda plan: [], needed=lambda plan: Some(rate_rps=6.0))
    monkeypatch.setattr(module, "Arrivals", Some(of=lambda asked: arrivals))
    monkeypatch.setattr(module, "tightly", lambda asked, tight: asked)
    monkeypatch.setattr(module, "told", lambda *_: None)
    monkeypatch.setattr(module, "none_holds", lambda *_: OutOfTime("none holds"))

    def ask(*each: tuple[float, str]) -> tuple[Made, int]:
        left, plans = list(each), list[Made]()

        def judged(tight, plan, objective, runs, workload):
            return Trial(tight, plan, objective, each[plan.number][0], 0.5)

        def solve(asked):
            _, status = left.pop(0)
            plan = Made(number=len(plans), proof=Proof(status=status))
            plans.append(plan)
            return plan, 10.0 + plan.number, lambda what: plan

        monkeypatch.setattr(module, "judged", judged)
        return replayed(ASKED, solve, lambda: False, lambda text: None), len(plans)

    return ask


def test_the_first_plan_that_holds_is_told_where_its_search_was_broken_off(answers):
    plan, tried = answers((0.9, "interrupted"))

    assert (plan.number, plan.proof.status, tried) == (0, "interrupted", 1)


def test_none_is_looked_for_back_after_one_that_was_broken_off(answers):
    plan, tried = answers((1.5, "optimal"), (0.9, "interrupted"))

    assert (plan.number, plan.proof.status, tried) == (1, "interrupted", 2)


def test_one_that_holds_stays_where_a_cheaper_one_was_broken_off(answers):
    plan, tried = answers((1.5, "optimal"), (0.9, "optimal"), (1.2, "interrupted"))

    assert (plan.number, plan.proof.status, tried) == (1, "interrupted", 3)


def test_where_none_holds_yet_the_interrupt_is_heard(answers):
    with pytest.raises(KeyboardInterrupt):
        answers((1.5, "optimal"), (1.2, "interrupted"))

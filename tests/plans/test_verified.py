"""What is checked before anyone sees it: the plan falls by its own mistakes, a line beside it falls alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from planner import api
from planner.beside.rivals import told_once
from planner.check import check
from planner.fleet import finish
from planner.plans.schema import Assumption, Plan
from planner.plans.verified import Unsound, verified

QUESTION: dict[str, Any] = {"model": "qwen3-8b", "gpus": "4xL4", "engine": "vllm", "work_limit": 2000}


@cache
def made() -> Plan:
    return api.plan(None, **QUESTION)


def with_false_bounds(lines: list[Any]) -> list[Any]:
    """Each with a bound that its own objective crosses, as of a search that proved what is not so."""
    return [
        line if line.bound is None else line.model_copy(update={"bound": 0.9 * line.objective})
        for line in lines
    ]


def test_a_sound_plan_is_as_it_was() -> None:
    assert verified(made()) == made()


def test_an_alternative_with_a_false_bound_is_left_out_and_the_others_stay() -> None:
    lines = list(made().alternatives)
    false = next(i for i, line in enumerate(lines) if line.bound is not None)
    wrong = [*lines[:false], *with_false_bounds(lines[false : false + 1]), *lines[false + 1 :]]

    shown = verified(made().model_copy(update={"alternatives": wrong}))

    assert shown.alternatives == [*lines[:false], *lines[false + 1 :]]
    (warning,) = [w for w in shown.warnings if w.code == "line_left_out"]
    assert lines[false].what in warning.message
    assert check(shown) == []


def test_false_alternatives_never_cost_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "told_once", lambda lines: with_false_bounds(told_once(lines)))

    shown = api.plan(None, **QUESTION)

    assert shown.replicas == made().replicas
    assert (shown.proof.objective, shown.proof.bound) == (made().proof.objective, made().proof.bound)
    assert shown.proof.status == made().proof.status
    assert not [line for line in shown.alternatives if line.bound is not None]


def test_a_loss_of_an_assumption_that_its_objective_does_not_give_is_left_out() -> None:
    line = Assumption(name="isl", what="512", objective=made().proof.own, loss=0.5)

    shown = verified(made().model_copy(update={"assumptions": [line]}))

    assert shown.assumptions == []
    assert [w.code for w in shown.warnings].count("line_left_out") == 1


def test_a_plan_that_is_wrong_itself_is_refused_whatever_stands_beside_it() -> None:
    proof = made().proof.model_copy(update={"objective": 2 * made().proof.objective})
    with pytest.raises(Unsound):
        verified(made().model_copy(update={"proof": proof, "alternatives": []}))

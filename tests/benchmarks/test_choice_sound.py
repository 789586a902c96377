"""Random questions that are planned again with other flags: what counts as a finding."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.choice import sound
from benchmarks.choice.sound import Outcome, Question
from planner import plan
from planner.plans.schema import Plan

ASKED = Question("0:0", "qwen3-8b", {"gpus": "2xl4", "engine": "any", "objective": "throughput"})


@cache
def planned() -> Plan:
    return plan(None, "qwen3-8b", gpus="2xl4", engine="vllm", explain=False)


def with_proof(**changed) -> Plan:
    return planned().model_copy(update={"proof": planned().proof.model_copy(update=changed)})


def outcome(engine: str, exit_code: int = 0, words: str = "", **proof) -> Outcome:
    asked = ASKED.but(engine=engine)
    there = exit_code in (0, 4)
    return Outcome(asked, with_proof(**proof) if there else None, exit_code, words)


def kinds(own: Outcome, *others: Outcome) -> list[str]:
    return [finding.kind for finding in sound.compared(own, others)]


def test_a_question_is_the_same_whatever_was_asked_before():
    assert sound.question(3, 17) == sound.question(3, 17)
    assert len({sound.question(3, n).command for n in range(40)}) == 40


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (10.0, []),
        (10.05, []),
        (10.15, ["another flag better"]),
        (10.3, ["false bound", "another flag better"]),
    ],
)
def test_a_part_of_the_space_is_no_better_than_all_of_it(theirs, said):
    own = outcome("any", objective=10.0, bound=10.2, sense="max")

    assert kinds(own, outcome("vllm", objective=theirs, bound=theirs)) == said


def test_where_less_is_better_a_part_has_no_less():
    own = outcome("any", objective=10.0, bound=9.8, sense="min")

    assert kinds(own, outcome("vllm", objective=9.85, bound=9.85)) == ["another flag better"]
    assert kinds(own, outcome("vllm", objective=9.7, bound=9.7)) == ["false bound", "another flag better"]


def test_what_one_engine_serves_is_not_infeasible_with_any():
    assert kinds(outcome("any", 3, "no fleet"), outcome("vllm")) == ["false bound"]
    assert kinds(outcome("any", 3, "no fleet"), outcome("vllm", 3, "no fleet")) == []


def test_an_open_gap_that_a_finer_one_closes_is_found():
    own = outcome("any", 4, objective=10.0, bound=11.0, gap=0.1, sense="max")

    assert kinds(own, outcome("any", objective=10.0, bound=10.0)) == ["exit 4 that another flag solves"]
    assert [f.kind for f in sound.failures(own)][-1] == "exit 4"


def test_a_plan_that_fails_its_check_and_an_error_are_findings():
    broken = replace(outcome("vllm", objective=20.0, bound=10.0, sense="max"))

    assert "false bound" in [f.kind for f in sound.failures(broken)]
    assert [f.kind for f in sound.failures(outcome("vllm", 1, "KeyError: 3"))] == ["crash"]
    failed = outcome("vllm", 1, "the plan failed its own check: x")
    assert [f.kind for f in sound.failures(failed)] == ["own check failed"]

"""Smallest sets of limits in conflict: infeasible as a whole, feasible without any member."""

import itertools
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import plan
from planner.errors import Infeasible
from planner.question.asked import read
from planner.why import conflict as module
from planner.why.conflict import conflict, limits_of, minimal
from solvers.fleet.types import FleetSolution

NAMES = "abcdef"
FAMILIES = st.lists(st.sets(st.sampled_from(NAMES), min_size=1), max_size=5)


@given(FAMILIES)
def test_a_minimal_set_is_infeasible_and_without_any_member_feasible(bad):
    """`bad`: limits that no fleet keeps together; whatever has one of these sets in it is infeasible."""

    def feasible(limits):
        return not any(one <= set(limits) for one in bad)

    found = minimal(NAMES, feasible)

    if not bad:
        assert found is None
        return
    assert not feasible(found)
    assert all(feasible([x for x in found if x != gone]) for gone in found)
    assert set(found) in bad


def asked(**more):
    """A question to sixteen L40S."""
    loads = dict.fromkeys(("isl", "osl", "rate", "ttft_ms", "tpot_ms", "e2e_ms", "percentile"))
    options = {k: v for k, v in more.items() if k not in loads}
    return read(
        None,
        "llama-3.1-8b",
        "16xL40S",
        "chat",
        loads | {k: more[k] for k in more if k in loads},
        {"engine": "vllm"} | options,
    )


@pytest.mark.parametrize(
    "question",
    [
        {"rate": 30.0, "tpot_ms": 14, "budget": "usd_per_hour=13"},
        {"rate": 45.0, "tpot_ms": 18, "budget": "usd_per_hour=13"},
        {"rate": 12.0, "tpot_ms": 14, "budget": "gpus=2"},
    ],
)
def test_what_is_told_is_true_of_real_questions(question):
    """All together no fleet keeps, and any one left out another does, as planning each shows."""
    question = {"ttft_ms": "none", **question}
    limits = limits_of(asked(**question))
    told = conflict(asked(**question), 60.0)
    named = {name for name, limit in limits.items() if limit.words in (told or [])}

    assert len(named) == len(told) >= 2
    assert not _feasible(question, named, limits)
    for gone in named:
        assert _feasible(question, named - {gone}, limits), gone


def _feasible(question, kept, limits):
    case = asked(**question)
    for name in limits.keys() - kept:
        case = limits[name].without(case)
    w, b = case.workload, case.options.budget.model_dump(exclude_none=True)
    try:
        plan(
            None,
            "llama-3.1-8b",
            gpus="16xL40S",
            workload=w,
            engine="vllm",
            objective="gpus",
            budget=",".join(f"{k}={v}" for k, v in b.items()) or None,
            explain=False,
            gap=0.3,
        )
    except Infeasible:
        return False
    return True


def test_the_limits_of_a_question_are_those_that_it_has():
    names = set(limits_of(asked(rate=3.0, budget="gpus=4,watts=900", survive="node")))

    assert names == {"rate", "ttft_ms", "tpot_ms", "gpus", "watts", "survive"}


def test_one_gpu_is_told_as_one():
    assert limits_of(asked(rate=3.0, budget="gpus=1"))["gpus"].words == "at most 1 GPU"


def test_one_limit_alone_is_no_conflict():
    assert conflict(asked(tpot_ms=1, ttft_ms="none"), 20.0) is None


def test_without_time_nothing_is_said():
    assert conflict(asked(rate=30.0, tpot_ms=12, budget="usd_per_hour=8"), 0.0) is None


@pytest.mark.parametrize(
    ("status", "objective", "known"),
    [
        ("optimal", 1.0, True),
        ("time_limit", 1.0, True),
        ("infeasible", None, False),
        ("time_limit", None, None),
        ("optimal", None, None),  # its fleet keeps no promise: another may
        ("interrupted", None, None),
        ("interrupted", 1.0, None),
    ],
)
def test_a_search_says_what_it_proves_and_nothing_where_it_was_stopped(monkeypatch, status, objective, known):
    s = FleetSolution(status, objective, None, "none", rate=1.0)
    monkeypatch.setattr(module, "find", lambda *_: SimpleNamespace(solution=s))
    question, until = asked(rate=3.0), time.perf_counter() + 60.0

    if known is None:
        with pytest.raises(module.Unknown):
            module._carries(question, until)
    else:
        assert module._carries(question, until) == known


def test_the_error_of_a_plan_names_the_conflict():
    with pytest.raises(Infeasible, match="TPOT within 14 ms cannot be kept together; either can without"):
        plan(
            None,
            "llama-3.1-8b",
            gpus="16xL40S",
            engine="vllm",
            rate=30.0,
            tpot_ms=14,
            budget="usd_per_hour=13",
        )


def test_left_out_limits_are_really_left_out():
    case = asked(rate=3.0, tpot_ms=20, budget="gpus=4", survive="node")
    bare = case
    for limit in limits_of(case).values():
        bare = limit.without(bare)

    assert bare.workload.rate_rps < 0.01
    assert bare.workload.slo.ttft_ms is bare.workload.slo.tpot_ms is None
    assert bare.options.budget.model_dump(exclude_none=True) == {}
    assert bare.options.survive is None
    assert len(list(itertools.chain(limits_of(case)))) == 5

"""What stands beside a plan: the next best in order, the plain fleet, the other phases, what it makes use
of."""

from functools import cache

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner import plan
from planner.beside.alternatives import alternatives
from planner.beside.cache_worth import lower_cache
from planner.beside.plain import PLAIN
from planner.beside.planned import Planned
from planner.beside.reasons import Fleet, kind
from planner.search.find import restricted
from solvers.linear import Limits
from tests.beside.solved import on, solved

LIMITS = Limits(gap=0.01, work=1000)


@cache
def beside(gpus="8xH100", model="llama-3.1-70b", **asked):
    stated, question, found = solved(gpus, model, **asked)
    return found, alternatives(Planned(stated, question, found, LIMITS))


def test_the_next_best_comes_first_and_the_plain_fleet_is_among_them():
    _, shown = beside()
    ordered = [a.loss for a in shown if a.objective is not None]
    first = shown[0]

    assert ordered == sorted(ordered)
    assert first.loss < 0.1  # one kind of replica changed: not the other way to treat the phases
    assert not first.what.startswith("no ")
    assert any(PLAIN in a.what for a in shown)
    assert any("no prefill/decode split" in a.what for a in shown)


def test_no_fleet_without_one_of_the_plans_kinds_is_better_than_the_first():
    _, question, found = solved()
    plan = Fleet(found)
    for banned in plan.kinds:
        other = restricted(question, found, lambda c, banned=banned: kind(c) != banned, LIMITS)
        if other is not None and other.solution.objective is not None:
            assert other.solution.objective <= beside()[1][0].objective * (1 + LIMITS.gap)


def test_every_line_has_an_end_of_its_own():
    _, shown = beside()

    assert {a.status for a in shown} <= {"proven", "within_gap", "infeasible"}
    assert all((a.objective is None) == (a.status == "infeasible") for a in shown)


def test_a_plan_of_one_kind_is_told_what_pairs_would_give():
    """It is looked for among replicas that do both phases alone, which says nothing of the others."""
    asked = {"gpus": "4xA100", "rate": 14, "objective": "gpus", "work_limit": 100}
    made = plan(None, "qwen3-8b", **asked)
    split = next(a for a in made.alternatives if a.what == "prefill/decode split")

    assert [r.role for r in made.replicas] == ["mixed"]
    assert (split.status, split.objective) == ("proven", 4.0)


def test_answers_of_one_token_cannot_be_split():
    _, shown = beside("2xH100", "llama-3.1-8b", osl=1)
    split = next(a for a in shown if a.what == "prefill/decode split")

    assert (split.status, split.why) == ("infeasible", "answers of one token need no decode")


def test_an_engine_that_cannot_split_says_so():
    """That no fleet keeps the limits would send its reader to looser limits."""
    _, shown = beside("2xRTX-4090", "qwen3-8b", engine="llama.cpp")
    split = next(a for a in shown if a.what == "prefill/decode split")

    assert (split.status, split.objective) == ("infeasible", None)
    assert split.why == "llama.cpp has no prefill and decode servers (server README)"


@pytest.mark.parametrize(
    ("gpus", "engine", "why"),
    [
        ("1xA100,1xH100", "sglang", "SGLang says nothing of pairs of ampere and hopper (pd_disaggregation)"),
        ("1xA100,1xH100", "trtllm", ""),
        ("1xH100,1xH200", "sglang", ""),
        ("1xH100", "sglang", ""),
    ],
)
def test_rules_against_pairs_between_classes_are_named(gpus, engine, why):
    planned = plan(None, "llama-3.1-8b", gpus=gpus, engine=engine)
    line = next(a for a in planned.alternatives if "prefill/decode split" in a.what)

    if why:  # a pair needs two GPUs, one of each class
        assert line.objective is None
        assert line.why.startswith("no fleet of pairs of prefill and decode replicas keeps the limits; ")
    assert why in line.why
    assert why or "between classes" not in line.why


def test_a_cache_that_gains_nothing_is_not_spoken_of():
    """Its prefill servers are at their ceiling: no room for cache brings more."""
    stated, question, found = solved()

    assert lower_cache(Planned(stated, question, found, LIMITS)) == []


@pytest.mark.parametrize(
    ("goal", "rate", "unit"),
    [
        ("cost", 12, "a million output tokens, whole nodes paid"),
        ("energy", 10, "J an output token"),
        ("gpus", 16, "req/s a GPU"),
        ("latency", 6, " s "),
    ],
)
def test_with_a_rate_the_terms_are_the_goals(goal, rate, unit):
    nodes = [
        Node(device="h100-sxm", gpus_per_node=1, count=2, price_usd_per_hour=3),
        Node(device="l40s", gpus_per_node=2, count=2, price_usd_per_hour=2),
    ]
    stated, question, found = on(resolve(Cluster(nodes=nodes)), "qwen3-8b", rate=rate, objective=goal)
    shown = alternatives(Planned(stated, question, found, LIMITS))
    worse = [a for a in shown if a.loss and a.why]

    assert worse
    assert all(a.why for a in shown if a.loss and a.loss > 1e-3)
    assert all(unit in a.why for a in worse)

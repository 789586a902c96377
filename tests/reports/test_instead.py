"""Verdicts on alternatives say no more than was proven."""

from types import SimpleNamespace

import pytest

from planner.plans.schema import Alternative
from planner.reports.proven import in_order, phases, verdict
from tests.reports.samples import ONE_NODE

OURS = ONE_NODE.proof.objective


def alternative(status, share=None, loss=None, what="x", **more):
    objective = None if share is None else share * OURS
    return Alternative(what=what, objective=objective, loss=loss, why="", status=status, **more)


@pytest.mark.parametrize(
    ("status", "share", "loss", "said"),
    [
        ("proven", 0.9, 0.1, "10 % worse"),
        ("within_gap", 0.9, 0.1, "10 % worse"),
        ("estimate", 0.9, 0.1, "10 % worse"),
        (None, 0.9, 0.1, "10 % worse"),
        ("stopped", 0.6, 0.05, "at least 5.0 % worse"),
        ("stopped", 0.6, 0.0, "not settled"),
        ("stopped", 1.1, 0.0, "10 % better"),
        ("proven", 1.008, 0.0, "0.8 % better"),
        ("proven", 0.9999, 0.0001, "equal"),
        ("proven", 1.0001, 0.0, "equal"),
        ("stopped", 1.0, 0.0, "equal"),
        ("infeasible", None, None, "not possible"),
        ("none_found", None, None, "none found"),
        (None, None, None, "none found"),
    ],
)
def test_the_verdict_is_what_the_solve_proved(status, share, loss, said):
    assert verdict(ONE_NODE, alternative(status, share, loss)) == said


def test_the_time_spent_without_a_fleet_is_told():
    assert verdict(ONE_NODE, alternative("none_found", seconds=2.04)) == "none found in 2.0 s"


@pytest.mark.parametrize(
    ("what", "status", "share", "loss", "said"),
    [
        ("prefill/decode split", "proven", 0.9, 0.1, "a split would be 10 % worse."),
        ("prefill/decode split", "proven", 1.0, 0.0, "a split would be equal."),
        ("prefill/decode split", "none_found", None, None, "of a split none found."),
        ("prefill/decode split", "infeasible", None, None, "a split is not possible."),
        ("no prefill/decode split, plain", "proven", 0.9, 0.1, "one shared kind would be 10 % worse."),
        ("no prefill/decode split", "infeasible", None, None, "one shared kind is not possible."),
        ("no prefill/decode split", "none_found", None, None, "of one shared kind none found."),
        ("no prefill/decode split", "proven", 1.1, 0.0, "one shared kind would be 10 % better."),
    ],
)
def test_splitting_the_phases_is_judged_as_far_as_it_is_known(what, status, share, loss, said):
    plan = ONE_NODE.model_copy(update={"alternatives": [alternative(status, share, loss, what)]})
    begins = (
        "Prefill and decode on the same servers"
        if what.startswith("pre")
        else "Separate prefill and decode servers"
    )

    assert phases(plan) == f"{begins}: {said}"


def test_of_other_alternatives_nothing_is_said_about_phases():
    assert phases(ONE_NODE) is None


@pytest.mark.parametrize(("sense", "first"), [("max", 12.0), ("min", 3.0)])
def test_the_best_stand_first_and_those_that_are_none_last(sense, first):
    lines = [
        Alternative(what=str(x), objective=x, loss=0.0 if x else None, why="") for x in (9.0, None, 3.0, 12.0)
    ]
    shown = in_order(SimpleNamespace(alternatives=lines, proof=SimpleNamespace(sense=sense)))

    assert shown[0].objective == first
    assert shown[-1].objective is None

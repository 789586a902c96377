"""Too much for the nodes, or for the budget: what would be enough has been solved, and less is not enough."""

from __future__ import annotations

import re

import pytest

from planner import api
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.plans.found import Found
from planner.question.asked import read
from planner.question.posed import pose
from planner.why.shortage import explain
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits, Status

ASK = {"gpus": "2xL40S", "engine": "vllm", "isl": 600, "osl": 100}


def refused(**options: object) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        api.plan(None, "llama-3.1-8b", **ASK | options)  # type: ignore[arg-type]
    return caught.value


def number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def test_a_rule_that_keeps_phases_in_one_class_is_named():
    ask = {"gpus": "2xL40S,2xA100", "rate": 1000.0}

    assert (
        "one class of nodes: SGLang says nothing of pairs of ada and ampere"
        in refused(**ask, engine="sglang").message
    )
    assert "one class of nodes" not in refused(**ask, engine="trtllm").message


def test_the_highest_rate_is_served_and_a_little_more_is_not():
    hint = refused(rate=1000.0).hint or ""
    rate = number(hint, r"--rate (\S+)")

    assert api.plan(None, "llama-3.1-8b", rate=rate, **ASK).predicted.rps.value == pytest.approx(rate)
    refused(rate=1.03 * rate)


def test_without_a_budget_nodes_are_proposed():
    assert re.search(r"or \d+ more nodes? of l40s", refused(rate=1000.0).hint or "")


def test_with_a_budget_that_is_enough_for_nothing_the_least_one_is_proposed():
    error = refused(budget="watts=10")
    watts = number(error.hint or "", r"--budget watts=(\S+)")

    assert "does not pay for a single replica" in error.message
    assert api.plan(None, "llama-3.1-8b", budget=f"watts={watts}", **ASK).predicted.rps.value > 0
    refused(budget=f"watts={0.97 * watts}")


def test_of_two_budgets_only_the_one_that_is_short_is_raised():
    hint = refused(rate=8.0, budget="gpus=2,watts=50").hint or ""

    assert re.search(r"--budget gpus=2,watts=\d+", hint)


def stopped(status: Status, seconds: float = 60.0, **options: object) -> MeshwrightError:
    """What is said of a search that ended with no fleet, `seconds` before its time was over."""
    _, pool, question = pose(read(None, "llama-3.1-8b", "2xL40S", "chat", *parts(options)))
    none = FleetSolution(status, None, None, "none")
    problem = question.state(pool)
    found = Found(question.cluster, question.workload, question.objective, pool, problem, none)
    return explain(question, pool, found, Limits(seconds=seconds))


def parts(options: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """A load, and the other options."""
    load = {"rate": options.pop("rate")} if "rate" in options else {}
    return load, {"engine": "vllm", **options}


def test_no_time_is_not_the_same_as_no_plan():
    error = stopped("time_limit")

    assert isinstance(error, OutOfTime)
    assert error.exit_code == 5


def test_an_interrupted_search_is_no_proof():
    with pytest.raises(KeyboardInterrupt):
        stopped("interrupted")


@pytest.mark.parametrize(("budget", "held"), [(None, "SLO"), ("gpus=1", "SLO and the budget")])
def test_where_no_time_is_left_to_look_nothing_is_said_of_how_much_is_served(budget: str | None, held: str):
    error = stopped("infeasible", seconds=0.0, rate=1e6, budget=budget)

    assert error.message == f"1e+06 req/s cannot be served by these nodes within the {held}"
    assert "--time-limit" in (error.hint or "")

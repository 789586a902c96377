"""The most requests without a rate: of random arrivals, or of a closed loop."""

from __future__ import annotations

from functools import cache

import pytest
from rich.console import Console

from planner import api
from planner.errors import InputError
from planner.plans.schema import Plan
from planner.reports import terminal


@cache
def planned(**asked: object) -> Plan:
    """Checked by `api.plan` itself."""
    given = {"engine": "vllm", "gap": 0.0, "explain": False, "work_limit": 500} | asked
    return api.plan(None, "llama-3.1-8b", gpus="2xL40S", **given)  # type: ignore[arg-type]


def test_random_arrivals_are_fewer_than_a_closed_loop_takes_and_fewer_yet_at_a_percentile():
    closed, drawn, tail = (
        planned(**more) for more in ({}, {"loop": "open"}, {"loop": "open", "percentile": "p95"})
    )

    assert closed.predicted.rps.value > drawn.predicted.rps.value > tail.predicted.rps.value
    assert drawn.problem.workload["arrivals"] == "open"
    assert "arrivals" not in closed.problem.workload


@pytest.mark.parametrize("percentile", ["mean", "p95"])
def test_a_rate_just_below_the_one_shown_is_served_by_the_same_nodes(percentile: str):
    most = planned(loop="open", percentile=percentile).predicted.rps.value

    assert planned(rate=0.97 * most, percentile=percentile).predicted.rps.value == pytest.approx(0.97 * most)


def test_an_objective_other_than_throughput_needs_a_rate_in_either_loop():
    with pytest.raises(InputError, match="needs a rate to serve"):
        planned(loop="open", objective="gpus")


def test_the_closed_loop_beside_random_arrivals_is_the_one_that_is_planned_for_itself():
    """Of one kind of replica on all GPUs, which are the same in both plans."""
    beside, closed = planned(loop="open").saturated, planned()

    assert beside is not None
    assert closed.saturated is None
    assert beside.rps == pytest.approx(closed.predicted.rps.value, rel=1e-3)
    assert beside.tpot_ms == pytest.approx(closed.predicted.tpot_ms.value, rel=1e-3)
    assert "saturated" not in planned(rate=5.0).model_dump()


def test_the_terminal_shows_the_closed_loop_beside_random_arrivals(capsys: pytest.CaptureFixture[str]):
    console = Console(width=100, color_system=None)
    terminal.render(planned(loop="open"), console)
    shown = capsys.readouterr().out

    assert "random arrivals" in shown
    assert "in a closed loop" in shown

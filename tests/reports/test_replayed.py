"""What sized a replayed plan, in words: the worst of its replays, its busiest time, and the next one down."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from planner.plans.schema import Replayed
from planner.reports.replayed import replayed
from tests.reports.page.samples import plan_of

PLAN = plan_of("replayed")
"""Of 1.5 requests/s, TTFT within 2 s and TPOT within 60 ms at p95, on 1 GPU."""

TOLD: dict[str, Any] = {
    "trace": "t.csv",
    "requests": 1200,
    "rate_rps": 1.5,
    "resamples": 0,
    "sized_rps": 1.5,
    "ttft_ms": 2000.0,
    "tpot_ms": 60.0,
    "needed_rps": 16.0,
    "busy": 33,
    "busy_from_s": 59.9,
    "busy_to_s": 3661.0,
    "achieved": {"ttft_ms": {"limit_ms": 2000.0, "achieved_ms": 1172.0, "attained": 1.0}},
    "tried": 1,
}


def lines(plan: Any = PLAN, **fields: Any) -> list[str]:
    """What is said, line by line."""
    console = Console(width=200, no_color=True)
    with console.capture() as said:
        console.print(replayed(plan, Replayed.model_validate(TOLD | fields)))
    return [line.rstrip() for line in said.get().splitlines()]


def with_traffic(traffic: dict[str, Any] | None) -> Any:
    load = {**PLAN.problem.workload, "traffic": traffic}
    return PLAN.model_copy(update={"problem": PLAN.problem.model_copy(update={"workload": load})})


@pytest.mark.parametrize(
    ("plan", "fields", "said"),
    [
        (PLAN, {}, "1,200 requests of t.csv at 1.50 requests/s:"),
        (PLAN, {"resamples": 4}, "1,200 requests of t.csv at 1.50 requests/s, and 4 traces like it:"),
        (
            with_traffic({"dispersion": [{"window_s": 1, "index": 4}]}),
            {"trace": None, "resamples": 4},
            "5 times 1,200 requests at 1.50 requests/s, drawn as bursty as the workload says:",
        ),
        (
            with_traffic(None),
            {"trace": None, "resamples": 4},
            "5 times 1,200 requests at 1.50 requests/s, at random times:",
        ),
    ],
)
def test_what_was_replayed_is_said_first(plan: Any, fields: dict[str, Any], said: str):
    assert lines(plan, **fields)[0] == said


@pytest.mark.parametrize(
    ("attained", "said"),
    [(1.0, "all"), (0.99314, "99.31 % of requests"), (0.0, "0.00 % of requests")],
)
def test_each_limit_has_the_worst_of_the_replays_and_how_many_kept_it(attained: float, said: str):
    achieved = {"tpot_ms": {"limit_ms": 60.0, "achieved_ms": 45.9, "attained": attained}}
    row = lines(achieved=achieved)[2]

    assert row.split("  ")[0] == "time per output token, p95"
    assert [cell.strip() for cell in row.split("  ") if cell.strip()][1:] == ["45.9 ms", "60.0 ms", said]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, ["Requests at random times would need the same fleet."]),
        ({"sized_rps": 1.5 * (1 + 1e-7)}, ["Requests at random times would need the same fleet."]),
        ({"ttft_ms": None, "tpot_ms": None}, ["Requests at random times would need the same fleet."]),
        (
            {"sized_rps": 4.9},
            [
                "Sized as if for requests at random times: 4.90 requests/s.",
                "Busiest: 33 requests from 0:00:59 to 1:01:01; "
                "queues need 16.0 requests/s for the percentile.",
            ],
        ),
        (
            {"sized_rps": 4.9, "busy": 1, "tpot_ms": 50.0},
            ["Sized as if for requests at random times: 4.90 requests/s, TPOT within 50.0 ms."],
        ),
        ({"ttft_ms": 900.0}, ["Sized as if for requests at random times: TTFT within 900 ms."]),
    ],
)
def test_what_the_fleet_was_sized_for_is_told_where_it_is_more_than_was_asked(
    fields: dict[str, Any], said: list[str]
):
    assert lines(**fields)[3:-1] == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "1 plan was tried; what formulas ask for is enough."),
        ({"tried": 3}, "3 plans were tried; what formulas ask for is enough."),
        (
            {"tried": 3, "broke": 0.5},
            "3 plans were tried; the next below, 0.5 GPUs, breaks a limit in the replay.",
        ),
        ({"broke": 1.0}, "1 plan was tried; another of 1 GPU, sized for less, breaks a limit in the replay."),
    ],
)
def test_the_plan_below_is_told_last(fields: dict[str, Any], said: str):
    assert lines(**fields)[-1] == said

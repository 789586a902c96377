"""What a plan says of the replay that sized it: each figure that the workload or another one contradicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.check import replayed
from planner.check.case import Case, open_case
from planner.inputs.workload import Slo
from planner.plans.schema import Plan, Replayed
from tests.check.plans import dense

TOLD: dict[str, Any] = {
    "trace": "t.csv",
    "requests": 800,
    "rate_rps": 4.0,
    "resamples": 3,
    "sized_rps": 5.0,
    "ttft_ms": 900.0,
    "tpot_ms": 40.0,
    "needed_rps": 7.0,
    "busy": 90,
    "busy_from_s": 10.0,
    "busy_to_s": 20.0,
    "achieved": {
        "ttft_ms": {"limit_ms": 1000.0, "achieved_ms": 990.0, "attained": 0.95},
        "tpot_ms": {"limit_ms": 50.0, "achieved_ms": 50.0, "attained": 0.96},
    },
    "tried": 4,
}
SLO = Slo(ttft_ms=1000.0, tpot_ms=50.0, percentile="p95")
WHOLE = {"limit_ms": 9000.0, "achieved_ms": 8000.0, "attained": 1.0}


def said(
    change: dict[str, Any], slo: Slo = SLO, rate: float | None = 4.0, osl: int | None = None
) -> list[str]:
    """Codes and places, where `change` names a figure by its way through the replay and says what it is."""
    told = Replayed.model_validate(TOLD).model_dump(mode="json")
    for way, value in change.items():
        part, *steps = told, *way.split(".")
        for step in steps[:-1]:
            part = part[step]
        part[steps[-1]] = value
        if value is None and steps[0] == "achieved":
            del part[steps[-1]]
    case = open_case(dense().model_copy(update={"replayed": Replayed.model_validate(told)}))
    assert isinstance(case, Case)
    buckets = [b if osl is None else b.model_copy(update={"osl": osl}) for b in case.workload.buckets]
    workload = case.workload.model_copy(update={"slo": slo, "rate_rps": rate, "buckets": buckets})
    found = list(replayed.violations(replace(case, workload=workload)))
    return [f"{v.code} {v.where.removeprefix('replayed.')}" for v in found]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"rate_rps": 4.001}, ["replay_unlike rate_rps"]),
        ({"sized_rps": 4.0}, []),
        ({"sized_rps": 3.999}, ["replay_unlike sized_rps"]),
        ({"busy_to_s": 10.0, "busy": 800}, []),
        ({"busy_to_s": 9.9}, ["replay_unlike busy"]),
        ({"busy": 801}, ["replay_unlike busy"]),
        ({"ttft_ms": 1000.0, "tpot_ms": 50.0}, []),
        ({"ttft_ms": 1001.0}, ["replay_unlike ttft_ms"]),
        ({"tpot_ms": None}, ["replay_unlike tpot_ms"]),
        ({"achieved.ttft_ms.limit_ms": 1001.0}, ["replay_unlike achieved.ttft_ms.limit_ms"]),
        ({"achieved.tpot_ms.achieved_ms": 50.1}, ["replay_missed achieved.tpot_ms.achieved_ms"]),
        ({"achieved.ttft_ms.attained": 0.941}, []),  # of a percentile between two requests
        ({"achieved.ttft_ms.attained": 0.939}, ["replay_missed achieved.ttft_ms.attained"]),
        ({"achieved.tpot_ms": None}, ["replay_missed achieved.tpot_ms"]),
        ({"achieved.e2e_ms": WHOLE}, ["replay_unlike achieved.e2e_ms.limit_ms"]),
    ],
)
def test_what_contradicts_the_workload_is_named(change: dict[str, Any], expected: list[str]) -> None:
    assert said(change) == expected


def test_a_limit_on_whole_requests_brings_limits_on_their_parts() -> None:
    whole = Slo(ttft_ms=None, tpot_ms=None, e2e_ms=9000.0)
    alone: dict[str, Any] = {"achieved.ttft_ms": None, "achieved.tpot_ms": None}

    assert said(alone, whole) == ["replay_missed achieved.e2e_ms"]
    assert said(alone | {"achieved.e2e_ms": WHOLE}, whole) == []
    assert said(alone, Slo(ttft_ms=None, tpot_ms=50.0, percentile="p95"))[0] == "replay_unlike ttft_ms"


def test_nothing_is_replayed_for_a_mean_or_without_a_rate() -> None:
    assert said({}, rate=None) == said({}, Slo(ttft_ms=1000.0, tpot_ms=50.0)) == ["replay_unasked replayed"]


def test_requests_of_one_token_have_no_time_between_tokens() -> None:
    assert said({"achieved.tpot_ms": None}, osl=1) == []
    assert said({"achieved.ttft_ms": None}, osl=1) == ["replay_missed achieved.ttft_ms"]


@pytest.mark.parametrize(("percentile", "attained"), [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)])
def test_so_many_requests_are_within_a_limit_as_its_percentile_says(percentile: Any, attained: float) -> None:
    slo = SLO.model_copy(update={"percentile": percentile})
    few: dict[str, Any] = {f"achieved.{name}_ms.attained": attained - 0.02 for name in ("ttft", "tpot")}

    assert len(said(few, slo)) == 2
    assert said(dict.fromkeys(few, attained - 0.005), slo) == []


def test_a_plan_that_no_replay_sized_has_nothing_to_say() -> None:
    case = open_case(dense())
    assert isinstance(case, Case)
    assert isinstance(case.plan, Plan)
    assert list(replayed.violations(case)) == []

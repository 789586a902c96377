"""What a plan of random arrivals says of a closed loop: each figure that the workload contradicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.check import saturated
from planner.check.case import open_case
from planner.plans.schema import Saturated
from tests.check.plans import dense


def said(arrivals: str | None = "open", rate: float | None = None, **change: float) -> list[str]:
    """Codes and places, where `change` says figures anew."""
    case = open_case(dense())
    w = case.workload.model_copy(
        update={"arrivals": arrivals, "rate_rps": rate, "buckets": case.workload.buckets[:1]}
    )
    b, slo = w.buckets[0], w.slo
    ttft, tpot = 0.9 * (slo.ttft_ms or 1e3), 0.9 * (slo.tpot_ms or 50.0)
    flight_s = (ttft + (b.osl - 1) * tpot) / 1e3
    told = {
        "in_flight": flight_s / 10,
        "rps": 0.1,
        "out_tok_per_s": 0.1 * b.osl,
        "ttft_ms": ttft,
        "tpot_ms": tpot,
    }
    plan = case.plan.model_copy(update={"saturated": Saturated(**(told | change))})
    return [f"{v.code} {v.where}" for v in saturated.violations(replace(case, plan=plan, workload=w))]


def test_what_follows_from_the_workload_is_sound():
    assert said() == []


def test_a_closed_loop_stands_beside_random_arrivals_without_a_rate_alone():
    assert said("closed") == said(None) == said(rate=1.0) == ["saturated_unasked saturated"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"out_tok_per_s": 1.0}, "saturated_wrong saturated.out_tok_per_s"),
        ({"ttft_ms": 1e6}, "saturated_missed saturated.ttft_ms"),
        ({"tpot_ms": 1e6}, "saturated_missed saturated.tpot_ms"),
        ({"in_flight": 1e9}, "saturated_over saturated.in_flight"),
        ({"in_flight": 1e-3}, "saturated_wrong saturated.in_flight"),
    ],
)
def test_a_false_figure_is_named(change: dict[str, float], code: str):
    assert code in said(**change)

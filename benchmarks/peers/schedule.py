"""Schedules: servers of some kinds over slots of a day, week or fortnight, for the least money."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.peers.answer import Answer, Case, Clock
from solvers import schedule
from solvers.linear import Limits
from solvers.schedule import Kind, Problem

OBJECTIVES = ("usd",)
GAP = 1e-6
"""Of the search: instances are solved to the end where that is possible."""


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """The servers of every kind in every slot, and those reserved."""
    p = case["problem"]
    clock = Clock()
    with clock.running():
        found = schedule.solve(problem(p), Limits(gap=GAP, seconds=seconds))
    solution = None
    if found.counts is not None:
        names = [c["name"] for c in p["classes"]]
        solution = {
            "counts": dict(zip(names, found.counts.tolist(), strict=True)),
            "reserved": dict(zip(names, found.reserved, strict=True)),
        }
    return Answer(found.value, found.bound, found.status, solution, clock.seconds)


def problem(p: dict[str, Any]) -> Problem:
    """The case in the solver's terms."""
    kinds = tuple(
        Kind(
            name=c["name"],
            capacity=float(c["capacity"]),
            price_usd_per_hour=float(c["price_usd_per_hour"]),
            most=int(c.get("max_count") or math.ceil(max(p["demand"]) / c["capacity"])),
            cold_hours=p["cold_start_minutes"] / 60,
            up_slots=max(math.ceil(p["minimum_up_minutes"] / p["slot_minutes"]), 1),
            reserved=p["reserved_price_factor"],
        )
        for c in p["classes"]
    )
    return Problem(kinds, tuple(p["demand"]), p["slot_minutes"] / 60)


def peer_value(case: Case) -> float | None:
    """None: there is no peer, the best that is known is our own."""
    return None

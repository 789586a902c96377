"""Rare long requests that alone decide what a plan takes: named, with what serving them apart brings."""

from __future__ import annotations

import time
from collections.abc import Iterator

from planner.beside.planned import Planned
from planner.candidates.deadline import left_s
from planner.plans.schema import PlanWarning
from planner.why.rare_lengths import Without, amount, rare_lengths, without

DECIDES = 0.1
"""Share of the objective that a plan without them must gain: twice the gap of what it is compared with."""

MOST_S = 20.0
"""Seconds at most, of those that the plan has left."""


def deciding_lengths(planned: Planned) -> Iterator[PlanWarning]:
    """Yield a warning where the longest requests, one in a hundred at most, decide."""
    rare = rare_lengths(planned.asked.workload)
    until = time.perf_counter() + min(left_s(), MOST_S)
    found = None if rare is None else without(planned.asked, rare, until)
    if found is not None and planned.fleet.gain(found.objective) >= DECIDES:
        yield PlanWarning(
            code="rare_lengths_decide",
            message=_message(planned, found),
            share=found.rare.share,  # type: ignore[call-arg]
            objective_without=found.objective,
            objective_apart=found.apart(found.alone),
            objective_apart_without_ttft=found.apart(found.unlimited),
        )


def _message(planned: Planned, found: Without) -> str:
    own, unit = planned.fleet, found.rest.objective
    message = (
        f"{found.rare.words} decide: without them {amount(unit, found.objective, found.rest)}, "
        f"not {amount(unit, own.objective, planned.found)}"
    )
    if unit.spends is None:
        return message
    apart = found.remedies(own.objective)
    brings = f"takes {' or '.join(apart)}" if apart else "within the same limits brings nothing"
    return f"{message}; serving them apart {brings}"

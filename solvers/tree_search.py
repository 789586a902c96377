"""Branch and bound: HiGHS, and CBC as the second opinion on what it has not proven."""

from __future__ import annotations

import time
from dataclasses import replace

from solvers.program import Floats, Limits, Outcome, Program


def searched(model: Program, limits: Limits, start: Floats | None = None) -> Outcome:
    """Minimise with HiGHS; what it has not proven in half the time, CBC may prove in the other half. A limit
    on `work` has no halves."""
    from solvers import highs  # loads the library

    if limits.work is not None or not any(model.integer):
        return highs.solve(model, limits, start)
    began = time.perf_counter()
    first = highs.solve(model, replace(limits, seconds=limits.seconds / 2), start)
    if first.status != "time_limit":
        return first
    from solvers import cbc

    return cbc.second_opinion(model, limits.seconds - (time.perf_counter() - began), first)

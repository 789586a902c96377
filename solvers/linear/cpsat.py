"""CP-SAT, OR-tools' solver of whole numbers: a first answer to a large program, as one of integers alone.

All columns are asked to be whole. In a fleet, where 1 of a flow is all that a bucket asks for, each bucket is
then served by one column. What is found so is an answer, though rarely the best; that
CP-SAT calls it optimal proves nothing of the program itself, and its bound is not read. The real columns are
then solved for again with the integers found (`glop.completed`), which checks all rows.

Measured: docs/decisions/0027-ortools.md.
"""

from __future__ import annotations

import numpy as np

from solvers.linear.glop import Arrays, completed, program, run
from solvers.linear.program import Floats, Limits

NAME = "CP-SAT and GLOP (OR-tools)"

EFFORT = 0.5
"""Limit by CP-SAT's own count of its work, a few seconds each: it finds the same on any machine."""


def whole(a: Arrays, limits: Limits) -> Floats | None:
    """Values (columns,) that keep all rows, the integers whole; None where none were found."""
    asked = f"num_workers:{limits.threads} random_seed:{limits.seed} max_deterministic_time:{EFFORT}"
    quiet = "catch_sigint_signal:false relative_gap_limit:1e-3"
    solver = run("sat", program(a, whole=True), limits.seconds, f"{asked} {quiet}")
    if not solver.has_solution():
        return None
    values = np.array(solver.variable_values())
    integers = {int(i): round(values[i]) for i in np.flatnonzero(a.integer)}
    return completed(a, integers, limits.seconds)

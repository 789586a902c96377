"""Branch and bound: HiGHS, and a second opinion from CBC, which PuLP brings along: it sometimes proves in
seconds where HiGHS stalls.

CBC is believed in one case only: it says that its plan is optimal at gap 0, the plan keeps all rows when
HiGHS solves the rest with CBC's integers fixed, and neither HiGHS's bound nor HiGHS's best plan contradicts
it. Its word with a gap is no proof (610 was "optimal" where 620 is possible), and its solution file rounds
numbers. docs/decisions/0001-solvers.md.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.linear import deciding, highs
from solvers.linear.program import EXACT, Floats, Limits, Outcome, Program, ended

WORTH_STARTING_S = 1.0
"""Below this much time left, starting a process and reading its files back brings nothing."""

MOST_ROWS = 4000
"""Larger programs CBC does not solve at gap 0, and looks at the clock no more before their root is done."""


def searched(model: Program, limits: Limits, start: Floats | None = None) -> Outcome:
    """Minimise with HiGHS; what it has not proven in half the time, CBC may prove in the other half. Where
    few integers decide, `deciding.py` does. A limit on `work` has no halves."""
    if limits.work is not None or not any(model.integer):
        return highs.solve(model, limits, start)
    if model.first:
        return deciding.searched(model, limits, start)
    began = time.perf_counter()
    first = highs.solve(model, replace(limits, seconds=limits.seconds / 2), start)
    if ended(first, limits):
        return first
    return second_opinion(model, limits.seconds - (time.perf_counter() - began), first)


def second_opinion(model: Program, seconds: float, first: Outcome) -> Outcome:
    """`first` (HiGHS's, unproven), or in its place what CBC proves in `seconds`; Ctrl-C leaves `first`."""
    if seconds < WORTH_STARTING_S or len(model.rows) > MOST_ROWS:
        return first
    try:
        integers = _optimal_integers(model, seconds)
    except KeyboardInterrupt:
        return replace(first, status="interrupted")
    if integers is None:
        return first
    checked = _with_fixed(model, integers)
    return checked if checked is not None and _agrees(checked, first) else first


def _optimal_integers(model: Program, seconds: float) -> dict[int, int] | None:
    """Integer variables of the plan that CBC calls optimal at gap 0, but those that are in no row and cost
    nothing; None where it does not."""
    import pulp

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PuLP 3.3 announces what 4.0 will rename
        problem, variables = stated(model)
        cbc = pulp.PULP_CBC_CMD(msg=False, timeLimit=seconds, gapRel=0.0, gapAbs=1e-9)
        if not cbc.available():
            return None
        cbc.tmpDir = folder
        try:
            problem.solve(cbc)
        except pulp.PulpSolverError:
            return None
    if problem.sol_status != pulp.LpSolutionOptimal:
        return None
    values = {i: variables[i].value() for i, integer in enumerate(model.integer) if integer}
    return {i: round(value) for i, value in values.items() if value is not None}


def stated(model: Program) -> tuple[Any, list[Any]]:
    """`model` in PuLP's words; variables are numbered, for PuLP rewrites names and can merge two."""
    import pulp

    kinds = (pulp.LpContinuous, pulp.LpInteger)
    variables = [
        pulp.LpVariable(f"v{i}", low, None if high == np.inf else high, kinds[integer])
        for i, (low, high, integer) in enumerate(zip(model.lower, model.upper, model.integer, strict=True))
    ]
    problem = pulp.LpProblem("model", pulp.LpMinimize)
    problem += pulp.LpAffineExpression([(variables[i], c) for i, c in model.goal])
    for row in model.rows.values():
        left = pulp.lpSum(variables[i] * c for i, c in row.terms)
        if row.lower == row.upper:
            problem += left == row.upper
            continue
        if row.upper < np.inf:
            problem += left <= row.upper
        if row.lower > -np.inf:
            problem += left >= row.lower
    return problem, variables


def _with_fixed(model: Program, integers: dict[int, int]) -> Outcome | None:
    """The best plan with `integers`, by HiGHS, claimed as proven; None where HiGHS does not say what is."""
    fixed = copy(model)
    fixed.lower, fixed.upper = list(model.lower), list(model.upper)
    for i, k in integers.items():
        fixed.lower[i] = fixed.upper[i] = float(k)
    outcome = highs.solve(fixed, Limits(), None)
    return replace(outcome, bound=outcome.value, solver="CBC (PuLP)") if outcome.status == "optimal" else None


def _agrees(proven: Outcome, first: Outcome) -> bool:
    """True when the proven value lies between HiGHS's bound and HiGHS's best plan."""
    assert proven.value is not None
    slack = EXACT * max(1.0, abs(proven.value))
    over = first.bound is None or proven.value >= first.bound - slack
    return over and (first.value is None or proven.value <= first.value + slack)

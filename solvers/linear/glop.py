"""GLOP, OR-tools' simplex: relaxations of large programs, several times sooner than HiGHS has them.

What it says is not taken over. Values are checked against the rows, and the bound is recomputed from its
duals y, which give one whatever they are (weak duality), with d = cost - A'y:

    bound = sum(i) y[i] * (lower limit of row i where y[i] > 0, else the upper)
          + sum(j) d[j] * (lower limit of column j where d[j] > 0, else the upper)

Where y[i] stands for a limit that is not there, y[i] is taken for 0; where d[j] does, by more than rounding,
nothing is proven and HiGHS is asked instead. Measured: docs/decisions/0027-ortools.md.

The arrays go to OR-tools' inner module, which loads in 0.1 s: its classes for stating models load pandas too,
for half a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.linear.highs import FEASIBLE, interruptible
from solvers.linear.program import EXACT, Floats, Limits, Outcome, Program

ROUNDING = 1e-7
"""Part of the largest cost that a d[j] may be on the wrong side of 0."""

WHOLE = 1e-6
"""How far an integer of a start may be off."""

TALL = 3
"""Rows a column, above which the dual simplex is the quicker one: 2.3 times for latency on 448 GPUs (4 rows a
column), where it was 30 times as slow for energy (1.6)."""

NAME = "GLOP (OR-tools)"


@dataclass(frozen=True)
class Arrays:
    """A model's columns, and its rows as a sparse matrix (rows, columns) between two limits."""

    cost: Floats
    lower: Floats
    upper: Floats
    integer: NDArray[np.bool_]
    matrix: Any
    row_lower: Floats
    row_upper: Floats

    @classmethod
    def of(cls, model: Program) -> Arrays:
        """The arrays of `model`."""
        from scipy.sparse import csr_matrix

        columns = model.columns()
        starts, indices, data, row_lower, row_upper = model.matrix()
        matrix = csr_matrix((data, indices, starts), shape=(len(row_lower), len(columns[0])))
        return cls(*columns, matrix, row_lower, row_upper)

    def solution(self, values: Floats) -> bool:
        """Whether `values` (columns,) are a solution: rows and limits kept, integers whole."""
        off = np.abs(values - np.round(values))[self.integer].max(initial=0.0)
        return bool(off <= WHOLE) and self.kept_by(values)

    def kept_by(self, values: Floats) -> bool:
        """Whether `values` (columns,) keep all limits and rows, to the tolerance that HiGHS is given."""
        row = self.matrix @ values
        off = FEASIBLE * np.maximum(1.0, abs(self.matrix) @ np.abs(values))
        rows = (row >= self.row_lower - off) & (row <= self.row_upper + off)
        limits = (values >= self.lower - FEASIBLE) & (values <= self.upper + FEASIBLE)
        return bool(rows.all() and limits.all())

    def proven(self, duals: Floats) -> float | None:
        """The bound of the docstring; None where it has none."""
        return self.reduced(duals)[0]

    def reduced(self, duals: Floats) -> tuple[float | None, Floats]:
        """The bound of the docstring, None where it has none, and reduced costs d (columns,)."""
        limit = np.where(duals > 0, self.row_lower, self.row_upper)
        price = np.where(np.isfinite(limit), duals, 0.0)
        reduced = self.cost - self.matrix.T @ price
        end = np.where(reduced > 0, self.lower, self.upper)
        endless = ~np.isfinite(end)
        if (np.abs(reduced[endless]) > ROUNDING * max(1.0, np.abs(self.cost).max(initial=0.0))).any():
            return None, reduced
        rows = price @ np.where(np.isfinite(limit), limit, 0.0)
        return float(rows + reduced @ np.where(endless, 0.0, end)), reduced


def relax(model: Program, limits: Limits) -> Outcome | None:
    """The relaxation of `model` with its duals; None where GLOP ends without values and a bound that hold."""
    a = Arrays.of(model)
    solver = relaxed(a, limits.seconds)
    if not solver.has_solution():
        return None
    values, row = np.array(solver.variable_values()), np.array(solver.dual_values())
    value, bound = float(a.cost @ values), a.proven(row)
    if bound is None or abs(value - bound) > EXACT * max(1.0, abs(value)) or not a.kept_by(values):
        return None
    duals = dict(zip(model.rows, row.tolist(), strict=True))
    return Outcome("optimal", value, min(bound, value), values, NAME, duals)


def completed(a: Arrays, integers: Mapping[int, int], seconds: float) -> Floats | None:
    """The best values of all columns with `integers` fixed; None where none were found that keep all rows."""
    at, counts = list(integers), np.array(list(integers.values()), dtype=float)
    lower, upper = a.lower.copy(), a.upper.copy()
    lower[at] = upper[at] = counts
    solver = relaxed(replace(a, lower=lower, upper=upper), seconds)
    if not solver.has_solution():
        return None
    values = np.array(solver.variable_values())
    values[at] = counts
    return values if a.kept_by(values) else None


def relaxed(a: Arrays, seconds: float) -> Any:
    """GLOP after its run on `a` without integrality. Raises KeyboardInterrupt."""
    rows, columns = a.matrix.shape
    return run("glop", program(a), seconds, "use_dual_simplex: true" if rows > TALL * columns else "")


def program(a: Arrays, whole: bool = False) -> Any:
    """`a` as OR-tools' model: no column an integer, or all of them where `whole`."""
    from ortools.linear_solver.python import model_builder_helper

    stated = model_builder_helper.ModelBuilderHelper()
    columns: Any = (a.lower, a.upper, a.cost, a.row_lower, a.row_upper, a.matrix)
    stated.fill_model_from_sparse_data(*columns)
    for i in range(len(a.cost)) if whole else ():
        stated.set_var_integrality(i, True)
    return stated


def run(name: str, stated: Any, seconds: float, parameters: str = "") -> Any:
    """OR-tools' solver `name` after its run. Raises KeyboardInterrupt where Ctrl-C ended that."""
    from ortools.linear_solver.python import model_builder_helper

    solver = model_builder_helper.ModelSolverHelper(name)
    solver.set_time_limit_in_seconds(max(seconds, 0.01))
    if parameters:
        solver.set_solver_specific_parameters(parameters)
    if interruptible(lambda: solver.solve(stated), solver.interrupt_solve):
        raise KeyboardInterrupt
    return solver

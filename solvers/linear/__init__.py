"""Linear and integer programs, stated (`program.py`) and solved, with OR-tools' help where columns are
thousands (`large.py`). What formulations need of both is imported from here."""

from __future__ import annotations

from solvers.linear import highs
from solvers.linear.cbc import searched
from solvers.linear.program import (
    ENDLESS_S,
    EXACT,
    INF,
    Expr,
    Floats,
    Limits,
    Outcome,
    Program,
    StatedTooLate,
    Status,
    Term,
    Undecided,
    Var,
    gap,
    judge,
    met,
    total,
)

__all__ = [
    "ENDLESS_S",
    "EXACT",
    "INF",
    "Expr",
    "Floats",
    "Limits",
    "Linear",
    "Outcome",
    "StatedTooLate",
    "Status",
    "Term",
    "Undecided",
    "Var",
    "gap",
    "judge",
    "met",
    "total",
]

LARGE = 4000
"""Columns from which on HiGHS's relaxation takes about half a second: docs/decisions/0027-ortools.md."""


class Linear(Program):
    """A program that solves itself."""

    def solve(self, limits: Limits, start: Floats | None = None) -> Outcome:
        """Minimise, beginning from `start` where it is a full solution of it."""
        if start is not None and len(start) != len(self.lower):
            start = None
        if self.large and any(self.integer):
            from solvers.linear import large  # loads OR-tools

            return large.solve(self, limits, start)
        return searched(self, limits, start)

    def relax(self, limits: Limits) -> Outcome:
        """The linear relaxation with its row duals (per unit of the row's limit). Raises KeyboardInterrupt:
        of a relaxation that is broken off nothing is of use."""
        outcome = None
        if self.large:
            from solvers.linear import glop

            outcome = glop.relax(self, limits)
        if outcome is None:
            outcome = highs.solve(self, limits, None, relaxed=True)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        return outcome

    @property
    def large(self) -> bool:
        """So many columns that OR-tools is worth loading: a tenth of a second."""
        return len(self.lower) >= LARGE

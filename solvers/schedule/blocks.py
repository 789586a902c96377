"""A bound on a schedule: blocks of slots, each solved by itself as a program of whole numbers.

Rows with columns in several blocks (starts and stays over an edge, `same` below) go into the goal, priced
by their duals y of the relaxation; machines reserved are chosen by each block, r[g,b], and rows
`same[g,b]: r[g,b] == r[g]` are priced by what a block's rows `beyond` pay for them, which adds up to their
price. For any y >= 0 (0 >= where rows are limited from above)

    sum over priced rows of  y limit  +  sum(b) min { (c - y A) x : x keeps the rows of block b }

is at most the cost of every schedule (Lagrange; Geoffrion 1974). With the duals of the relaxation it is at
least the relaxation's value, and more by all that whole servers cost inside of blocks. Every column is
bounded, so that rounded duals cost nothing but strength.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.linear import Expr, Floats, Limits, Linear, Outcome, Term, Var, highs
from solvers.schedule.race import Ends
from solvers.schedule.rows import Stated

INSIDE = 1e-5
"""Gap within which a block is solved."""


@dataclass
class Blocks:
    """A program with the duals of its relaxation, ready to be cut into blocks."""

    stated: Stated
    duals: Floats

    @staticmethod
    def of(stated: Stated, relaxed: Outcome) -> Blocks:
        """Duals with the sign that their row allows."""
        y = np.array([relaxed.duals[key] for key in stated.m.rows])
        *_, lower, upper = stated.m.matrix()
        y = np.where(np.isinf(lower), np.minimum(y, 0.0), y)
        return Blocks(stated, np.where(np.isinf(upper), np.maximum(y, 0.0), y))

    def __post_init__(self) -> None:
        m = self.stated.m
        self.cost, _, self.upper, self.integer = m.columns()
        self.starts, self.index, self.data, self.row_lower, self.row_upper = m.matrix()
        self.row = np.repeat(np.arange(len(m.rows)), np.diff(self.starts))
        self.slot = np.full(len(self.cost), -1)  # of each column; -1: machines reserved
        for family in (self.stated.n, self.stated.s, self.stated.o):
            for (_, t), v in family.items():
                self.slot[v.column] = t

    def solved(self, edges: Floats, limits: Limits, ends: Ends) -> tuple[float | None, Floats]:
        """The bound of blocks [edges[b], edges[b + 1]), None where it was not finished, and values (columns,)
        of each block's own optimum, nan where there is none. Raises KeyboardInterrupt."""
        values = np.full(len(self.cost), np.nan)
        block = np.where(self.slot < 0, -1, np.searchsorted(edges, self.slot, side="right") - 1)
        of_row, priced = self._parted(block)
        y = np.where(priced, self.duals, 0.0)
        cost = self.cost - np.bincount(self.index, self.data * y[self.row], len(self.cost))
        limit = np.where(np.isfinite(self.row_lower), self.row_lower, self.row_upper)
        found = float(y[priced] @ limit[priced])
        kept = self._reserved(edges, of_row)
        of_row[priced] = -1
        for b in range(len(edges) - 1):
            seconds = ends.share(len(edges) - 1 - b)
            if ends.over():
                return None, values
            own, columns = self._block(b, block, of_row, cost, kept)
            done = highs.solve(own, Limits(INSIDE, seconds, limits.work, seed=limits.seed), None)
            if done.status == "interrupted":
                raise KeyboardInterrupt
            least = done.bound if done.bound is not None else own.relax(Limits()).bound
            if least is None:
                return None, values
            if done.values is not None:
                values[columns] = done.values[: len(columns)]
            found += least
        return found, values

    def _parted(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The block of each row, and whether it is priced as it has columns in several."""
        own = block[self.index]
        low = np.full(len(self.row_lower), np.iinfo(np.int64).max)
        high = np.full(len(self.row_lower), -1)
        timed = own >= 0
        np.minimum.at(low, self.row[timed], own[timed])
        np.maximum.at(high, self.row[timed], own[timed])
        return low, low != high

    def _reserved(self, edges: Floats, of_row: np.ndarray) -> dict[int, Floats]:
        """What a reserved machine of each sort costs in each block, (b,): in all, its price."""
        kept = {}
        for g, v in self.stated.r.items():
            mine = self.index == v.column
            paid = np.bincount(of_row[self.row[mine]], self.duals[self.row[mine]], len(edges) - 1)
            even = np.diff(edges) / np.diff(edges).sum()
            kept[g] = self.cost[v.column] * (paid / paid.sum() if paid.sum() > 0 else even)
        return kept

    def _block(
        self, b: int, block: np.ndarray, of_row: np.ndarray, cost: Floats, kept: dict[int, Floats]
    ) -> tuple[Linear, list[int]]:
        """The program of one block, and the columns of the whole that its first are."""
        m = Linear(f"block {b}")
        columns = np.flatnonzero(block == b)
        tops = dict(enumerate(self.upper.tolist()))
        var: dict[int, Var] = m.integers("x", [int(j) for j in columns if self.integer[j]], tops)
        var |= m.reals("y", [int(j) for j in columns if not self.integer[j]], tops)
        var |= m.integers("r", [v.column for v in self.stated.r.values()], tops)
        goal = [Term(v.column, float(cost[j])) for j, v in var.items() if block[j] >= 0]
        goal += [Term(var[v.column].column, float(kept[g][b])) for g, v in self.stated.r.items()]
        m.minimise(goal)
        for i in np.flatnonzero(of_row == b):
            at = slice(self.starts[i], self.starts[i + 1])
            terms = [
                Term(var[int(j)].column, float(a)) for j, a in zip(self.index[at], self.data[at], strict=True)
            ]
            m.add("row", int(i), Expr(terms, float(self.row_lower[i]), float(self.row_upper[i])))
        return m, [j for j in var if block[j] >= 0]

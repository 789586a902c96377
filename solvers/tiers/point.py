"""The tiers program at one batch point: its optimum with prices, or the prices that show it has no room.

Rows are in units of the least time of a layer and of the tiers' room, so that those that matter are near 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.linear import Floats, Limits, Linear, Outcome, Term, Undecided, Var, total
from solvers.tiers.types import Duals, Place, Point, TiersProblem

LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class Solved:
    """Shares (columns,), seconds of the block and the prices that prove them."""

    shares: Floats
    seconds: float
    duals: Duals


@dataclass(frozen=True)
class Built:
    """The model: 1 of s is `unit_s` seconds, 1 of fit row f `scale[f]` bytes."""

    model: Linear
    x: Mapping[Place, Var]
    unit_s: float
    scale: Floats


def solve_at(p: TiersProblem, point: Point) -> Solved | None:
    """The optimum of the point; None where the tiers have no room. Raises Undecided, KeyboardInterrupt."""
    built = build(p, point)
    outcome = built.model.relax(LIMITS)
    if outcome.refuted:
        return None
    shares = _shares(p, built, outcome)
    return Solved(shares, seconds(p, point, shares), duals(p, built, outcome))


def build(p: TiersProblem, point: Point, pieces: Mapping[str, int] | None = None) -> Built:
    """Write the model: one statement for each line of the docstring of `tiers.py`, in its order.

    With `pieces` of each tensor x counts them, in integers: `rounding.py`.
    """
    m = Linear("tiers")
    each = pieces or {q: 1 for q, _ in p.columns}
    x = m.integers("n", p.columns) if pieces else m.reals("x", p.columns)
    s = m.reals("s", p.times)
    unit, scale = _unit_s(p, point), _scale(p, point)

    m.minimise([s[phase] * times for phase, times in p.times.items()])
    _place(m, x, each)
    for i, (phase, what) in enumerate(p.busy):
        row = point.work[i] / unit
        m.add("busy", (phase, what), total([*_terms(x, row, each), s[phase] * -1.0]) <= -float(row[-1]))
    for i, moment in enumerate(p.fits):
        row = point.bytes[i] / scale[i]
        m.add("fit", moment, total(_terms(x, row, each)) <= float(p.rooms[i] / scale[i] - row[-1]))
    return Built(m, x, unit, scale)


def no_room(p: TiersProblem, point: Point) -> Duals:
    """Prices of the fit rows that show that the point has no room: of the least overflow of all tiers. Raises
    Undecided, KeyboardInterrupt."""
    m = Linear("overflow")
    x, each = m.reals("x", p.columns), {q: 1 for q, _ in p.columns}
    over = m.reals("over", p.fits)
    scale = _scale(p, point)
    m.minimise([v * 1.0 for v in over.values()])
    _place(m, x, each)
    for i, moment in enumerate(p.fits):
        row = point.bytes[i] / scale[i]
        left = total([*_terms(x, row, each), over[moment] * -1.0])
        m.add("fit", moment, left <= float(p.rooms[i] / scale[i] - row[-1]))
    outcome = m.relax(LIMITS)
    if outcome.refuted:
        raise Undecided("there is always some overflow")
    y = np.array([max(0.0, -outcome.duals["fit", moment]) for moment in p.fits])
    return Duals(np.zeros(len(p.busy)), y / scale)


def seconds(p: TiersProblem, point: Point, shares: Floats) -> float:
    """Seconds of the block with these shares: the solver's own figure is not trusted."""
    rows = point.work[:, :-1] @ shares + point.work[:, -1]
    return float(sum(t * rows[of].max() for t, of in zip(p.counts, p.of_phase, strict=True) if len(of)))


def duals(p: TiersProblem, built: Built, outcome: Outcome) -> Duals:
    """Prices made to add up: those of a phase's busy rows to its times."""
    busy = np.array([max(0.0, -outcome.duals["busy", row]) for row in p.busy])
    for rows, times in zip(p.of_phase, p.counts, strict=True):
        busy[rows] = busy[rows] * times / busy[rows].sum() if busy[rows].sum() > 0 else times / len(rows)
    fits = np.array([max(0.0, -outcome.duals["fit", row]) for row in p.fits])
    return Duals(busy, fits * built.unit_s / built.scale)


def _place(m: Linear, x: Mapping[Place, Var], each: Mapping[str, int]) -> None:
    for tensor, pieces in each.items():
        m.add("place", tensor, total(v for (q, _), v in x.items() if q == tensor).equals(pieces))


def _terms(x: Mapping[Place, Var], row: Floats, each: Mapping[str, int]) -> list[Term]:
    return [v * float(c / each[q]) for ((q, _), v), c in zip(x.items(), row[:-1], strict=True) if c]


def _unit_s(p: TiersProblem, point: Point) -> float:
    """The longest row with every tensor where that row is shortest: what a layer takes at least."""
    least = point.work[:, -1] + sum(point.work[:, of].min(axis=1) for of in p.of_tensor)
    return float(least.max()) or float(point.work.max()) or 1.0


def _scale(p: TiersProblem, point: Point) -> Floats:
    """What 1 of a fit row is (fits,): the tier's room, or where it has none the most that could lie there."""
    most = np.abs(point.bytes).max(axis=1)
    return np.where(p.rooms > 0, p.rooms, np.where(most > 0, most, 1.0))


def _shares(p: TiersProblem, built: Built, outcome: Outcome) -> Floats:
    values: Any = outcome.values
    x: Floats = np.clip([values[v.column] for v in built.x.values()], 0.0, 1.0)
    for of in p.of_tensor:
        x[of] /= x[of].sum()
    return x

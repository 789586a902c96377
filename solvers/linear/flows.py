"""Flows that need only be enough: a program without them, where its integers decide what they can be.

A real column f >= 0 without a cost goes where its rows are only
    u * f - b * n <= 0               one or more, with the same integer n:  f <= most * n, most = min b / u
    a * f + others == right, or >=   a > 0
and most * n is put for it into the latter, which then asks for at least its right side. In a fleet with one
bucket these rows are `busy`, `run` and `serve`, `out`, `in`: the replicas must be able to serve the demand,
and what each of them serves is found afterwards.

This is a relaxation, whatever else the program says: each of its answers is one here, at the same cost, so a
bound holds for it. The other way round is not assumed: the real columns are solved for with the integers
found. Half of the columns and nearly all rows go. Measured: docs/decisions/0027-ortools.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

from solvers.linear.program import INF, Expr, Program, Term

NEARLY_ALL = 0.8
"""Part of the real columns that must be such flows: HiGHS took twice as long without a fifth of them."""


@dataclass(frozen=True)
class Without:
    """`model` without its flows; `kept[i]` is the column of the program that its column i is."""

    model: Program
    kept: tuple[int, ...]


def without(model: Program) -> Without | None:
    """The program without such flows; None where other real columns are more than a few."""
    most = _most(model)
    if len(most) < NEARLY_ALL * (len(model.integer) - sum(model.integer)) or not most:
        return None
    kept = tuple(i for i in range(len(model.lower)) if i not in most)
    at = {i: j for j, i in enumerate(kept)}
    small = copy(model)
    small.lower, small.upper = ([of[i] for i in kept] for of in (model.lower, model.upper))
    small.integer = [model.integer[i] for i in kept]
    small.goal = [Term(at[i], c) for i, c in model.goal if i in at]
    small.first = tuple(at[i] for i in model.first)
    small.room = None if model.room is None else at.get(model.room)
    small.rows = {}
    for name, row in model.rows.items():
        terms = [Term(at[i], c) if i in at else Term(at[most[i][0]], c * most[i][1]) for i, c in row.terms]
        if all(i in at for i, _ in row.terms):
            small.rows[name] = Expr(terms, row.lower, row.upper)
        elif row.lower > -INF:  # else it is one that says how large a flow can be
            small.rows[name] = Expr(terms, row.lower, INF)
    return Without(small, kept)


def _most(model: Program) -> Mapping[int, tuple[int, float]]:
    """The column that limits each such flow, and how much one of that allows."""
    out = {i for i, c in model.goal if c} | {i for i, whole in enumerate(model.integer) if whole}
    out |= {i for i, low in enumerate(model.lower) if low}  # without its upper limit it is relaxed, too
    most: dict[int, tuple[int, float]] = {}
    served: set[int] = set()
    for row in model.rows.values():
        limit = _limit(row, out, model)
        if limit is not None:
            f, n, each = limit
            known = most.get(f, (n, INF))
            if known[0] != n:
                out.add(f)
            most[f] = (n, min(each, known[1]))
            continue
        for i, c in row.terms:
            if c > 0 and row.lower > -INF and i not in served:
                served.add(i)
            else:
                out.add(i)
    return {i: limit for i, limit in most.items() if i in served and i not in out}


def _limit(row: Expr, out: set[int], model: Program) -> tuple[int, int, float] | None:
    """Flow, what limits it, and how much one of that allows, where the row says only that."""
    if len(row.terms) != 2 or row.upper != 0 or row.lower > -INF:
        return None
    for (f, u), (n, b) in (row.terms, row.terms[::-1]):
        if u > 0 > b and f not in out and model.integer[n] and model.lower[n] >= 0:
            return f, n, -b / u
    return None

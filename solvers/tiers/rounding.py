"""Shares of `tiers.py` in whole pieces: layers of weights, a request's layers of cache, its activations.

Sets, data, rows as there, and
Data       pieces[i,q]  of tensor q at point i
Choose     n[q,t]  integer >= 0  pieces of q on t;   x[q,t] = n[q,t] / pieces[i,q]
place[q]   sum(t) n[q,t] == pieces[i,q]

Points are taken by the bound of their shares, the best first, until none left can beat the best in whole
pieces: the bound is again over the whole grid. Near the optimum many points may lie within the loss, so the
search stops after `TRIED` of them with the bound it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from solvers.linear import Limits, Status, judge
from solvers.tiers import Grid
from solvers.tiers.point import build, seconds
from solvers.tiers.types import Place, Point, TiersProblem

TRIED = 24
"""Integer programs at most."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """`pieces[tensor, tier]` without zeros at `point`; no pieces at any point pass `bound` tokens/s."""

    status: Status
    tokens_per_s: float | None = None
    bound: float | None = None
    point: Point | None = None
    pieces: Mapping[Place, int] = field(default_factory=dict)


def rounded(p: TiersProblem, limits: Limits, until: float = math.inf) -> Rounded:
    """The best found in whole pieces; `limits` are of all programs together, `until` (`time.perf_counter`) is
    their end whatever limits the work: points by the million take seconds to bound."""
    began, grid, best, tried = time.perf_counter(), Grid(p), Rounded("infeasible"), 0
    here = best
    while (i := grid.most_promising(best.tokens_per_s)) is not None:
        left_s = limits.seconds - (time.perf_counter() - began)
        if tried == TRIED or (tried and left_s <= 0) or time.perf_counter() > until:
            break
        found, least = grid.visit(i), best.tokens_per_s or 0.0
        if found is None or grid.tokens[i] / found.seconds <= least:
            continue
        tried += 1
        here = in_pieces(p, grid.point(i), replace(limits, seconds=max(left_s, 0.1)))
        grid.bound[i] = min(grid.bound[i], here.bound or 0.0)
        best = here if (here.tokens_per_s or 0.0) > least else best
        if here.status == "interrupted":
            break
    bound = grid.highest(best.tokens_per_s)
    open_: Status = "interrupted" if here.status == "interrupted" else "time_limit"
    stopped = "infeasible" if bound is None else open_  # what may be is not denied
    return replace(best, status=judge(best.tokens_per_s, bound, limits, stopped), bound=bound)


def in_pieces(p: TiersProblem, point: Point, limits: Limits) -> Rounded:
    """The pieces that bring most at `point`, and what no others there pass."""
    each = pieces_of(point)
    built = build(p, point, each)
    outcome = built.model.solve(limits)
    bound = None if outcome.status == "infeasible" else math.inf
    if outcome.bound is not None and outcome.bound > 0:
        bound = point.tokens / (outcome.bound * built.unit_s)
    if not outcome.has_values:
        return Rounded(outcome.status, None, bound)
    found = Rounded(outcome.status, None, bound, point, outcome.counts(built.x))
    shares = np.array([share_of(found, place) for place in p.columns])
    return replace(found, tokens_per_s=point.tokens / seconds(p, point, shares))


def pieces_of(point: Point) -> dict[str, int]:
    """How many of each tensor there are at `point`."""
    return {q: none + point.batches * each for q, (none, each) in point.line.pieces.items()}


def share_of(r: Rounded, place: Place) -> float:
    """The part of a tensor that rests on a tier."""
    return r.pieces.get(place, 0) / pieces_of(r.point)[place[0]] if r.point else 0.0

"""Tiers: where weights, KV cache and activations of a block of requests rest, for the most tokens a second.

A block is k GPU batches that pass each layer one after another, so that a layer's weights are fetched once
for all of them. Seconds and bytes of a layer are linear in the shares, and affine in k along a line.

Sets       q in Q     tensors: weights, cache, activations         t in T   memory tiers
           p in P     phases (prefill, decode)                     r in R[p]  what goes on side by side in p
           f in F[t]  moments at which tier t must hold its share
           i in I     batch points: a line (GPU batch, ways to compute) with k = 1..K[line] batches
Data       a[i,r,q,t], a0[i,r]   a layer's time in r for all of q on t; wherever it rests        [s]
           b[i,f,q,t], b0[i,f]   held at f for all of q on t; wherever it rests                  [bytes]
           room[t] [bytes]       times[p]  layers x steps of phase p       tokens[i]  that the block brings
Choose     x[q,t] real >= 0  share of q on t           s[p] real  time of a layer in p           [s]
minimise   sum(p) times[p] * s[p]                  at a point i; of all points the most tokens[i] a second
place[q]   sum(t) x[q,t]                    == 1
busy[r]    sum(q,t) a[i,r,q,t] * x[q,t] + a0[i,r]  <= s[p]     r in R[p]: the largest is the layer's time
fit[f]     sum(q,t) b[i,f,q,t] * x[q,t] + b0[i,f]  <= room[t]    f in F[t]

Bound      For any y >= 0 on busy and fit rows with sum(r in R[p]) y[r] = times[p], at every point i
               seconds[i] >= a0[i].y + (b0[i] - room).y + sum(q) min(t) (a[i,.,q,t].y + b[i,.,q,t].y)
           (weak duality: x ranges over simplices). So the prices of one solved point bound all others in one
           product of matrices. Points are taken by their bound, the best first; when the best bound left is
           the best value found, that value is the optimum of the whole grid. A y with no time rows and a
           right side above 0 shows that a point has no room; it too is tried on all points. Where K is not
           given, it is the last k that y = 1 on every tier's last moment does not refuse.

Assumes    what a share needs is spread evenly over layers and batches; bytes do not shrink with k.
Source     the policy space: FlexGen, arXiv:2303.06865; the bound over its grid is ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

from solvers.linear import EXACT, Floats, Limits, Status, Undecided, judge
from solvers.tiers.point import Solved, no_room, solve_at
from solvers.tiers.types import Duals, Line, Point, TiersProblem, TiersSolution

MOST = 1 << 22
"""GPU batches of a block at most."""
CLOSE = 1e-9
"""Points that promise less than this share more than the best known are not solved."""


def solve(p: TiersProblem, limits: Limits) -> TiersSolution:
    """The best point of the grid, its shares, and the bound over all points that have room."""
    began = time.perf_counter()
    grid, solved = Grid(p), 0
    best = TiersSolution("infeasible")
    while (i := grid.most_promising(best.tokens_per_s)) is not None:
        if solved and time.perf_counter() - began > limits.seconds:
            break
        point, solved = grid.point(i), solved + 1
        found = grid.visit(i)
        if found is not None and (value := point.tokens / found.seconds) > (best.tokens_per_s or 0.0):
            best = TiersSolution("optimal", value, None, point, found.shares, found.duals)
    bound = grid.highest(best.tokens_per_s)
    stopped: Status = "infeasible" if bound is None else "time_limit"  # what may be is not denied
    status = judge(best.tokens_per_s, bound, limits, stopped)
    return replace(best, status=status, bound=bound, solved=solved, points=grid.points)


def at(line: Line, batches: int) -> Point:
    """The batch point of `line` with so many GPU batches."""
    seconds = line.seconds[0] + batches * line.seconds[1]
    held = line.bytes[0] + batches * line.bytes[1]
    return Point(line, batches, batches * line.tokens, seconds, held)


class Grid:
    """Batch points and what each may bring at most: bound (points,) in tokens/s, 0: no room.

    Points that cannot beat the best known are dropped on the way.
    """

    def __init__(self, p: TiersProblem) -> None:
        self.p = p
        counts = [largest(p, line) for line in p.lines]
        self.points = sum(counts)
        self.line = np.repeat(np.arange(len(counts)), counts)
        self.batches = np.concatenate([np.zeros(0, int), *(np.arange(1, n + 1) for n in counts)])
        self.tokens = np.array([line.tokens for line in p.lines])[self.line] * self.batches
        self.bound = np.full(self.points, np.inf)
        self.visited = np.zeros(self.points, bool)
        if counts:
            self.tighten(_even(p))

    def most_promising(self, best: float | None) -> int | None:
        """The point not visited yet with the highest bound; None where none can beat `best`."""
        kept = self.bound > (best or 0.0) * (1 + CLOSE)
        if kept.sum() < 0.8 * len(kept):
            for name in ("line", "batches", "tokens", "bound", "visited"):
                setattr(self, name, getattr(self, name)[kept])
            kept = kept[kept]
        left = np.where(kept & ~self.visited, self.bound, 0.0)
        return int(left.argmax()) if left.any() else None

    def visit(self, i: int) -> Solved | None:
        """Solve point i and bound all by what that proves; None where it has no room, or the time of its
        program ended first: what it may bring at most then stands. Raises KeyboardInterrupt."""
        self.visited[i] = True
        try:
            found = solve_at(self.p, self.point(i))
            if found is None:
                self.refuse(no_room(self.p, self.point(i)))
                self.bound[i] = 0.0
        except Undecided:
            return None
        if found is not None:
            self.tighten(found.duals)
        return found

    def highest(self, found: float | None) -> float | None:
        """Tokens/s that no point passes, never below what was `found`; None where no point has room."""
        top = max(found or 0.0, float(self.bound.max(initial=0.0)))
        return None if top == 0 else found if found and top <= found * (1 + CLOSE) else top

    def point(self, i: int) -> Point:
        return at(self.p.lines[self.line[i]], int(self.batches[i]))

    def tighten(self, duals: Duals) -> None:
        """Bound all points by the prices `duals`."""
        self.bound = np.minimum(self.bound, self.tokens / np.maximum(self._least(duals), 1e-300))

    def refuse(self, ray: Duals) -> None:
        """Bound the points by 0 that `ray` shows to have no room."""
        self.bound[self._least(ray) > CLOSE] = 0.0

    def _least(self, duals: Duals) -> Floats:
        """The right side of the bound of the docstring (points,)."""
        priced = np.array([_priced(self.p, line, duals) for line in self.p.lines])
        return _least(self.p, lambda c: priced[self.line, 0, c] + self.batches * priced[self.line, 1, c])


def _priced(p: TiersProblem, line: Line, duals: Duals) -> Floats:
    """Cost at the prices `duals` of each column, and last of what rests anywhere: (2, columns + 1)."""
    cost: Floats = line.seconds.sum(axis=1).transpose(0, 2, 1) @ duals.busy
    cost = cost + line.bytes.transpose(0, 2, 1) @ duals.fits
    cost[0, -1] -= p.rooms @ duals.fits
    return cost


def _least(p: TiersProblem, cost: Callable[[int], Floats]) -> Floats:
    """Every tensor where it costs least, and what rests anywhere: (points,) of those of a column."""
    total = cost(-1)
    for columns in p.of_tensor:
        total = total + reduce(np.minimum, (cost(int(c)) for c in columns))
    return total


def _even(p: TiersProblem) -> Duals:
    """Prices that use no memory row: every row of a phase has the same."""
    busy = np.zeros(len(p.busy))
    for rows, times in zip(p.of_phase, p.counts, strict=True):
        busy[rows] = times / len(rows)
    return Duals(busy, np.zeros(len(p.fits)))


def largest(p: TiersProblem, line: Line) -> int:
    """The last number of GPU batches that all tiers together may hold."""
    if line.most is not None:
        return line.most
    ray = Duals(np.zeros(len(p.busy)), np.zeros(len(p.fits)))
    ray.fits[list({tier: i for i, (tier, _) in enumerate(p.fits)}.values())] = 1.0
    none, each = _priced(p, line, ray)
    scale = EXACT * max(1.0, float(p.rooms.sum()))

    def refused(k: int) -> bool:
        return bool(_least(p, lambda c: none[c] + k * each[c]) > scale)

    low, high = 0, 1
    while not refused(high):
        low, high = high, 2 * high
        if high > MOST:
            raise ValueError(f"line {line.key} has no end: its GPU batches need no memory")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(middle) else (middle, high)
    return low

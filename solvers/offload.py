"""Offload: which device of a chain holds which layers, and which layers leave a part outside.

Sets       l in 0 .. L-1 layers in order     s in 0 .. S-1 devices in order     k[l] kind of layer l
Data       held[k]     bytes of a layer of kind k on its device, all of it there              [B]
           freed[k]    of these, bytes of the part that may lie outside                       [B]
           cost[k]     what that costs, 0 <= cost                                             [s]
           room[s]     bytes of device s                                                      [B]
           place[s,k]  what a layer costs on s (default 0)                                    [s]
           open[s]     what s costs once it holds a layer (default 0)                         [s]
           outside[s]  bytes outside that parts of layers on s may take (default any)         [B]
           spare[s]    whether s may hold no layer (default: none may)
Choose     end[s]    integer, end[-1] = 0 <= end[0] <= ... <= end[S-1] = L: s holds [end[s-1], end[s])
           away[l]   0 or 1: its part lies outside
minimise   sum(s) open[s] * [end[s] > end[s-1]] + sum(l on s) place[s,k[l]] + cost[k[l]] * away[l]     [s]
room[s]    sum(l on s) held[k[l]] - freed[k[l]] * away[l]  <= room[s]
outside[s] sum(l on s) freed[k[l]] * away[l]               <= outside[s]
spare[s]   end[s] > end[s-1]                                                    unless spare[s]

Method     exact. What a range of layers must free on a device is a knapsack over kinds, of which few differ
           in what they free and cost: all counts of all of these but one are tried, the last follows. Ranges
           are joined by dynamic programming over (devices used, layers placed). Of the layers of a kind on a
           device the first leave.
Assumes    layers of one kind are alike; at most a handful of kinds have a part that may leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT = 1e-9
"""Relative slack of a room: rounding."""


@dataclass(frozen=True)
class OffloadProblem:
    """Numbers only; `kind` (L,), `held`, `freed`, `cost` (kinds,), `room` (S,); `place` (S, kinds), `opened`,
    `outside` and `spare` (S,)."""

    kind: Ints
    held: Floats
    freed: Floats
    cost: Floats
    room: Floats
    place: Floats | None = None
    opened: Floats | None = None
    outside: Floats | None = None
    spare: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class OffloadSolution:
    """`stages[s]` layers of device s, half-open; `away[s][k]` layers of kind k there whose part lies outside;
    `cost` None: no placement fits. It is the optimum, proven by trying all."""

    stages: tuple[tuple[int, int], ...]
    away: tuple[tuple[int, ...], ...]
    cost: float | None


def solve(p: OffloadProblem) -> OffloadSolution:
    """The cheapest placement."""
    layers, gpus = len(p.kind), len(p.room)
    before = counts_before(p.kind, len(p.held))
    own = [_range_costs(p, before, s) for s in range(gpus)]
    best = np.full((gpus + 1, layers + 1), np.inf)
    best[0, 0] = 0.0
    cut = np.zeros((gpus + 1, layers + 1), dtype=np.int64)
    for s in range(gpus):
        total = best[s][:, None] + own[s]  # (first layer, end)
        cut[s + 1] = total.argmin(axis=0)
        best[s + 1] = total[cut[s + 1], np.arange(layers + 1)]
    cost = float(best[gpus, layers])
    if not np.isfinite(cost):
        return OffloadSolution((), (), None)
    return _extract(p, before, cut, cost)


def counts_before(kind: Ints, kinds: int) -> Ints:
    """Layers of each kind before each layer, (L + 1, kinds)."""
    before = np.zeros((len(kind) + 1, kinds), dtype=np.int64)
    np.cumsum(np.eye(kinds, dtype=np.int64)[kind], axis=0, out=before[1:])
    return before


def _extract(p: OffloadProblem, before: Ints, cut: Ints, cost: float) -> OffloadSolution:
    """Ranges from the back, and what leaves in each."""
    end, stages = len(p.kind), list[tuple[int, int]]()
    for s in range(len(p.room), 0, -1):
        start = int(cut[s, end])
        stages.insert(0, (start, end))
        end = start
    away = []
    for s, (a, b) in enumerate(stages):
        n = before[b] - before[a]
        _, chosen = _cheapest(p, n[None, :], np.array([n @ p.held - p.room[s]]), s)
        away.append(tuple(int(x) for x in chosen[0]))
    return OffloadSolution(tuple(stages), tuple(away), cost)


def _range_costs(p: OffloadProblem, before: Ints, s: int) -> Floats:
    """Least cost of layers [a, b) on device s, (L + 1, L + 1); infinite where they don't fit, or leave other
    devices none."""
    layers, gpus = len(before) - 1, len(p.room)
    earlier, later = s, gpus - 1 - s
    if p.spare is not None:
        earlier, later = int((~p.spare[:s]).sum()), int((~p.spare[s + 1 :]).sum())
    a, b = _ranges(layers, earlier, later, s == 0, s == gpus - 1)
    n = before[b] - before[a]
    least, _ = _cheapest(p, n, n @ p.held - p.room[s], s)
    found = np.full((layers + 1, layers + 1), np.inf)
    found[a, b] = least
    if p.place is not None:
        found[a, b] += n @ p.place[s]
    if p.opened is not None:
        found[a, b] += p.opened[s]
    if p.spare is not None and p.spare[s]:
        np.fill_diagonal(found, 0.0)
    return found


@lru_cache(maxsize=256)
def _ranges(layers: int, earlier: int, later: int, first: bool, last: bool) -> tuple[Ints, Ints]:
    """First layer and end of all that a device may hold, with so many before and behind it that hold some."""
    starts = np.zeros(1, dtype=np.int64) if first else np.arange(earlier, layers)
    ends = np.array([layers]) if last else np.arange(0, layers + 1 - later)
    a, b = (x.ravel() for x in np.meshgrid(starts, ends, indexing="ij"))
    return a[a < b], b[a < b]


def _cheapest(p: OffloadProblem, n: Ints, excess: Floats, s: int) -> tuple[Floats, Ints]:
    """The cheapest counts (r, kinds) of layers, at most `n` (r, kinds), that free `excess` (r,) on device s,
    and what they cost (r,): infinite where all of them don't."""
    excess = excess - EXACT * abs(float(p.room[s]))
    most = np.inf if p.outside is None else float(p.outside[s]) * (1 + EXACT)
    alike: dict[tuple[float, float], list[int]] = {}
    for k in range(len(p.held)):
        if p.freed[k] > 0 and n[:, k].any():
            alike.setdefault((float(p.freed[k]), float(p.cost[k])), []).append(k)
    least, chosen = np.where(excess <= 0, 0.0, np.inf), np.zeros_like(n)
    if not alike:
        return least, chosen
    freed, cost = np.array(list(alike)).T
    there = np.stack([n[:, kinds].sum(axis=1) for kinds in alike.values()], axis=1)
    best = np.zeros_like(there)
    for tried in product(*(range(int(m) + 1) for m in there[:, :-1].max(axis=0))):
        count = np.zeros_like(there)
        count[:, :-1] = tried
        lacking = np.maximum(excess - count @ freed, 0.0)
        count[:, -1] = np.ceil(lacking / freed[-1])
        allowed = (count <= there).all(axis=1) & (count @ freed <= most)
        total = np.where(allowed, count @ cost, np.inf)
        better = total < least
        least, best = np.where(better, total, least), np.where(better[:, None], count, best)
    for left, kinds in zip(best.T, alike.values(), strict=True):
        for k in kinds:
            chosen[:, k] = np.minimum(left, n[:, k])
            left = left - chosen[:, k]
    return least, chosen

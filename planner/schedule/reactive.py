"""What people do without a plan: a threshold autoscaler that follows the load that was.

In every slot it runs what the last slot's demand needs, and `head` more, of the kinds with the cheapest
capacity first; minimum up times hold, and what it starts serves a cold start later: in the meantime it falls
short. Tuned: the least head-room at which it falls short of no more than `SHORT` of all demand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solvers.schedule import Problem

SHORT = 0.001
"""Share of all demand that a tuned autoscaler may miss."""

HEADS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Head-rooms that are tried."""


@dataclass(frozen=True)
class Reactive:
    """Dollars, head-room, the share of all demand that it misses, counts (k, t)."""

    usd: float
    head: float
    short: float
    counts: np.ndarray


def tuned(p: Problem) -> Reactive:
    """The cheapest autoscaler that is short of no more than `SHORT`; else the one that is short of least."""
    tried = [follow(p, head) for head in HEADS]
    good = [x for x in tried if x.short <= SHORT]
    return min(good, key=lambda x: x.usd) if good else min(tried, key=lambda x: (x.short, x.usd))


def follow(p: Problem, head: float) -> Reactive:
    """One autoscaler over all slots; its first fleet is that of the first slot."""
    order = sorted(
        range(len(p.kinds)), key=lambda k: (p.kinds[k].price_usd_per_hour / float(p.kinds[k].capacity), k)
    )
    slots = p.slots
    n = np.zeros((len(p.kinds), slots), dtype=np.int64)
    missed = 0.0
    for t in range(slots):
        want = p.needs[0, max(t - 1, 0)] * (1 + head)
        before = n[:, t - 1] if t else np.zeros(len(p.kinds), dtype=np.int64)
        for k in order:
            kind = p.kinds[k]
            stay = _staying(n[k], t, kind.up_slots)
            n[k, t] = min(max(stay, math.ceil(max(want, 0.0) / float(kind.capacity) - 1e-9)), kind.most)
            want -= n[k, t] * float(kind.capacity)
        ready = sum(float(kind.capacity) * n[k, t] for k, kind in enumerate(p.kinds))
        fresh = sum(float(kind.capacity) * max(n[k, t] - before[k], 0) for k, kind in enumerate(p.kinds) if t)
        cold = max((kind.cold_hours for kind in p.kinds), default=0.0) / p.hours if t else 0.0
        late = min(cold, 1.0) * max(p.needs[0, t] - (ready - fresh), 0.0)
        missed += max(late, p.needs[0, t] - ready, 0.0)
    return Reactive(p.cost(n, [0] * len(p.kinds)), head, missed / max(p.needs.sum(), 1e-12), n)


def _staying(mine: np.ndarray, t: int, up: int) -> int:
    """Servers that were started too little time ago to be stopped."""
    starts = np.maximum(np.diff(mine[:t], prepend=0), 0)
    return int(starts[max(t - up + 1, 0) :].sum()) if up > 1 else 0

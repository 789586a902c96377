"""Small layers of experts, exactly: replicas on GPUs as integers, for the fewest copies of weights to other
GPUs, or for the best balance over several steps of the load.

Sets       e in E experts   r in 1..R replicas   g in G GPUs   k in K steps
Data       s[g] slots   v[g] speed   w[e] load, or w[k,e] in step k, a mean GPU's being its speed
           held[e,g]  1 where g holds e now      t  time no GPU may exceed
Choose     x[e,r,g] integer >= 0   replicas of e on g, where e has r in all
           y[e,r]   0 or 1         e has r replicas
one[e]     sum(r) y[e,r] == 1
all[e,r]   sum(g) x[e,r,g] == r * y[e,r]
slots[g]   sum(e,r) x[e,r,g] == s[g]

`moved`:   m[e,g]   0 or 1         e is copied to g; only where held[e,g] == 0
minimise   sum(e,g) m[e,g]
time[g]    sum(e,r) w[e]/r * x[e,r,g] <= v[g] * t
copy[e,g]  sum(r) x[e,r,g] <= s[g] * m[e,g]

`robust`:  B[k] real >= 0   balance of step k, and W their worst
minimise   mean(k) B[k], or W
time[k,g]  sum(e,r) w[k,e]/r * x[e,r,g] <= v[g] * B[k]
worst[k]   B[k] <= W
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.experts.types import Floats, Ints
from solvers.linear import Limits, Linear, Outcome, Term, Var, total

MOST_CELLS = 100
"""Experts x replicas x GPUs up to which a layer is solved so."""


def small(experts: int, slots: Ints) -> bool:
    """Whether a layer of so many experts is small enough."""
    return experts * len(slots) * (int(slots.sum()) - experts + 1) <= MOST_CELLS


def moved(
    load: Floats, slots: Ints, speed: Floats, held: np.ndarray, limit: float, limits: Limits
) -> tuple[Ints | None, int]:
    """Experts in the slots (slots,) that copy least within the time `limit`, None where none were found, and
    the bound of the copies."""
    r = _stated("moves", len(load), slots)
    copy = r.m.integers("m", [(int(e), int(g)) for e, g in np.argwhere(~held)], 1.0)

    r.m.minimise([1.0 * v for v in copy.values()])
    for g in range(len(slots)):
        r.m.add("time", g, total(r.load(load, g, 1 / float(speed[g] * limit))) <= 1.0)
    for e, g in copy:
        there = [1.0 * r.x[e, k, g] for k in r.replicas]
        r.m.add("copy", (e, g), total([*there, -float(slots[g]) * copy[e, g]]) <= 0.0)
    outcome = r.m.solve(limits)
    return r.filled(outcome), int(np.ceil((outcome.bound or 0.0) - 1e-6))


def robust(
    part: Floats, slots: Ints, speed: Floats, worst: bool, limits: Limits
) -> tuple[Ints | None, float]:
    """Experts in the slots (slots,) of the best balance over the steps `part` (steps, experts), None where
    none were found, and the bound of that balance."""
    r, steps = _stated("robust", part.shape[1], slots), range(len(part))
    balance = r.m.reals("B", steps)
    top = r.m.reals("W", [0])[0]

    r.m.minimise([1.0 * top] if worst else [1.0 / len(part) * balance[k] for k in steps])
    for k in steps:
        r.m.add("worst", k, total([1.0 * balance[k], -1.0 * top]) <= 0.0)
        for g in range(len(slots)):
            carried = r.load(part[k], g, 1 / float(speed[g]))
            r.m.add("time", (k, g), total([*carried, -1.0 * balance[k]]) <= 0.0)
    outcome = r.m.solve(limits)
    return r.filled(outcome), float(outcome.bound or 0.0)


@dataclass(frozen=True)
class _Stated:
    """The model `m` with its `x`, and the numbers of `replicas` that an expert may have."""

    m: Linear
    x: dict[tuple[int, int, int], Var]
    replicas: range

    def load(self, load: Floats, gpu: int, scale: float) -> list[Term]:
        """`scale` times what `gpu` carries of `load` (experts,)."""
        return [scale * float(w) / r * self.x[e, r, gpu] for e, w in enumerate(load) for r in self.replicas]

    def filled(self, outcome: Outcome) -> Ints | None:
        """Experts in the slots (slots,), GPU after GPU; None where the solve found none."""
        if not outcome.has_values:
            return None
        counts = sorted(outcome.counts(self.x).items(), key=lambda entry: entry[0][2])
        return np.array([e for (e, _, _), k in counts for _ in range(k)], dtype=np.int64)


def _stated(name: str, experts: int, slots: Ints) -> _Stated:
    """A model with the rows that both have, and no goal yet."""
    gpus, most = range(len(slots)), range(1, int(slots.sum()) - experts + 2)
    m = Linear(name)
    x = m.integers("x", [(e, r, g) for e in range(experts) for r in most for g in gpus])
    y = m.integers("y", [(e, r) for e in range(experts) for r in most], 1.0)
    for e in range(experts):
        m.add("one", e, total(y[e, r] for r in most).equals(1.0))
        for r in most:
            m.add("all", (e, r), total([*(1.0 * x[e, r, g] for g in gpus), -float(r) * y[e, r]]).equals(0.0))
    for g in gpus:
        m.add("slots", g, total(x[e, r, g] for e in range(experts) for r in most).equals(float(slots[g])))
    return _Stated(m, x, most)

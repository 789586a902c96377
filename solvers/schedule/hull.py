"""Cuts of a slot's fleet: no integer counts that carry its demand are lost, many fractional ones are.

Sets       k   kinds of server
Data       capacity[k], need   whole units
           P = { n integer >= 0 :  sum(k) capacity[k] n[k] >= need }
Find       a >= 0 with  a n >= 1  for all n in P, and  a x < 1  at a given fractional x: least a x over
           the points of P known so far, then the point of P with the least a n by dynamic programming,
           until that is 1 or x is no longer cut off.

    best[j] = min over k of  best[max(j - capacity[k], 0)] + a[k],   best[0] = 0;   least a n = best[need]

Source     separation by points: Applegate, Bixby, Chvatal, Cook 2001, "TSP cuts which do not conform to the
           template paradigm", local cuts; Boccia, Sforza, Sterle, Vasilyev 2008 for knapsacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, product

import numpy as np

from solvers.linear import Floats, Limits, Linear, total

MOST_UNITS = 20_000
"""Of a slot's need: the recursion takes a step for each."""

VIOLATED = 1e-5
"""By how much of 1 a cut must be missed to be worth a row."""

SURE = 1e-9
"""Added to what a cut's least point has: rounding."""

ROUNDS = 60

MOST_NEAR = 16
"""Points beside a fractional one, for each kind."""


@dataclass
class Hull:
    """The fleets that carry one slot; `points` of P (p, k) that are known: they grow with use."""

    capacity: tuple[int, ...]
    need: int
    points: list[list[int]] = field(default_factory=list)
    seen: set[tuple[int, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.points:
            for k, c in enumerate(self.capacity):
                self.points.append(
                    [math.ceil(self.need / c) if i == k else 0 for i in range(len(self.capacity))]
                )

    def cut(self, x: Floats) -> Floats | None:
        """Coefficients (k,) of a cut that `x` (k,) breaks; None where there is none."""
        self._near(x)
        for _ in range(ROUNDS):
            a = self._least(x)
            if a is None or float(a @ x) > 1 - VIOLATED:
                return None
            value, point = cheapest(self.capacity, self.need, a)
            if value >= 1 - SURE:
                return np.asarray(a / (1.0 - 2 * SURE))
            self.points.append(point)
        return None

    def _near(self, x: Floats) -> None:
        """Points of P beside `x`: all kinds but one rounded down or up, of that one as few as carry the
        rest."""
        kinds = range(len(x))
        for last in kinds:
            others = [{math.floor(x[k] + 1e-9), math.ceil(x[k] - 1e-9)} if k != last else {0} for k in kinds]
            for point in map(list, islice(product(*others), MOST_NEAR)):
                rest = self.need - sum(c * n for c, n in zip(self.capacity, point, strict=True))
                point[last] = max(math.ceil(rest / self.capacity[last]), 0)
                if tuple(point) not in self.seen:
                    self.seen.add(tuple(point))
                    self.points.append(point)

    def _least(self, x: Floats) -> Floats | None:
        """The a with the least a x that is at least 1 at all known points."""
        m = Linear("cut")
        a = m.reals("a", range(len(x)), 10.0)
        m.minimise([a[k] * (float(x[k]) + 1e-7) for k in a])
        for i, point in enumerate(self.points):
            m.add("point", i, total([a[k] * n for k, n in enumerate(point) if n]) >= 1.0)
        found = m.relax(Limits(seconds=5.0))
        if found.values is None:
            return None
        return np.asarray(np.maximum([found.values[a[k].column] for k in a], 0.0))


def cheapest(capacity: Sequence[int], need: int, cost: Floats) -> tuple[float, list[int]]:
    """The least cost of whole counts (k,) whose capacity is at least `need`, and such counts.

    >>> cheapest((5, 2), 9, np.array([5.0, 2.1]))
    (9.2, [1, 2])
    """
    best, chosen = np.zeros(need + 1), np.zeros(need + 1, dtype=np.int64)
    block = max(min(capacity), 1)
    start = 1
    while start <= need:  # within a block nothing depends on the block itself
        at = np.arange(start, min(start + block, need + 1))
        options = np.stack([best[np.maximum(at - c, 0)] + p for c, p in zip(capacity, cost, strict=True)])
        chosen[at] = options.argmin(axis=0)
        best[at] = options[chosen[at], np.arange(len(at))]
        start += block
    counts, j = [0] * len(capacity), need
    while j > 0:
        counts[int(chosen[j])] += 1
        j = max(j - capacity[int(chosen[j])], 0)
    return float(best[need]), counts


def in_units(capacity: Floats, demand: Floats, most: float) -> tuple[list[int], list[int]]:
    """Capacities (k,) and demands (t,), `most` at most, as whole units: exact where few decimals say them,
    else capacities rounded up and demands down, which loses no fleet.

    >>> in_units(np.array([1.0, 0.45]), np.array([10.0, 3.21]), 10.0)
    ([20, 9], [200, 65])
    """
    top = max(most, 1e-12)
    for scale in (1, 10, 100, 1000):
        whole = capacity * scale
        if np.abs(whole - whole.round()).max() < 1e-9 * scale and top * scale <= 5 * MOST_UNITS:
            units = [int(c) for c in whole.round()]
            by = math.gcd(*units)
            return [u // by for u in units], [max(math.ceil(d * scale / by - 1e-9), 0) for d in demand]
    by_unit = MOST_UNITS / top
    return [max(math.ceil(c * by_unit), 1) for c in capacity], [math.floor(d * by_unit) for d in demand]

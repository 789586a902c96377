"""The rows of a schedule, of all slots or of a window of them between counts that stay: the mathematics
stands in `solvers/schedule`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product

import numpy as np

from solvers.linear import Floats, Limits, Linear, Outcome, Term, Var, total
from solvers.schedule.hull import Hull, in_units
from solvers.schedule.types import Problem

WHOLE = 1e-6
"""How far from whole a count is whole."""

Cut = tuple[int, Floats]
"""Need and coefficients (k,) of a row `hull`."""


class Stated:
    """The program of some slots (all, or a window of counts `n`); `r` given: reserved machines are no
    choice."""

    def __init__(
        self, p: Problem, slots: range, n: np.ndarray | None = None, r: Sequence[int] | None = None
    ) -> None:
        self.p, self.slots = p, slots
        m = self.m = Linear("schedule")
        keys = list(product(range(len(p.kinds)), slots))
        most = {(k, t): float(p.kinds[k].most) for k, t in keys}
        self.n, self.s = m.integers("n", keys, most), m.reals("s", keys, most)
        offered = [g for g, own in enumerate(p.machines) if p.kinds[own[0]].reserved is not None]
        tops = {g: float(p.kinds[own[0]].most) for g, own in enumerate(p.machines)}
        self.r = m.integers("r", offered if r is None else [], tops)
        self.o = m.reals(
            "o", list(product(offered, slots)), {(g, t): tops[g] for g in offered for t in slots}
        )
        self.cuts: list[list[Cut]] = [[] for _ in range(p.slots)]
        self._goal()
        for t in slots:
            self._carry(t)
        for g, t in product(range(len(p.machines)), slots):
            self._machines(g, t, r)
        for k, t in keys:
            self._times(k, t, n)

    def _goal(self) -> None:
        p, terms = self.p, list[Term]()
        for k, kind in enumerate(p.kinds):
            price = kind.price_usd_per_hour
            if kind.reserved is None:
                terms += [self.n[k, t] * (price * p.hours) for t in self.slots]
            terms += [self.s[k, t] * (price * kind.cold_hours) for t in self.slots if t > 0]
        for (g, _), beyond in self.o.items():
            terms.append(beyond * (p.kinds[p.machines[g][0]].price_usd_per_hour * p.hours))
        for g, kept in self.r.items():
            kind = p.kinds[p.machines[g][0]]
            terms.append(kept * (kind.price_usd_per_hour * p.hours * p.slots * (kind.reserved or 0.0)))
        self.m.minimise(terms)

    def _carry(self, t: int) -> None:
        """Rows `carry` and `safe`."""
        p = self.p
        risky = p.safe > 0 and any(kind.risky for kind in p.kinds)
        for d in range(len(p.needs)):
            each = [self.n[k, t] * float(c) for k, c in enumerate(p.capacity[:, d, t]) if c > 0]
            self.m.add("carry", (d, t), total(each) >= float(p.needs[d, t]))
            if risky:
                sure = p.capacity[:, d, t] * p.sure
                each = [self.n[k, t] * float(c) for k, c in enumerate(sure) if c > 0]
                self.m.add("safe", (d, t), total(each) >= float(p.safe * p.needs[d, t]))

    def _machines(self, g: int, t: int, r: Sequence[int] | None) -> None:
        """Rows `stock` and `beyond`."""
        own = self.p.machines[g]
        if len(own) > 1:
            each = total([self.n[k, t] for k in own])
            self.m.add("stock", (g, t), each <= float(self.p.kinds[own[0]].most))
        if (g, t) in self.o:
            beyond = [self.o[g, t] * 1.0, *(self.n[k, t] * -1.0 for k in own)]
            kept = [self.r[g] * 1.0] if r is None else []
            self.m.add("beyond", (g, t), total([*beyond, *kept]) >= (0.0 if r is None else -float(r[g])))

    def _times(self, k: int, t: int, n: np.ndarray | None) -> None:
        """Rows `start` and `stay`; before the window counts are those of `n`."""
        m, up, first = self.m, self.p.kinds[k].up_slots, self.slots[0]
        before: list[Var] = [self.n[k, t - 1]] if t > first else []
        stood = float(n[k, t - 1]) if n is not None and t == first and t > 0 else 0.0
        started = [self.s[k, t] * 1.0, self.n[k, t] * -1.0, *(v * 1.0 for v in before)]
        m.add("start", (k, t), total(started) >= -stood)
        if up > 1:
            own = [self.s[k, u] * -1.0 for u in range(max(first, t - up + 1), t + 1)]
            past = 0.0 if n is None else sum(_started(n, k, u) for u in range(max(0, t - up + 1), first))
            m.add("stay", (k, t), total([self.n[k, t] * 1.0, *own]) >= past)

    def after(self, n: np.ndarray) -> None:
        """What follows the window: its next start costs, and what started inside must stay."""
        end = self.slots[-1] + 1
        if end >= n.shape[1]:
            return
        m, p = self.m, self.p
        next_ = m.reals("next", range(len(p.kinds)))
        for k, kind in enumerate(p.kinds):
            m.add("next", k, total([next_[k] * 1.0, self.n[k, end - 1] * 1.0]) >= float(n[k, end]))
            m.goal.append(next_[k] * (kind.price_usd_per_hour * kind.cold_hours))
            for t in range(end, min(end + kind.up_slots, n.shape[1])):
                inside = [self.s[k, u] * 1.0 for u in self.slots if u > t - kind.up_slots]
                later = sum(_started(n, k, u) for u in range(end + 1, t + 1))
                m.add("stay after", (k, t), total([*inside, next_[k] * 1.0]) <= float(n[k, t]) - later)

    def cut(self, until: float) -> Outcome:
        """The relaxation with all cuts that are found until then (`time.perf_counter`); they stay."""
        p, kinds = self.p, range(len(self.p.kinds))
        hulls = {(d, t): _hull(p, d, t) for d in range(len(p.needs)) for t in self.slots}
        found, more = self.m.relax(Limits()), True
        while found.values is not None and more and time.perf_counter() < until:
            more = False
            for (d, t), known in hulls.items():
                x = np.array([found.values[self.n[k, t].column] for k in kinds])
                if known is None or np.abs(x - x.round()).max() < WHOLE or time.perf_counter() > until:
                    continue
                able, hull = known
                a = hull.cut(x[able])
                if a is not None:
                    whole = np.zeros(len(x))
                    whole[able] = a
                    self._add(t, (d, whole))
                    more = True
            found = self.m.relax(Limits()) if more else found
        return found

    def take(self, cuts: Sequence[Sequence[Cut]]) -> None:
        """Cuts that another program of the same problem has found."""
        for t in self.slots:
            for cut in cuts[t]:
                self._add(t, cut)

    def _add(self, t: int, cut: Cut) -> None:
        row = [self.n[k, t] * float(x) for k, x in enumerate(cut[1]) if x > 0]
        self.m.add("hull", (t, len(self.cuts[t])), total(row) >= 1.0)
        self.cuts[t].append(cut)

    def counts(self, values: Floats) -> np.ndarray:
        """Counts (k, slots)."""
        own = [[values[self.n[k, t].column] for t in self.slots] for k in range(len(self.p.kinds))]
        return np.array(own).round().astype(np.int64)


def _started(n: np.ndarray, k: int, t: int) -> float:
    """Servers of counts (k, t) that start in a slot."""
    return float(max(n[k, t] - (n[k, t - 1] if t else 0), 0))


def _hull(p: Problem, d: int, t: int) -> tuple[np.ndarray, Hull] | None:
    """The kinds that carry a need of a slot, and their fleets; None where it needs nothing."""
    able = np.flatnonzero(p.capacity[:, d, t] > 0)
    if p.needs[d, t] <= 0 or not len(able):
        return None
    capacity, need = in_units(p.capacity[able, d, t], p.needs[d, t : t + 1], float(p.needs.max()))
    return (able, Hull(tuple(capacity), need[0])) if need[0] > 0 else None

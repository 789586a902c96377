"""A fleet over time: how many servers of each kind run in each slot, for the least money.

Sets       k in K   kinds of server            t in 0..T-1   slots of `hours`
Data       demand[t]     what a slot needs     capacity[k]   of a server
           price[k]      dollars an hour       most[k]       servers there are
           cold[k]       hours until a server that is started serves: paid for
           up[k]         slots that a server stays at least
           reserved[k]   share of the price, all hours, at which servers are reserved (None: not offered)
           risky[k]      may be taken away (spot); `safe`: share of the demand that others must carry
Choose     n[k,t] integer >= 0   servers        s[k,t] >= 0   starts
           r[k]   integer >= 0   reserved       o[k,t] >= 0   servers beyond those reserved

minimise   sum(k) price[k] ( hours sum(t) o[k,t] + reserved[k] hours T r[k] + cold[k] sum(t >= 1) s[k,t] )

carry[t]     sum(k) capacity[k] n[k,t]  >= demand[t]
safe[t]      sum(k not risky) capacity[k] n[k,t]  >= safe demand[t]
start[k,t]   s[k,t]  >= n[k,t] - n[k,t-1]                         s[k,0] >= n[k,0]
stay[k,t]    n[k,t]  >= sum(u = t - up[k] + 1 .. t) s[k,u]        (where up[k] > 1)
beyond[k,t]  o[k,t]  >= n[k,t] - r[k]                             (n[k,t] itself where none are reserved)
hull[t,i]    a[i] n[.,t]  >= 1                                    cuts of `schedule_hull.py`

The first fleet is given: nobody waits for it. Rows `stay` with `start` are the hull of one kind's minimum up
times (Rajan, Takriti 2005, "Minimum up/down polytopes of the unit commitment problem with start-up costs");
what is left between relaxation and optimum is whole servers against a slot's demand, which `hull` closes.

Two searches run side by side: branch and bound (HiGHS) on all of it with those cuts, for the bound; and from
a plan with the relaxation's reserved servers, rounded, a window of slots after another is planned anew, all
else as it is. Against HiGHS or CP-SAT alone: docs/decisions/0036-schedule.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from solvers import highs
from solvers.linear import EXACT, Floats, Limits, Linear, Outcome, Status, Var, gap, judge, total
from solvers.schedule_hull import Hull, in_units

CUTTING, STARTING = 0.25, 0.15
"""Shares of the time after which there are no more cuts, and for the plan that windows begin from."""

WINDOW = 60
"""Counts that are planned anew at once: slots times kinds."""

WINDOW_S = 1.0
"""At most, for one window."""

WHOLE = 1e-6
"""How far from whole a count is whole."""

STALE = 25
"""Windows in a row that bring nothing, after which they are wider; then the search ends."""


@dataclass(frozen=True)
class Kind:
    """Servers alike; see the docstring of this file."""

    name: str
    capacity: float
    price_usd_per_hour: float
    most: int
    cold_hours: float = 0.0
    up_slots: int = 1
    reserved: float | None = None
    risky: bool = False


@dataclass(frozen=True)
class Problem:
    """Demand of each slot (t,), and the kinds of server that may carry it. Raises ValueError where figures
    are none."""

    kinds: tuple[Kind, ...]
    demand: tuple[float, ...]
    hours: float
    safe: float = 0.0

    def __post_init__(self) -> None:
        figures = [*self.demand, self.hours, *(k.capacity for k in self.kinds)]
        if not self.demand or not self.kinds or not np.isfinite(figures).all() or min(self.demand) < 0:
            raise ValueError("a schedule needs kinds, and a demand that is a number in each slot")
        if self.hours <= 0 or min(k.capacity for k in self.kinds) <= 0:
            raise ValueError("hours of a slot and capacities are above 0")

    @property
    def most(self) -> float:
        """Capacity of all servers."""
        return sum(k.capacity * k.most for k in self.kinds)

    def cost(self, n: np.ndarray, r: Sequence[int]) -> float:
        """Dollars of counts (k, t) with `r` (k,) reserved."""
        whole = 0.0
        for k, mine, own in zip(self.kinds, n, r, strict=True):
            beyond = np.maximum(mine - own, 0).sum()
            starts = np.maximum(np.diff(mine), 0).sum()
            kept = (k.reserved or 0.0) * own * n.shape[1]
            whole += k.price_usd_per_hour * (self.hours * (beyond + kept) + k.cold_hours * starts)
        return float(whole)

    def keeps(self, n: np.ndarray) -> bool:
        """Whether counts (k, t) keep every row."""
        capacity, demand = np.array([k.capacity for k in self.kinds]), np.array(self.demand)
        sure = np.array([0.0 if k.risky else k.capacity for k in self.kinds])
        near = 1e-9 * max(demand.max(), 1.0)
        if (capacity @ n < demand - near).any() or (sure @ n < self.safe * demand - near).any():
            return False
        for k, mine in zip(self.kinds, n, strict=True):
            starts = np.maximum(np.diff(mine, prepend=0), 0)
            started = np.convolve(starts, np.ones(k.up_slots))[: len(mine)]
            if (mine > k.most).any() or (mine < started).any():
                return False
        return True


@dataclass(frozen=True)
class Solution:
    """Counts (k, t), reserved ones (k,), dollars over all slots, the least that any schedule costs, and how
    the search ended. No counts where there is no schedule."""

    counts: np.ndarray | None
    reserved: tuple[int, ...]
    value: float | None
    bound: float | None
    status: Status
    solver: str

    @property
    def gap(self) -> float:
        """|value - bound| / value."""
        known = self.value is not None and self.bound is not None
        return gap(self.value, self.bound) if known else np.inf  # type: ignore[arg-type]


def solve(problem: Problem, limits: Limits) -> Solution:
    """The cheapest schedule found, with its bound."""
    began = time.perf_counter()
    by_clock = limits.work is None
    stop = began + limits.seconds if by_clock else np.inf
    stated = Stated(problem, range(len(problem.demand)))
    relaxed = stated.cut(began + CUTTING * limits.seconds if by_clock else np.inf)
    if relaxed.values is None:
        return Solution(None, (), None, None, relaxed.status, relaxed.solver)
    left = max(stop - time.perf_counter(), 0.05) if by_clock else limits.seconds
    whole = _Beside(stated.m, replace(limits, seconds=left) if by_clock else limits)
    n = _started(problem, stated, relaxed, replace(limits, seconds=STARTING * left) if by_clock else limits)
    if n is not None and (whole.found is None or not by_clock):  # by work nothing depends on who is first
        bound = relaxed.value
        n = _windows(problem, stated, n, bound, limits, whole, stop)
    found = whole.ended(stop + 1.0)
    if found.status == "infeasible":
        return Solution(None, (), None, None, "infeasible", found.solver)
    plans = [x for x in (n, stated.counts(found) if found.has_values else None) if x is not None]
    plans = [x for x in plans if problem.keeps(x)]
    bound = max((b for b in (found.bound, relaxed.value) if b is not None), default=None)
    if not plans:
        return Solution(None, (), None, bound, found.status, found.solver)
    n = min(plans, key=lambda x: problem.cost(x, reserve(problem, x)))
    r = reserve(problem, n)
    value = problem.cost(n, r)
    bound = value if bound is None else min(bound, value)
    status = judge(value, bound, limits, "interrupted" if found.status == "interrupted" else "time_limit")
    return Solution(n, tuple(r), value, bound, status, found.solver)


class _Beside:
    """Branch and bound on a program in a thread of its own (HiGHS lets Python run meanwhile)."""

    def __init__(self, m: Linear, limits: Limits) -> None:
        self.found: Outcome | None = None
        self.thread = threading.Thread(target=self._run, args=(m, limits), daemon=True)
        self.thread.start()

    def _run(self, m: Linear, limits: Limits) -> None:
        self.found = highs.solve(m, limits, None)

    def ended(self, at: float) -> Outcome:
        """What was found, at the latest then (`time.perf_counter`)."""
        left = max(at - time.perf_counter(), 0.0)
        self.thread.join(None if np.isinf(left) else left)
        return self.found or Outcome("time_limit", None, None, None, "HiGHS")


class Stated:
    """The program of some slots (all, or a window with counts at its ends); `r` given: reserved servers are
    no choice."""

    def __init__(
        self, p: Problem, slots: range, n: np.ndarray | None = None, r: Sequence[int] | None = None
    ) -> None:
        self.p, self.slots, self.m = p, slots, Linear("schedule")
        kinds, m = range(len(p.kinds)), self.m
        keys = list(product(kinds, slots))
        most = {(k, t): float(p.kinds[k].most) for k, t in keys}
        self.n, self.s = m.integers("n", keys, most), m.reals("s", keys)
        offered = [k for k in kinds if p.kinds[k].reserved is not None]
        self.r = m.integers("r", offered if r is None else [], {k: float(p.kinds[k].most) for k in kinds})
        self.o = m.reals("o", [(k, t) for k, t in keys if k in offered])
        self.cuts: list[list[Floats]] = [[] for _ in p.demand]
        self._goal(offered)
        for t in slots:
            m.add("carry", t, total([self.n[k, t] * p.kinds[k].capacity for k in kinds]) >= p.demand[t])
            if p.safe > 0 and any(k.risky for k in p.kinds):
                sure = [self.n[k, t] * p.kinds[k].capacity for k in kinds if not p.kinds[k].risky]
                m.add("safe", t, total(sure) >= p.safe * p.demand[t])
        for k, t in keys:
            self._times(k, t, n)
            if k in offered:
                own = [self.o[k, t] * 1.0, self.n[k, t] * -1.0]
                if r is None:
                    m.add("beyond", (k, t), total([*own, self.r[k] * 1.0]) >= 0.0)
                else:
                    m.add("beyond", (k, t), total(own) >= -float(r[k]))

    def _goal(self, offered: list[int]) -> None:
        p, terms = self.p, []
        for k, kind in enumerate(p.kinds):
            price = kind.price_usd_per_hour
            beyond = self.o if k in offered else self.n
            terms += [beyond[k, t] * (price * p.hours) for t in self.slots]
            terms += [self.s[k, t] * (price * kind.cold_hours) for t in self.slots if t > 0]
            if k in self.r:
                terms.append(self.r[k] * (price * p.hours * len(p.demand) * (kind.reserved or 0.0)))
        self.m.minimise(terms)

    def _times(self, k: int, t: int, n: np.ndarray | None) -> None:
        """Rows `start` and `stay`; beyond the window counts are those of `n`."""
        m, up, first = self.m, self.p.kinds[k].up_slots, self.slots[0]
        before: list[Var] = [self.n[k, t - 1]] if t > first else []
        stood = float(n[k, t - 1]) if n is not None and t == first and t > 0 else 0.0
        m.add(
            "start",
            (k, t),
            total([self.s[k, t] * 1.0, self.n[k, t] * -1.0, *(v * 1.0 for v in before)]) >= -stood,
        )
        if up > 1:
            own = [self.s[k, u] * -1.0 for u in range(max(first, t - up + 1), t + 1)]
            past = 0.0
            if n is not None:
                past = float(
                    sum(max(n[k, u] - (n[k, u - 1] if u else 0), 0) for u in range(max(0, t - up + 1), first))
                )
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
                later = float(sum(max(n[k, u] - n[k, u - 1], 0) for u in range(end + 1, t + 1)))
                m.add("stay after", (k, t), total([*inside, next_[k] * 1.0]) <= float(n[k, t]) - later)

    def cut(self, until: float) -> Outcome:
        """The relaxation with all cuts that are found until then; they stay in the program."""
        kinds = range(len(self.p.kinds))
        capacity, need = in_units(np.array([k.capacity for k in self.p.kinds]), np.array(self.p.demand))
        hulls = [Hull(tuple(capacity), d) if d > 0 else None for d in need]
        found, more = self.m.relax(Limits()), True
        while found.values is not None and more and time.perf_counter() < until:
            more = False
            for t, hull in enumerate(hulls):
                x = np.array([found.values[self.n[k, t].column] for k in kinds])
                if hull is None or np.abs(x - x.round()).max() < WHOLE or time.perf_counter() > until:
                    continue
                a = hull.cut(x)
                if a is not None:
                    self._add(t, a)
                    more = True
            found = self.m.relax(Limits()) if more else found
        return found

    def take(self, cuts: Sequence[Sequence[Floats]]) -> None:
        """Cuts that another program of the same problem has found."""
        for t in self.slots:
            for a in cuts[t]:
                self._add(t, a)

    def _add(self, t: int, a: Floats) -> None:
        row = [self.n[k, t] * float(x) for k, x in enumerate(a) if x > 0]
        self.m.add("hull", (t, len(self.cuts[t])), total(row) >= 1.0)
        self.cuts[t].append(a)

    def counts(self, found: Outcome) -> np.ndarray:
        """Counts (k, slots)."""
        assert found.values is not None
        own = [[found.values[self.n[k, t].column] for t in self.slots] for k in range(len(self.p.kinds))]
        return np.array(own).round().astype(np.int64)


def _started(p: Problem, stated: Stated, relaxed: Outcome, limits: Limits) -> np.ndarray | None:
    """A first plan, with as many servers reserved as the relaxation has, rounded; else the one that never
    changes."""
    values = relaxed.values
    assert values is not None
    r = [round(float(values[stated.r[k].column])) if k in stated.r else 0 for k in range(len(p.kinds))]
    part = Stated(p, range(len(p.demand)), None, r)
    part.take(stated.cuts)
    found = highs.solve(part.m, limits, None)
    n = part.counts(found) if found.has_values else None
    return n if n is not None and p.keeps(n) else _static(p)


def _static(p: Problem) -> np.ndarray | None:
    """The cheapest counts that carry every slot, the same in all; None where the servers do not do."""
    m = Linear("static")
    n = m.integers("n", range(len(p.kinds)), {k: float(kind.most) for k, kind in enumerate(p.kinds)})
    m.minimise([n[k] * kind.price_usd_per_hour for k, kind in enumerate(p.kinds)])
    m.add("carry", "", total([n[k] * kind.capacity for k, kind in enumerate(p.kinds)]) >= max(p.demand))
    sure = [n[k] * kind.capacity for k, kind in enumerate(p.kinds) if not kind.risky]
    m.add("safe", "", total(sure) >= p.safe * max(p.demand))
    found = m.solve(Limits(seconds=5.0))
    if not found.has_values:
        return None
    counts = found.counts(n)
    return np.array([[counts.get(k, 0)] * len(p.demand) for k in n], dtype=np.int64)


def static(p: Problem) -> Solution:
    """The cheapest fleet that never changes, all of it reserved where that is cheaper."""
    n = _static(p)
    if n is None:
        return Solution(None, (), None, None, "infeasible", "")
    r = [
        int(row[0]) if kind.reserved is not None and kind.reserved < 1 else 0
        for row, kind in zip(n, p.kinds, strict=True)
    ]
    return Solution(n, tuple(r), p.cost(n, r), None, "time_limit", "")


def reserve(p: Problem, n: np.ndarray) -> list[int]:
    """The cheapest reserved servers (k,) of counts (k, t): as many as run more than `reserved` of all
    slots."""
    found = []
    for kind, mine in zip(p.kinds, n, strict=True):
        if kind.reserved is None:
            found.append(0)
            continue
        busy = (mine[:, None] > np.arange(mine.max())).mean(axis=0) if mine.max() else np.zeros(0)
        found.append(int((busy > kind.reserved).sum()))
    return found


def _windows(
    p: Problem,
    stated: Stated,
    n: np.ndarray,
    bound: float | None,
    limits: Limits,
    whole: _Beside,
    stop: float,
) -> np.ndarray:
    """Counts made cheaper, a window at a time, until nothing gets better, the whole is solved, or then."""
    rng = np.random.default_rng(limits.seed)
    slots, stale = len(p.demand), 0
    width = max(min(WINDOW // len(p.kinds), slots), 2)
    r = reserve(p, n)
    best = p.cost(n, r)
    while time.perf_counter() < stop - 0.05 and stale < 2 * STALE:
        ended = whole.found if np.isfinite(stop) else None
        if ended is not None and ended.status in ("optimal", "within_gap", "interrupted"):
            break
        if bound is not None and gap(best, bound) <= max(limits.gap, EXACT):
            break
        wide = min(width if stale < STALE else 2 * width, slots)
        first = int(rng.integers(1 - wide // 2, max(slots - wide // 2, 2)))
        window = range(max(first, 0), min(first + wide, slots))
        part = Stated(p, window, n, r)
        part.after(n)
        part.take(stated.cuts)
        seconds = min(WINDOW_S, max(stop - time.perf_counter(), 0.05))
        own = Limits(EXACT, seconds, None if limits.work is None else limits.work, seed=limits.seed)
        found = highs.solve(part.m, own, None)
        stale += 1
        if not found.has_values:
            if found.status == "interrupted":
                break
            continue
        trial = n.copy()
        trial[:, window.start : window.stop] = part.counts(found)
        kept = reserve(p, trial)
        value = p.cost(trial, kept)
        if value < best - 1e-9 and p.keeps(trial):
            n, r, best, stale = trial, kept, value, 0
    return n

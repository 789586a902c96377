"""What people do without a foreknown day: a table of an earlier day with a margin, an autoscaler that follows
the load, or both; each replayed on the load, step by step, with what it costs and what it misses.

The load between the middles of slots is taken as a straight line, which is kind to an autoscaler. In every
step

    table       servers for the earlier day's rate and `margin` more, started so that they serve in time
    autoscaler  servers for the rate of the step before and `head` more; what it starts is paid for at once
                and serves a cold start later; it stops servers that it had no use for in `DOWN_S`, as
                Kubernetes' autoscaler does by default, and no sooner than a minimum time allows

and of both, where there are both, whatever is more. Servers are of the cheapest kinds, by dollars for
a request, a prefill and a decode server counting as one way to serve it. Requests beyond what is ready are
short: a share of all, without queues.

Source of the window: kubernetes.io, Horizontal Pod Autoscaling, `scaleDown.stabilizationWindowSeconds: 300`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from solvers.schedule import Problem

Floats = np.ndarray
NEAR = 1e-9
DOWN_S = 300.0
STEP_S = 60.0
MOST_STEPS = 4000
HEADS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Head-rooms and margins that are tried."""


@dataclass(frozen=True, eq=False)
class Load:
    """Requests/s of steps of `step_s`, (x,), and the slot of each."""

    rate: Floats
    slot: Floats
    step_s: float

    @staticmethod
    def of(rate_rps: Floats, slot_s: float) -> Load:
        """Of slots' rates, with straight lines between their middles."""
        rates = np.asarray(rate_rps, dtype=float)
        span = len(rates) * slot_s
        step = slot_s / math.ceil(slot_s / max(STEP_S, span / MOST_STEPS))
        at = (np.arange(round(span / step)) + 0.5) * step
        rate = np.interp(at, (np.arange(len(rates)) + 0.5) * slot_s, rates)
        return Load(rate, np.minimum((at / slot_s).astype(int), len(rates) - 1), step)

    def part(self, steps: slice) -> Load:
        """Some of it."""
        return Load(self.rate[steps], self.slot[steps], self.step_s)


@dataclass(frozen=True)
class Policy:
    """Margin on the table, None: no table; head-room of the autoscaler, None: none."""

    margin: float | None
    head: float | None


@dataclass(frozen=True)
class Judged:
    """A policy with its dollars and the share of all requests that is short."""

    policy: Policy
    usd: float
    short: float


@dataclass(frozen=True, eq=False)
class Fleet:
    """Servers of a schedule's problem, as ways to serve whole requests; each stays `min_up_s` at least."""

    problem: Problem
    min_up_s: float = 0.0

    @cached_property
    def ways(self) -> list[tuple[int, ...]]:
        """Kinds that serve whole requests, and pairs, by what a request/s costs on the mean of all slots."""
        capacity = self.problem.capacity.mean(axis=2)  # (k, d)
        price = [k.price_usd_per_hour for k in self.problem.kinds]
        found: dict[tuple[int, ...], float] = {}
        for k in range(len(price)):
            if (capacity[k] > 0).all():
                found[k,] = price[k] / float(capacity[k].min())
        if len(self.problem.needs) == 2:
            for p in np.flatnonzero(capacity[:, 1] == 0):
                for d in np.flatnonzero(capacity[:, 0] == 0):
                    found[int(p), int(d)] = price[p] / capacity[p, 0] + price[d] / capacity[d, 1]
        return sorted(found, key=lambda way: found[way])

    def servers(self, want: Floats, slot: Floats) -> Floats:
        """Counts (k, x) for `want` requests/s (x,) in slots (x,): of the cheapest ways as many as are full,
        and the rest by the way that serves it for least, whichever of these is cheapest in all; where nodes
        do not do, as many of the cheapest as there are."""
        filling = _Filling.of(self.problem, want, slot)
        best, least = np.zeros_like(filling.n), np.full(len(want), np.inf)
        for full in [None, *self.ways]:
            if full is not None:
                filling.take(full, np.floor)
            for way in self.ways:
                ended = filling.copy()
                ended.take(way, np.ceil)
                usd = np.where(ended.rest <= NEAR * want, ended.usd, np.inf)
                better = usd < least
                best[:, better], least = ended.n[:, better], np.minimum(usd, least)
        short = ~np.isfinite(least)
        if short.any():
            all_ = _Filling.of(self.problem, want[short], slot[short])
            for way in self.ways:
                all_.take(way, np.ceil)
            best[:, short] = all_.n
        return best

    def carried(self, n: Floats, slot: Floats) -> Floats:
        """Requests/s that counts (k, x) serve, (x,)."""
        return np.asarray(np.einsum("kdx,kx->dx", self.problem.capacity[:, :, slot], n).min(axis=0))

    def judged(self, load: Load, policy: Policy, before: Load | None = None) -> Judged:
        """A policy on a load; `before`: that of the same steps which the table was made of, with its mixes
        of lengths (without: the load itself)."""
        p, hours = self.problem, load.step_s / 3600
        zero = np.zeros((len(p.kinds), len(load.rate)))
        planned = zero if policy.margin is None else self._table(before or load, policy.margin)
        counts = planned if policy.head is None else np.maximum(planned, self._follow(load, policy.head))
        usd, ready = 0.0, planned.copy()
        for k, kind in enumerate(p.kinds):
            cold = math.ceil(kind.cold_hours / hours - 1e-9)
            ready[k] = np.maximum(planned[k], _least(counts[k], cold))
            usd += kind.price_usd_per_hour * hours * counts[k].sum()
            usd += kind.price_usd_per_hour * kind.cold_hours * np.maximum(np.diff(planned[k]), 0).sum()
        missed = np.maximum(load.rate - self.carried(ready, load.slot), 0.0).sum()
        return Judged(policy, float(usd), float(missed / max(load.rate.sum(), 1e-12)))

    def _table(self, of: Load, margin: float) -> Floats:
        """Counts (k, x) by slot: those of its busiest step."""
        first = int(of.slot[0])
        most = np.zeros(int(of.slot[-1]) - first + 1)
        np.maximum.at(most, of.slot - first, of.rate)
        slots = np.arange(len(most)) + first
        return self.servers(most * (1 + margin), slots)[:, of.slot - first]

    def _follow(self, load: Load, head: float) -> Floats:
        """Counts (k, x) of the autoscaler: for the step before, kept as long as it may not stop them."""
        seen = np.concatenate([load.rate[:1], load.rate[:-1]])
        stays = round(max(DOWN_S, self.min_up_s) / load.step_s)
        return np.array([_most(mine, stays) for mine in self.servers(seen * (1 + head), load.slot)])


@dataclass(eq=False)
class _Filling:
    """Servers (k, x) so far: `rest` requests/s to be served, of which risky ones may take `risk`; machines
    `free` (g, x)."""

    problem: Problem
    slot: Floats
    n: Floats
    rest: Floats
    risk: Floats
    free: Floats

    @staticmethod
    def of(p: Problem, want: Floats, slot: Floats) -> _Filling:
        """None yet."""
        free = np.array([[float(p.kinds[own[0]].most)] * len(want) for own in p.machines])
        return _Filling(p, slot, np.zeros((len(p.kinds), len(want))), want * 1.0, (1 - p.safe) * want, free)

    def copy(self) -> _Filling:
        """To go on from."""
        return replace(self, n=self.n.copy(), free=self.free.copy())

    @property
    def usd(self) -> Floats:
        """Dollars an hour, (x,)."""
        return np.asarray(np.array([k.price_usd_per_hour for k in self.problem.kinds]) @ self.n)

    def take(self, way: tuple[int, ...], whole: Callable[[Floats], Floats]) -> None:
        """Servers of a way for what is left, as many as are free: full ones (floor) or enough (ceil)."""
        p = self.problem
        machines = [next(g for g, own in enumerate(p.machines) if k in own) for k in way]
        risky = p.kinds[way[0]].risky
        asked = np.minimum(self.rest, self.risk) if risky else self.rest
        each = [p.capacity[k, d, self.slot] for d, k in enumerate(way)]
        near = NEAR if whole is np.floor else -NEAR
        need = [whole(np.divide(asked, c, out=np.zeros_like(asked), where=c > 0) + near) for c in each]
        need = [np.maximum(x, 0.0) for x in need]
        part = np.ones_like(asked)
        for g in {*machines}:
            all_ = np.sum([x for x, own in zip(need, machines, strict=True) if own == g], axis=0)
            part = np.minimum(part, np.divide(self.free[g], all_, out=np.ones_like(asked), where=all_ > 0))
        got = [np.where(part < 1, np.floor(x * part), x) for x in need]
        served = np.minimum(np.minimum.reduce([x * c for x, c in zip(got, each, strict=True)]), asked)
        for k, g, x in zip(way, machines, got, strict=True):
            self.n[k] += x
            self.free[g] -= x
        self.rest = self.rest - served
        self.risk = self.risk - served if risky else self.risk


def _most(x: Floats, steps: int) -> Floats:
    """The most of each step and so many before it."""
    padded = np.concatenate([np.full(steps, x[0]), x])
    return np.asarray(sliding_window_view(padded, steps + 1).max(axis=1))


def _least(x: Floats, steps: int) -> Floats:
    """The least of each step and so many before it."""
    return -_most(-x, steps)


def cheapest(tried: list[Judged], short: float) -> Judged:
    """The cheapest that is short of no more than a share; else what is short of least."""
    good = [x for x in tried if x.short <= short]
    return min(good, key=lambda x: x.usd) if good else min(tried, key=lambda x: (x.short, x.usd))


def autoscaler(fleet: Fleet, load: Load, short: float) -> Judged:
    """The tuned one: the head-room at which it is cheapest without being short of more."""
    return cheapest([fleet.judged(load, Policy(None, head)) for head in HEADS], short)


DAY_S = 86_400.0
FIXED = 0.2
"""A margin that people take without looking."""

TOGETHER = (-0.4, -0.2, 0.0, 0.1, 0.2, 0.4)
"""Margins of a table that an autoscaler stands beside."""


@dataclass(frozen=True)
class Forecast:
    """`days` that were tried; dollars where each day is known; the table of the day before as it is, with
    `FIXED` more, and with the least margin that keeps `short`; with an autoscaler beside it; the autoscaler
    alone."""

    days: float
    short: float
    known_usd: float
    bare: Judged
    fixed: Judged
    table: Judged
    both: Judged
    alone: Judged


def forecast(fleet: Fleet, rate_rps: list[float], slot_s: float, short: float) -> Forecast | None:
    """Of rates each `slot_s`; None where there are not two days."""
    load = Load.of(np.array(rate_rps), slot_s)
    day = round(DAY_S / load.step_s)
    if len(load.rate) < 2 * day or abs(day * load.step_s - DAY_S) > 1:
        return None
    today, before = load.part(slice(day, None)), load.part(slice(0, len(load.rate) - day))

    def of(margin: float, head: float | None) -> Judged:
        return fleet.judged(today, Policy(margin, head), before)

    tables = [of(margin, None) for margin in HEADS]
    both = [of(margin, head) for margin in TOGETHER for head in HEADS]
    return Forecast(
        days=len(today.rate) * load.step_s / DAY_S,
        short=short,
        known_usd=fleet.judged(today, Policy(0.0, None)).usd,
        bare=tables[0],
        fixed=of(FIXED, None),
        table=cheapest(tables, short),
        both=cheapest(both, short),
        alone=autoscaler(fleet, today, short),
    )

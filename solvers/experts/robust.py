"""Robust: one placement of a layer for several steps of its load, the best on average or in the worst step.

Sets       k in K steps   e in E experts   g in G GPUs
Data       w[k,e] load in step k [token]   s[g] slots   v[g] speed [token a unit of time]
Choose     x[e,g] integer >= 0   replicas of e on g, r[e] = sum(g) x[e,g] >= 1
slots[g]   sum(e) x[e,g] == s[g]
balance    B[k] = max(g) sum(e) x[e,g] * w[k,e]/r[e] / v[g]  divided by  sum(e) w[k,e] / sum(g) v[g]
minimise   `mean`: mean(k) B[k]     `worst`: max(k) B[k]

Search     from the best placements for the mean step and for every expert's largest part of a step: exchanges
           of two replicas, and changes of one replica's expert, on GPUs that are some step's hottest; then
           some at random, and again. Small layers: `experts_small`.
Bound      no placement beats a step's own bound in that step, nor on average the bound of the mean of the
           steps (each as a part of its total), as the hottest of a sum is at most the sum of the hottest.
           `worst`: at B the replicas that any step needs, max(k) ceil(w[k,e] / room[k]), must fit together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from solvers.experts.balance import balance
from solvers.experts.bound import balance_bound
from solvers.experts.small import robust, small
from solvers.experts.types import Floats, Ints, Place, counts
from solvers.linear import Limits, Status, judge

Over = Literal["mean", "worst"]
PATIENCE, EXACT_S = 6, 3.0
FEW = 2
"""Steps whose hottest GPUs are looked at first."""
CANDIDATES = 12
"""Replicas, and experts, that a change of a replica's expert is tried with."""
TINY = 1e-9


@dataclass(frozen=True)
class RobustProblem:
    """`load_tok` (steps, layers, experts); `slots`, `speed` (gpus,)."""

    load_tok: Floats
    slots: Ints
    speed: Floats
    over: Over = "mean"


@dataclass(frozen=True)
class RobustSolution:
    """`place` a layer; `balance` and its bound (layers,): mean or worst over steps, as asked; `steps`
    (steps, layers): balance of each."""

    status: Status
    objective: float
    bound: float
    place: list[Place]
    balance: Floats
    balance_bound: Floats
    steps: Floats


def solve(p: RobustProblem, limits: Limits | None = None) -> RobustSolution:
    """Place all layers; `objective` and `bound` are means over layers."""
    limits = limits or Limits(seconds=30.0)
    part = p.load_tok / p.load_tok.sum(2, keepdims=True) * p.speed.sum()  # a mean GPU has 1 times its speed
    loads = np.concatenate([part.mean(0), part.max(0)])
    least = balance_bound(loads, p.slots, p.speed)
    begun = balance(loads, p.slots, p.speed, least, limits.seed)
    layers = part.shape[1]
    stop = time.perf_counter() + limits.seconds
    place, steps, bound = [], [], []
    for at in range(layers):
        seconds = max(0.0, (stop - time.perf_counter()) / (layers - at))
        search = Search(part[:, at], p.slots, p.speed, p.over, limits.seed + at)
        bound.append(_bound(part[:, at], float(least[at]), p))
        for table in (begun[at], begun[layers + at]):
            search.offer(table[table >= 0])
        search.run(time.perf_counter() + seconds, bound[-1] * (1 + limits.gap / 4))
        if small(part.shape[2], p.slots) and search.value > bound[-1] * (1 + TINY):
            left, worst = replace(limits, seconds=min(seconds, EXACT_S)), p.over == "worst"
            exact, proven = robust(part[:, at], p.slots, p.speed, worst, left)
            bound[-1] = max(bound[-1], proven)
            if exact is not None:
                search.offer(exact)
        place.append(search.place())
        steps.append(search.times(search.best).max(1))
    each = np.array(steps).T
    value = np.asarray(each.mean(0) if p.over == "mean" else each.max(0))
    below = np.minimum(bound, value)
    status = judge(float(value.mean()), float(below.mean()), limits, "time_limit")
    return RobustSolution(status, float(value.mean()), float(below.mean()), place, value, below, each)


def _bound(part: Floats, mean: float, p: RobustProblem) -> float:
    """The bound of one layer: `part` (steps, experts), `mean` the bound of their mean."""
    own = balance_bound(part, p.slots, p.speed)
    if p.over == "mean":
        return max(mean, float(own.mean()))
    return max(mean, float(own.max()), _together(part, p.slots, p.speed))


def _together(part: Floats, slots: Ints, speed: Floats) -> float:
    """The least balance of the worst step at which the replicas that each step needs fit together."""

    def fits(at: float) -> bool:
        need = np.maximum(np.ceil(part / (speed.max() * at) - TINY), 1).max(0)
        return bool(need.sum() <= slots.sum())

    low, high = 0.0, float(part.max() / speed.max()) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low


class Search:
    """One layer: `part` (steps, experts). `best` holds the experts in the slots (slots,)."""

    def __init__(self, part: Floats, slots: Ints, speed: Floats, over: Over, seed: int) -> None:
        self.part, self.slots, self.speed, self.over = part, slots, speed, over
        self.gpu = np.repeat(np.arange(len(slots)), slots)
        self.rng = np.random.default_rng(seed)
        self.best = np.zeros(0, dtype=np.int64)
        self.value = np.inf

    def times(self, expert: Ints) -> Floats:
        """Time (steps, gpus), where a mean GPU's is 1."""
        return np.asarray((self._each(expert) @ self._on(expert)) / self.speed)

    def _on(self, expert: Ints) -> Ints:
        return counts(expert, self.gpu, (self.part.shape[1], len(self.slots)))

    def _each(self, expert: Ints) -> Floats:
        """Load of a replica (steps, experts)."""
        return np.asarray(self.part / np.bincount(expert, minlength=self.part.shape[1]))

    def judged(self, hottest: Floats) -> Floats:
        """What is minimised, of the hottest GPU (…, steps); among equal worst steps the lower mean."""
        if self.over == "mean":
            return np.asarray(hottest.mean(-1))
        return np.asarray(hottest.max(-1) + 1e-5 * hottest.mean(-1))

    def offer(self, expert: Ints) -> bool:
        value = float(self.judged(self.times(expert).max(1)))
        better = value < self.value * (1 - TINY)
        if better:
            self.best, self.value = expert.copy(), value
        return better

    def run(self, stop: float, enough: float) -> None:
        """Descend from the best, disturb it and descend again, until near `enough`, in vain too often, or out
        of time."""
        self.offer(self._descended(self.best, stop))
        idle = 0
        while self.value > enough and idle < PATIENCE and time.perf_counter() < stop:
            expert = self.best.copy()
            for _ in range(2):
                a, b = self.rng.integers(0, len(expert), 2)
                expert[a], expert[b] = expert[b], expert[a]
            idle = 0 if self.offer(self._descended(expert, stop)) else idle + 1

    def _descended(self, expert: Ints, stop: float) -> Ints:
        """The placement after all exchanges and changes that help, or as many as there is time for."""
        expert = expert.copy()
        while time.perf_counter() < stop and (
            self._exchange(expert, FEW) or self._change(expert) or self._exchange(expert, len(self.part))
        ):
            pass
        return expert

    def place(self) -> Place:
        return [self.best[self.gpu == g].tolist() for g in range(len(self.slots))]

    def _exchange(self, expert: Ints, steps: int) -> bool:
        """The best exchange of a replica on the hottest GPU of so many steps, in place; False: none helps."""
        time_, each = self.times(expert), self._each(expert)[:, expert]
        now = float(self.judged(time_.max(1)))
        order = np.argsort(-time_.max(1)) if self.over == "worst" else self.rng.permutation(len(time_))
        slots = np.flatnonzero(np.isin(self.gpu, time_[order[:steps]].argmax(1)))
        g, h = self.gpu[slots][:, None], self.gpu[None, :]
        shift = each[:, None, :] - each[:, slots, None]
        here = time_[:, g] + shift / self.speed[g]
        there = time_[:, h] - shift / self.speed[h]
        hottest = np.maximum(np.maximum(here, there), _others(time_, g, h))
        value = self.judged(np.moveaxis(hottest, 0, -1))
        value[np.broadcast_to(g == h, value.shape)] = np.inf
        p, q = np.unravel_index(int(value.argmin()), value.shape)
        if value[p, q] >= now * (1 - TINY):
            return False
        a, b = int(slots[p]), int(q)
        expert[a], expert[b] = expert[b], expert[a]
        return True

    def _change(self, expert: Ints) -> bool:
        """The best of some changes of a replica with others into one of a hot GPU's experts, in place."""
        count = np.bincount(expert, minlength=self.part.shape[1])
        spare = np.flatnonzero(count[expert] > 1)
        if not spare.size:
            return False
        on, time_ = self._on(expert), self.times(expert)
        now = float(self.judged(time_.max(1)))
        slots = self.rng.permutation(spare)[:CANDIDATES]
        hot = np.unique(expert[np.isin(self.gpu, time_.argmax(1))])
        wanted = self.rng.permutation(hot)[:CANDIDATES]
        e, u, pace = expert[slots], self.gpu[slots], 1 / self.speed
        each, at = self.part / count, np.arange(len(slots))
        fewer, more = self.part / np.maximum(count - 1, 1), self.part / (count + 1)
        out = (on * pace)[None, e] * (fewer - each)[:, e, None]
        out[:, at, u] -= fewer[:, e] * pace[u]
        into = (on * pace)[None, wanted] * (more - each)[:, wanted, None]
        after = time_[:, None, None, :] + out[:, :, None, :] + into[:, None, :, :]
        after[:, at, :, u] += (more[:, wanted][:, None, :] * pace[u][None, :, None]).swapaxes(0, 1)
        value = self.judged(np.moveaxis(after.max(3), 0, -1))
        value[e[:, None] == wanted[None, :]] = np.inf
        p, q = np.unravel_index(int(value.argmin()), value.shape)
        if value[p, q] >= now * (1 - TINY):
            return False
        expert[int(slots[p])] = int(wanted[q])
        return True


def _others(time_: Floats, g: Ints, h: Ints) -> Floats:
    """The hottest of all GPUs but g and h, by step (steps, …)."""
    top = np.argsort(-time_, axis=1)[:, :3]
    value = np.take_along_axis(time_, top, 1)
    if top.shape[1] < 3:  # two GPUs: no others
        value = np.pad(value, ((0, 0), (0, 3 - top.shape[1])), constant_values=-np.inf)
        top = np.pad(top, ((0, 0), (0, 3 - top.shape[1])), constant_values=-1)
    g, h = np.broadcast_arrays(g, h)
    out = np.broadcast_to(value[:, 2].reshape(-1, *(1,) * g.ndim), (len(time_), *g.shape)).copy()
    for rank in (1, 0):
        which = top[:, rank].reshape(-1, *(1,) * g.ndim)
        free = (which != g[None]) & (which != h[None])
        out = np.where(free, value[:, rank].reshape(-1, *(1,) * g.ndim), out)
    return np.asarray(out)

"""What replicas carry of a mix of lengths: requests/s at the largest load that keeps every limit, by the one
model of a server.

A candidate stands at its largest load under the mix that it was made for. In an hour of longer prompts its
servers carry fewer requests and stand at another load: that is looked for again, as it was for the candidate.
What each slot is sized for, and the mixes of lengths of all slots, each slot's own, or few that stand for
many slots alike, are here, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.candidates.candidate import Candidate, Role
from planner.candidates.largest import MOST_SEQUENCES, QUIETEST
from planner.candidates.mix import Mix
from planner.candidates.points import batched, beyond, over, prefilling
from planner.candidates.setup import Setup
from planner.designs.shape import Floats, Ints
from planner.inputs.traffic import Traffic
from planner.inputs.workload import Workload
from planner.plans.found import Found
from planner.plans.operation import index_of

SELDOM = 0.01
"""The lightest batch that is tried."""

TRIED, ROUNDS = 30, 3
"""Loads over the whole range, and again between two of them: to a thousandth of the load."""

Kept = tuple[NDArray[np.bool_], Floats]


@dataclass(frozen=True)
class Run:
    """`count` replicas of a candidate, under the lengths of a workload."""

    setup: Setup
    candidate: Candidate
    count: int

    def rps(self, share: Floats) -> float:
        """Requests/s of the mix `share` (w,) that they carry in their role."""
        return self.count * of_replica(self.setup, self.candidate, share)


def runs(found: Found, workload: Workload) -> list[Run]:
    """The replicas of a fleet, under the lengths of `workload` in place of those that it was found with."""
    made = []
    for name, count in sorted(found.solution.replicas.items()):
        c = found.candidates[name]
        s = found.pool.setup(c)
        if found.workload.buckets != workload.buckets:
            s = replace(s, mix=Mix.of(workload, s.keep, s.mix.emitted))
        made.append(Run(s, c, count))
    return made


def of_replica(s: Setup, c: Candidate, share: Floats) -> float:
    """Requests/s of the mix `share` (w,) that one replica carries, in its role; 0 where a bucket of the mix
    keeps its limits at no load. From below, within a thousandth."""
    own, there = s.one(index_of(s, c), share), share > 0
    prefills = own.does(c.role) == "prefill"
    low, high = (QUIETEST, own.busiest) if prefills else (SELDOM, float(MOST_SEQUENCES))
    best = 0.0
    for _ in range(ROUNDS):
        loads = np.geomspace(low, high, TRIED)
        kept, rate = (_prefilling if prefills else _decoding)(own, c, loads, there)
        good = np.flatnonzero(kept)
        if not len(good):
            break
        top = int(good[-1])
        best, low, high = float(rate[top]), loads[top], loads[min(top + 1, TRIED - 1)]
        if low == high:
            break
    return best * c.design.attn_dp


def _decoding(s: Setup, c: Candidate, loads: Floats, there: NDArray[np.bool_]) -> Kept:
    """Whether each batch keeps every limit, and requests/s at it; the limit of one that decodes for others is
    its part of a pair's promise."""
    points = batched(s, np.zeros(len(loads), dtype=np.int64), loads, c.role)
    limit = s.promise.tpot_s if c.role == "mixed" else min(s.promise.tpot_s, c.late_s or np.inf)
    slow = beyond(points.tpot_s * s.caution(c.role)[1, 0], s, limit)
    worst = np.maximum(np.maximum(points.late, points.other), slow)
    return worst[:, there].max(axis=1) <= 0, points.rate


def _prefilling(s: Setup, c: Candidate, loads: Floats, there: NDArray[np.bool_]) -> Kept:
    """The same of shares of the time that a server which only prefills is busy."""
    points = prefilling(s, np.zeros(len(loads), dtype=np.int64), loads)
    late = over(points.cautious_ttft_s, min(c.late_s or np.inf, s.promise.ttft_s))
    worst = np.maximum(late, points.other)
    return worst[:, there].max(axis=1) <= 0, points.rate


def of_fleet(made: list[Run], shares: Floats) -> Floats:
    """Requests/s that replicas carry together of each of `shares` (m, w), (m,): all of a phase at the rates
    of its replicas, whichever serves what."""
    found = []
    for share in shares:
        each: dict[Role, float] = {"mixed": 0.0, "prefill": 0.0, "decode": 0.0}
        for run in made:
            each[run.candidate.role] += run.rps(share)
        found.append(each["mixed"] + min(each["prefill"], each["decode"]))
    return np.array(found)


MOST = 32
"""Mixes that servers are asked for: a twentieth of a second each, for each sort of replica."""

ROUNDS = 20


def mixes(workload: Workload) -> tuple[Floats, Ints]:
    """Shares (m, w), and which of them each slot has, (t,). Where slots are more than `MOST`, those are
    together whose prompts and answers are of like lengths (k-means from evenly spaced slots, Lloyd 1982)."""
    traffic = workload.traffic
    assert traffic is not None
    if not traffic.shares:
        return np.array([workload.shares]), np.zeros(len(traffic.rate_rps), dtype=np.int64)
    shares = np.array(traffic.shares)
    shares /= shares.sum(axis=1, keepdims=True)
    if len(shares) <= MOST:
        return shares, np.arange(len(shares))
    mix = Mix.of(workload)
    lengths = np.hstack([shares * mix.isl / mix.isl.mean(), shares * mix.osl / mix.osl.mean()])
    order = np.argsort(shares @ (mix.isl + mix.osl))
    centre = lengths[order[np.linspace(0, len(order) - 1, MOST).round().astype(int)]]
    for _ in range(ROUNDS):
        which = ((lengths[:, None] - centre[None]) ** 2).sum(axis=2).argmin(axis=1)
        centre = np.stack(
            [lengths[which == i].mean(axis=0) if (which == i).any() else c for i, c in enumerate(centre)]
        )
    used, which = np.unique(which, return_inverse=True)
    return np.stack([shares[which == i].mean(axis=0) for i in range(len(used))]), which.astype(np.int64)


TAIL = ("p95", "p99")
"""Percentiles for which a slot is sized by its busiest minute where its queue is not known: a minute of too
many breaks them."""


def demand(traffic: Traffic, percentile: str, margin: float) -> tuple[list[float], str]:
    """Requests/s that each slot is sized for, and by what: the queue of its own arrivals where that is known,
    else its busiest minute or its mean."""
    if percentile != "mean" and traffic.needed_rps:
        base, by = traffic.needed_rps, f"queue at {percentile}"
    elif percentile in TAIL and traffic.peak_rps:
        base, by = traffic.peak_rps, "busiest minute"
    else:
        base, by = traffic.rate_rps, "mean"
    return [r * (1 + margin) for r in base], by

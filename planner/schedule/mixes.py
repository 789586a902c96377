"""What each slot is sized for, and the mixes of lengths of all slots: each slot's own, or few that stand for
many slots alike."""

from __future__ import annotations

import numpy as np

from planner.candidates.mix import Mix
from planner.designs.shape import Floats, Ints
from planner.inputs.traffic import Traffic
from planner.inputs.workload import Workload

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

"""Room of a KV cache that a plan leaves free, so that few requests wait for room and few are preempted
(`planner.queueing.admission`)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planner.cost.normal import density, tail
from planner.designs.shape import Floats
from planner.queueing.admission import ROUNDS, Lengths
from planner.queueing.tail import QUANTILE

PREEMPTED = 0.01
"""Chance of preemption that plans allow."""

DELAYED = {"open": 0.05, "closed": 0.16}
"""Chance to wait for room in the cache that plans allow, by loop, where a mean is promised."""

LATE = 0.1
"""Of the share of requests that may be late in a closed loop of a percentile, those that may wait for room:
TTFT is predicted without that wait."""

SKEW = 1.2
"""Under Poisson arrivals the chances of `open_loop` are up to so many times those of `deviations`, with the
skewness of what is held in these: over 204 servers of three mixes, three devices, two engines and three rates
0.78 to 1.13 of what is allowed, 0.91 in the median."""


def delayed_most(loop: str, percentile: str) -> float:
    """Chance to wait for room that plans allow.

    >>> [round(delayed_most("closed", p), 3) for p in ("mean", "p50", "p99")]
    [0.16, 0.05, 0.001]
    """
    most = DELAYED[loop]
    return most if loop == "open" or percentile == "mean" else min(most, LATE * (1 - QUANTILE[percentile]))


def deviations(lengths: Lengths, spread: Floats, loop: str, percentile: str = "mean") -> Floats:
    """How many standard deviations of what is held a plan leaves free, `spread` [tokens] being one: both
    chances then stay within PREEMPTED and `delayed_most`. C is left out, which is careful.

    Open loops: those who find the cache full wait on until it drains, 1 / (1 + z Φ(z) / φ(z)) (Halfin and
    Whitt 1981).
    """
    most, spreads = delayed_most(loop, percentile), tuple(spread.tolist())
    return np.array(_deviations(lengths.caught, lengths.grown_mean, spreads, loop, most))


@lru_cache(maxsize=4096)
def _deviations(
    caught: float, grown_mean: float, spreads: tuple[float, ...], loop: str, most: float
) -> list[float]:
    """Standard deviations of room to keep free, by bisection; kept, as each server of a plan asks for the
    same."""
    skew, spread = SKEW if loop == "open" else 1.0, np.array(spreads)
    low, high = np.zeros_like(spread), np.full_like(spread, 8.0)
    for _ in range(ROUNDS):
        z = (low + high) / 2
        full = tail(z) if loop == "closed" else density(z) / (density(z) + z * (1 - tail(z)))
        lost = full * caught + grown_mean * density(z) / spread
        bad = (skew * full > most) | (skew * lost > PREEMPTED)
        low, high = np.where(bad, z, low), np.where(bad, high, z)
    found: list[float] = high.tolist()
    return found

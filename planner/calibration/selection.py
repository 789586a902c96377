"""Which runs to make: those that tell most, per minute, about the predictions that matter.

With parameters x ~ N(0, S), a run measures A x + error, error ~ N(0, diag(noise²)), and predictions T x
matter. After the run

    S' = S - S Aᵀ (A S Aᵀ + diag(noise²))⁻¹ A S,

so the summed variance of the predictions, trace(T S Tᵀ), falls by trace(T (S - S') Tᵀ). Runs are chosen one
by one, each the largest fall per minute: Bayesian A-optimality for T x (Chaloner and Verdinelli, Statistical
Science 1995), greedily and by benefit over cost (Krause, Singh and Guestrin, JMLR 2008). A run on a server
that is not chosen yet costs its start, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.designs.shape import Floats, Ints

MOST_RUNS = 12
"""Listed at most: an hour or so of a user's time."""

LEAST_GAIN = 0.04
"""Of the summed variance that is left, 2 % of the bands: a run that takes less away is not worth its time."""


@dataclass(frozen=True)
class Runs:
    """n runs that could be made, each of k figures, in p parameters.

    slope: of the figures by the parameters, shape (n, k, p); noise: standard deviations (k,); minutes: of
    each run (n,); server: which one it needs (n,), whose start takes `start` minutes (n,).
    """

    slope: Floats
    noise: Floats
    minutes: Floats
    server: Ints
    start: Floats


def select(
    runs: Runs,
    targets: Floats,
    covariance: Floats,
    staying: float = 0.0,
    most: int = MOST_RUNS,
    given: Sequence[int] = (),
) -> list[int]:
    """The runs to make, in order of choice; none twice. `targets` (m, p): T; `covariance` (p, p): S;
    `staying`: summed variance that no run takes away; `given`: runs that are made first anyway."""
    chosen = list(given)
    free = np.ones(len(runs.minutes), dtype=bool)
    for one in chosen:
        free[one] = False
        covariance = after(covariance, runs.slope[one], runs.noise)
    while len(chosen) < most:
        gain = np.where(free, gains(runs.slope, runs.noise, targets, covariance), 0.0)
        running = np.isin(runs.server, runs.server[chosen])
        worth = gain > LEAST_GAIN * (spread(targets, covariance) + staying)
        if not worth.any():
            break
        best = int(
            np.argmax(np.where(worth, gain / (runs.minutes + np.where(running, 0.0, runs.start)), 0.0))
        )
        chosen.append(best)
        free[best] = False
        covariance = after(covariance, runs.slope[best], runs.noise)
    return chosen


def gains(slope: Floats, noise: Floats, targets: Floats, covariance: Floats) -> Floats:
    """How much each run alone would take off the summed variance, shape (n,)."""
    moved = slope @ covariance
    inside = moved @ slope.swapaxes(1, 2) + np.diag(noise**2)
    seen = moved @ targets.T
    return np.asarray(np.einsum("nkm,nkm->n", np.linalg.solve(inside, seen), seen))


def after(covariance: Floats, slope: Floats, noise: Floats) -> Floats:
    """The covariance once a run with `slope` (k, p) is measured."""
    moved = slope @ covariance
    inside = moved @ slope.T + np.diag(noise**2)
    return np.asarray(covariance - moved.T @ np.linalg.solve(inside, moved))


def spread(targets: Floats, covariance: Floats) -> float:
    """The summed variance of T x.

    >>> spread(np.eye(2), np.diag([1.0, 4.0]))
    5.0
    """
    return float(np.einsum("mp,pq,mq->", targets, covariance, targets, optimize=True))

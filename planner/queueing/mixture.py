"""Percentiles over requests that take unlike ways: of a mixture, from percentiles of its parts.

A part's distribution is known at the percentiles of SHARES. Between these, and beyond, the logarithm of time
goes with the normal score, as of a log-normal piece by piece. The quantile of the mixture lies between the
least and the largest quantile of its parts, and is found there by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.designs.shape import Floats
from planner.queueing.tail import QUANTILE

NORMAL = NormalDist()
SCORES = np.array([NORMAL.inv_cdf(share) for share in QUANTILE.values()])
"""Normal scores of the percentiles at which parts are known, (4,)."""

ROUNDS = 40
"""Halvings of the interval between the parts' quantiles: to its 1e-12."""

LEAST_STEP = 1e-9
"""Of the logarithm of time, between two percentiles of a part that has no spread there."""


@dataclass(frozen=True)
class Part:
    """Requests/s that see `times` (4,) at the percentiles of QUANTILE."""

    rate: float
    times: Floats

    def scaled(self, factor: float) -> Part:
        """The same with times `factor` times as long."""
        return Part(self.rate, self.times * factor)

    def within(self, time: float) -> float:
        """Share of the part's requests that take no longer than `time`."""
        logs = np.log(np.maximum(np.maximum.accumulate(self.times), 1e-12))
        logs = logs + LEAST_STEP * np.arange(len(logs))
        at = float(np.log(max(time, 1e-12)))
        i = int(np.clip(np.searchsorted(logs, at) - 1, 0, len(logs) - 2))
        slope = (SCORES[i + 1] - SCORES[i]) / (logs[i + 1] - logs[i])
        return NORMAL.cdf(float(SCORES[i] + slope * (at - logs[i])))


def quantile_of(parts: Sequence[Part], percentile: str) -> float:
    """The percentile of all requests together.

    >>> fast = Part(3.0, np.array([1.0, 2.0, 2.5, 4.0]))
    >>> slow = Part(1.0, np.array([10.0, 20.0, 25.0, 40.0]))
    >>> [round(quantile_of(ways, "p90"), 1) for ways in ([fast], [fast, slow], [slow])]
    [2.0, 11.5, 20.0]
    """
    own = [float(np.maximum.accumulate(part.times)[list(QUANTILE).index(percentile)]) for part in parts]
    low, high = min(own), max(own)
    wanted = QUANTILE[percentile] * sum(part.rate for part in parts)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        enough = sum(part.rate * part.within(middle) for part in parts) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high

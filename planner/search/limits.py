"""Limits of the solves inside a search."""

from __future__ import annotations

import time
from dataclasses import replace

from planner.candidates.deadline import left_s
from solvers.linear import Limits

LEAST_S = 1.0
"""Seconds that every solve gets."""

NEARLY_ALL = 0.9
"""Part of the gap that a long search may leave: what easing costs is nearly always within the rest."""

LATE_S = 0.1
"""And beyond the deadline."""


def left(limits: Limits, until: float, share: float = 1.0) -> Limits:
    """`limits` with a `share` of the time that is left until `until` (monotonic clock): never nothing,
    so that a started answer is finished."""
    least_s = LEAST_S if left_s() else LATE_S
    return replace(limits, seconds=max(share * (until - time.monotonic()), least_s))


def closer(limits: Limits, eased: float = 0.0) -> Limits:
    """`limits` with a quarter of the gap, or with nearly all of it where a search takes long: the rest is for
    what easing costs. Where it is known to cost more, `eased`, nearly all of what that leaves: the same
    search would end with the same fleet."""
    close = limits.gap / 4
    return replace(limits, gap=close, enough=max(NEARLY_ALL * (limits.gap - eased), close))

"""The most of its traffic that a fleet carries, as the one model judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, log

from planner.plans.found import Found, Group
from planner.plans.strain import SLACK, scaled, strain

JUDGED = 12
"""Times that a fleet's traffic is changed to find the most that it carries."""

MORE = 0.02
"""Share of its traffic that a fleet is given more in the first step, where it carries more."""

STEEP = 1.0
"""Logarithm of what is used of a limit, from which on the chord says nothing."""

TINY = 5e-10
"""Share of a limit below which it is not used at all."""


def as_carried(found: Found, made: Sequence[Group], near: float = SLACK) -> Found | None:
    """`found` with the largest share of its traffic, or more than all, that keeps every limit, to within
    `near`; None where there is none. `made`: its groups."""
    factor = most(lambda share: strain(found, made, share), strain(found, made), near)
    return scaled(found, factor) if factor > 0 else None


def most(at: Callable[[float], float], worst: float, near: float = SLACK) -> float:
    """The largest share of the traffic at which the worst limit is kept, or one that uses nearly as much of
    it (less by `near`). `at` a share, and at all of it (`worst`): what is used of that limit.

    By regula falsi (Illinois) in its logarithm; before both ends are near, downwards as if what is used grew
    with the traffic, then faster, by halves where it is far beyond the limit, or upwards in growing steps.
    """
    if 1 - near <= worst <= 1 + SLACK:
        return 1.0
    low, f_low, high, f_high = (1.0, log(worst), 4.0, inf) if worst < 1 else (0.0, -inf, 1.0, log(worst))
    side, step, down = 0, MORE, 1.0
    for _ in range(JUDGED):
        close = f_high < STEEP and f_low > -inf
        share = -f_low / (f_high - f_low) if close else 0.5
        x = low + min(max(share, 1e-3), 1 - 1e-3) * (high - low)
        if worst < 1 and not close:
            x, step = min(x, low * (1 + step)), 2 * step
        elif low == 0 and f_high < STEEP:
            x, down = high * max(exp(-down * f_high), 0.5), 2 * down
        f = log(max(at(x), TINY))
        if f <= SLACK:
            low, f_low, f_high, side = x, f, f_high / 2 if side > 0 else f_high, 1
        else:
            high, f_high, f_low, side = x, f, f_low / 2 if side < 0 else f_low, -1
        if -near <= f <= SLACK or high <= low * (1 + near):
            break
    return low

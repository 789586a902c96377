"""The most of its traffic that a fleet carries, as the one model judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt

from planner.plans.found import Found, Group
from planner.plans.strain import SLACK, scaled, strain

JUDGED = 20
"""Times that a fleet's traffic is changed at most to find the most that it carries. Of 47 fleets from 0.2 to
5 times what they carry, told to 0.0002, none needed more than 18, and on average 7: a jump of what is used,
which no line foretells, is found by halves."""

MOST = 16.0
"""Times its traffic that a fleet is never thought to carry."""

LEAST = 1e-4
"""Share of its traffic below which a fleet is thought to carry none."""

STEP = 4.0
"""Times that the traffic grows or shrinks in one step at most, before both ends are known."""

TINY = 1e-9
"""Share of a limit below which it is not used at all."""

End = tuple[float, float]
"""A share of the traffic, and what it uses of the worst limit."""


def as_carried(found: Found, made: Sequence[Group], near: float = SLACK) -> Found | None:
    """`found` with the largest share of its traffic, or more than all, that keeps every limit, to within
    `near`; None where there is none. `made`: its groups."""
    factor = most(lambda share: strain(found, made, share), strain(found, made), near)
    return scaled(found, factor) if factor > 0 else None


def most(at: Callable[[float], float], worst: float, near: float = SLACK) -> float:
    """The largest share of the traffic at which the worst limit is kept, less at most `near` of it. `at` a
    share, and at all of it (`worst`): what is used of that limit, which never falls with the traffic.

    That it is the largest is seen, not foretold: a share larger by `near` was looked at and breaks a limit,
    unless what is used is all of it but for rounding, or `JUDGED` looks were too few.
    """
    kept, over = [(0.0, 0.0)], [(MOST, inf)]
    (kept if worst <= 1 + SLACK else over).append((1.0, worst))
    slow = 0
    for _ in range(JUDGED):
        (low, used), (high, _) = kept[-1], over[-1]
        if (low > 0 and high <= low * (1 + near)) or used >= 1 - SLACK or high < LEAST:
            break
        halved = slow > 1 or (low == 0 and len(over) > 3)
        x = _middle(low, high) if halved else _foretold(kept, over)
        x = _between(kept, over, x * (1 - near / 2), near)
        used = at(x)
        (kept if used <= 1 + SLACK else over).append((x, used))
        slow = slow + 1 if over[-1][0] - kept[-1][0] > (high - low) / 2 else 0
    return kept[-1][0]


def _between(kept: Sequence[End], over: Sequence[End], x: float, near: float) -> float:
    """`x` as it is looked at: not nearer to an end than `near`, nor too many times one where the other is not
    known."""
    low, high, less = kept[-1][0], over[-1][0], near * (1 - 1e-6)
    least = low * (1 + less) if low > 0 else high / STEP
    largest = low * STEP if len(over) == 1 else inf
    return min(max(x, least), high / (1 + less), largest)


def _foretold(kept: Sequence[End], over: Sequence[End]) -> float:
    """Where the worst limit is reached, as the ends looked at last foretell it."""
    (low, _), (high, above) = kept[-1], over[-1]
    if len(over) == 1:
        return _line(kept[-2], kept[-1], _excess)
    if low == 0:
        last = over[-2][1] < inf and _line(over[-1], over[-2], _waiting)
        return last or (high / above if above < inf else high / 2)
    if above == inf:
        x = _line(kept[-2], kept[-1], _waiting)
        return x if x < low + 0.6 * (high - low) else _middle(low, high)
    for third in (over[-2], kept[-2]):
        if 0 < third[1] < inf and low < (x := _curve(kept[-1], over[-1], third)) < high:
            return x
    return _line(kept[-1], over[-1], _waiting)


def _middle(low: float, high: float) -> float:
    """By halves, of the exponent where the ends are far apart."""
    return sqrt(low * high) if high > 2 * low > 0 else (low + high) / 2


def _excess(used: float) -> float:
    """0 at the limit, and a line where what is used grows with the traffic."""
    return used - 1


def _waiting(used: float) -> float:
    """0 at the limit, and a line where a server fills up: it takes idle / (1 - share / full)."""
    return 1 - 1 / max(used, TINY)


def _line(one: End, other: End, level: Callable[[float], float]) -> float:
    """Where the line through both ends is at level 0; infinite where it does not rise."""
    f, g = level(one[1]), level(other[1])
    return other[0] - g * (other[0] - one[0]) / (g - f) if (g > f) == (other[0] > one[0]) and g != f else inf


def _curve(one: End, other: End, third: End) -> float:
    """Where the parabola through three ends, the share as a function of the level, is at level 0 (inverse
    quadratic interpolation); infinite where two are at the same level."""
    (a, b, c), (f, g, h) = zip(*((x, _waiting(used)) for x, used in (one, other, third)), strict=True)
    if f in (g, h) or g == h:
        return inf
    return float(
        a * g * h / ((f - g) * (f - h)) + b * f * h / ((g - f) * (g - h)) + c * f * g / ((h - f) * (h - g))
    )

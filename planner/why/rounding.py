"""Figures of hints: three digits, rounded to the side on which the hint holds; the most that is served, as
far as it is proven; the fewest nodes that do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from solvers.fleet.types import FleetSolution

MOST_NODES = 4096
"""Where the search for enough nodes ends."""


def ceil_to(x: float) -> str:
    """Rounded up to three digits (what is above by rounding error alone stays).

    >>> ceil_to(11.231), ceil_to(2031.2), ceil_to(24.000000001), ceil_to(0.0)
    ('11.3', '2040', '24', '0')
    """
    return _rounded(x * (1 - 1e-9), math.ceil)


def floor_to(x: float) -> str:
    """Rounded down to three digits (what is below by rounding error alone stays).

    >>> floor_to(11.281), floor_to(185.8), floor_to(0.0123456), floor_to(0.00104)
    ('11.2', '185', '0.0123', '0.00104')
    """
    return _rounded(x * (1 + 1e-12), math.floor)


def _rounded(x: float, way: Callable[[float], int]) -> str:
    if x <= 0 or not math.isfinite(x):
        return f"{x:g}"
    step = math.floor(math.log10(x)) - 2
    whole = way(x / 10.0**step)
    return f"{whole * 10.0**step:.12g}"


def enough(name: str, least: float) -> float:
    """The budget `name` that pays for what takes `least` of it."""
    return float(round(least)) if name == "gpus" else float(ceil_to(least))


def most_served(s: FleetSolution, rate: float) -> str:
    """The most that is served in place of `rate`, as far as that is proven."""
    if s.objective is None or s.status == "optimal":
        return f"at most {s.objective or 0.0:.4g} req/s"
    if s.bound is not None and s.bound < rate:
        return f"at most {s.bound:.4g} req/s"
    return f"the most that was found is {s.objective:.4g} req/s"


def budget_words(budget: Mapping[str, float]) -> str:
    """Limits as they are asked for."""
    return "--budget " + ",".join(f"{k}={v:g}" for k, v in budget.items())


def fewest(do: Callable[[int], bool]) -> int | None:
    """The fewest nodes that do, by doubling and bisection; None where MOST_NODES are too few.

    >>> fewest(lambda nodes: nodes >= 5), fewest(lambda nodes: False)
    (5, None)
    """
    low, high = 0, 1
    while not do(high):
        low, high = high, 2 * high
        if high > MOST_NODES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if do(middle) else (middle, high)
    return high

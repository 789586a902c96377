"""Figures of hints: three digits, rounded to the side on which the hint holds."""

from __future__ import annotations

import math
from collections.abc import Callable


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

"""Figures to the digits that mean something, as documents are written with them."""

from __future__ import annotations

from typing import Any

DIGITS = 9
"""Digits of a figure: far below what any of them is good for, far above what `check` compares by."""

NOTHING = 1e-20
"""Below this a figure is what rounding left of 0."""


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """The same with every float rounded to so many digits; what is as good as 0 is 0.

    >>> rounded({"a": [9.999999999995, -0.0, 1.8e-28], "n": 8192, "yes": True})
    {'a': [10.0, 0.0, 0.0], 'n': 8192, 'yes': True}
    """
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if abs(value) > NOTHING else 0.0
    if isinstance(value, dict):
        return {key: rounded(each, digits) for key, each in value.items()}
    return [rounded(each, digits) for each in value] if isinstance(value, list | tuple) else value

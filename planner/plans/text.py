"""A plan as JSON text: figures to the digits that mean something."""

from __future__ import annotations

import json
from typing import Any

from planner.plans.schema import Plan
from planner.plans.schema.several import Several

DIGITS = 9
"""Digits of a figure: far below what any of them is good for, far above what `check` compares by."""

NOTHING = 1e-20
"""Below this a figure is what rounding left of 0."""


def text(plan: Plan | Several) -> str:
    """The form of a plan, or of several (contracts, Plan JSON), one space a level."""
    return json.dumps(rounded(plan.model_dump(mode="json", by_alias=True)), indent=1, ensure_ascii=False)


def rounded(value: Any) -> Any:
    """The same with every float rounded; what is as good as 0 is 0.

    >>> rounded({"a": [9.999999999995, -0.0, 1.8e-28], "n": 8192, "yes": True})
    {'a': [10.0, 0.0, 0.0], 'n': 8192, 'yes': True}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) > NOTHING else 0.0
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value

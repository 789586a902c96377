"""What the verifier says of a plan, and how exactly it measures."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9
EXACT = 1e-6
"""Relative error allowed where the plan only had to add up: shares, budgets, the gap."""

FIGURE = 1e-3
"""Relative error allowed between two figures the plan states of the same thing: it may have rounded to four
digits."""

MODEL = 0.02
"""Relative error allowed between a stated figure and one of our own arithmetic: padding, alignment,
rounding to blocks."""


@dataclass(frozen=True)
class Violation:
    """One broken limit: `code` names the rule, `where` the place in the plan, `message` the two numbers
    that disagree."""

    code: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}\n  at {self.where}"


def at_most(value: float, limit: float, tolerance: float = EXACT) -> bool:
    """Whether value <= limit up to a relative `tolerance`. NaN is never within a limit.

    >>> at_most(1.0000001, 1.0), at_most(1.1, 1.0), at_most(float("nan"), 1.0)
    (True, False, False)
    """
    return value <= limit + tolerance * max(abs(value), abs(limit))


def same(a: float, b: float, tolerance: float = EXACT) -> bool:
    """Whether a and b are equal up to a relative `tolerance`.

    >>> same(100.0, 100.05, FIGURE), same(100.0, 101.0, FIGURE)
    (True, False)
    """
    return at_most(a, b, tolerance) and at_most(b, a, tolerance)

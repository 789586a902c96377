"""Numbers written on the command line or in a table's cell: read, checked, and refused by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.errors import InputError
from planner.reading.documents import kind_of
from planner.reading.units import amount, unit_of

SHOWN = 60
"""Characters of a wrong number that a message shows."""


@dataclass(frozen=True)
class Range:
    """What a number may be: from `low` (without it where `open`) to `high`, a whole one where `whole`."""

    low: float = 0.0
    high: float = 1e15
    open: bool = False
    whole: bool = False

    def problem(self, value: float) -> str | None:
        """What is wrong with a value, as "must be …"; None where it is allowed."""
        if not math.isfinite(value):
            return "must be a finite number"
        if self.whole and value != int(value):
            return "must be a whole number"
        if value < self.low or (self.open and value == self.low):
            return f"must be {'greater than' if self.open else 'at least'} {self.low:g}"
        return f"must be at most {self.high:g}" if value > self.high else None


POSITIVE = Range(open=True)
NOT_NEGATIVE = Range()
COUNT = Range(low=1, high=1e9, whole=True)
TOKENS = Range(low=1, high=1e8, whole=True)


def number(value: object, name: str, where: str, allowed: Range, unit: str | None = None) -> float:
    """`value` (a number, or text that is one) called `name` in errors. Raises InputError at `where`.

    >>> number("2.5", "--rate", "--rate", POSITIVE)
    2.5
    """
    unit = unit or unit_of(name.removeprefix("--").replace("-", "_"))
    hint = f"a plain number in {unit}" if unit else "a plain number"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"`{name}` must be a number, got {kind_of(value)}", where, hint)
    field = name.removeprefix("--").replace("-", "_")
    told = amount(value, {"rate": "rate_rps"}.get(field, field)) if isinstance(value, str) else None
    try:
        parsed = float(value) if told is None else told
    except (ValueError, OverflowError):
        raise InputError(f"`{name}` must be a number, got {kind_of(value)}", where, hint) from None
    if problem := allowed.problem(parsed):
        raise InputError(f"`{name}` {problem}, got {str(value)[:SHOWN]}", where)
    return parsed


def whole(value: object, name: str, where: str, allowed: Range = COUNT) -> int:
    """Like `number`, for a whole one."""
    return int(number(value, name, where, allowed))

"""Parts of a document of somebody else's making, read by name: what is absent is None, nonsense an
InputError."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.errors import InputError
from planner.inputs.numbers import whole
from planner.reading.documents import kind_of


@dataclass(frozen=True)
class Fields:
    """The named fields of one part; empty where the document has no such part."""

    data: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def part(self, *path: str) -> Fields:
        """What stands at `path`, step by step.

        >>> Fields({"a": {"b": {"c": 1}}}).part("a", "b").number("c")
        1.0
        """
        found: Any = self.data
        for step in path:
            found = found.get(step) if isinstance(found, Mapping) else None
        return Fields(found if isinstance(found, Mapping) else {})

    def parts(self, name: str) -> list[Fields]:
        """The parts of a list, or the values of named parts."""
        found = self.data.get(name)
        entries = found.values() if isinstance(found, Mapping) else found if isinstance(found, list) else ()
        return [Fields(entry) for entry in entries if isinstance(entry, Mapping)]

    def number(self, *names: str) -> float | None:
        """The first of `names` that is not null, as a number, maybe infinite. Raises InputError.

        >>> Fields({"request_rate": "inf", "max_concurrency": None}).number("request_rate")
        inf
        """
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            try:
                number = math.nan if isinstance(value, bool) else float(value)
            except (TypeError, ValueError, OverflowError):
                number = math.nan
            if math.isnan(number):
                raise InputError(f"`{name}` must be a number, got {kind_of(value)}")
            return number
        return None

    def whole(self, name: str) -> int:
        """A whole number of at least 1; 1 where it is absent. Raises InputError."""
        value = self.number(name)
        return 1 if value is None else whole(value, name, "")

    def text(self, *names: str) -> str:
        """The first of `names` that holds text or a number (or a list that begins with one), blanks
        stripped; "" where none does."""
        for name in names:
            value = self.data.get(name)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
                return str(value).strip()
        return ""

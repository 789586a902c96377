"""How much of what people hand in is read: text of any size and shape is answered within seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from planner.errors import InputError

MOST_CHARACTERS = 2_000_000
"""Of one text: a manifest of a server has some 5,000, a script 2,000."""

MOST_BYTES_EACH = 4
"""Of a character in UTF-8."""

MOST_LINES = 100_000
MOST_FILES = 1_000
"""Of a folder."""

MOST_VALUES = 100_000
"""Of YAML, with its aliases expanded, as of our own documents."""

MOST_DEPTH = 64
MOST_S = 20.0
"""Of reading one text."""

MOST_OF_A_KIND = 1_000_000
"""Replicas, nodes, ranks or GPUs that a manifest counts."""

MOST_NUMBER = 10**15
"""A flag's value: more than any size in bytes."""

MOST_COMMANDS, MOST_VARIABLES, MOST_ARRAYS = 2_000, 1_000, 200
MOST_EXPANDED = 1_000_000
"""Characters that variables of one script stand for, wherever they are used."""


def check_size(text: str, name: str) -> None:
    """Raises InputError for a text that is too long."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"more than {MOST_CHARACTERS:,} characters", name)
    if text.count("\n") > MOST_LINES:
        raise InputError(f"more than {MOST_LINES:,} lines", name)


@dataclass
class Expansion:
    """What variables of a script may still stand for, in characters."""

    left: int = MOST_EXPANDED

    def take(self, characters: int) -> None:
        """Raises InputError where that is more than is left."""
        self.left -= characters
        if self.left < 0:
            raise InputError(f"its variables expand to more than {MOST_EXPANDED:,} characters", "the script")


@dataclass
class Values:
    """Values and depth of a YAML text while it is parsed, aliases counted as often as they are used."""

    name: str
    total: int = 0
    open: list[tuple[str | None, int]] = field(default_factory=list)  # anchor, and values before it
    sizes: dict[str, int] = field(default_factory=dict)
    until: float = field(default_factory=lambda: time.monotonic() + MOST_S)

    def take(self, event: object, line: int) -> None:
        """The next event. Raises InputError, with the line."""
        kind, anchor = type(event).__name__.removesuffix("Event"), getattr(event, "anchor", None)
        if kind in ("SequenceStart", "MappingStart"):
            self.open.append((anchor, self.total))
        elif kind in ("SequenceEnd", "MappingEnd"):
            anchor, before = self.open.pop()
            self.total += 1
            if anchor is not None:
                self.sizes[anchor] = self.total - before
        elif kind == "Scalar":
            self.total += 1
            if anchor is not None:
                self.sizes[anchor] = 1
        elif kind == "Alias":
            self.total += self.sizes.get(str(anchor), 1)
        where = f"{self.name}:{line}"
        if self.total > MOST_VALUES:
            raise InputError(f"no YAML that is read: it expands to more than {MOST_VALUES:,} values", where)
        if len(self.open) > MOST_DEPTH:
            raise InputError(f"no YAML: nested more than {MOST_DEPTH} deep", where)
        if time.monotonic() > self.until:
            raise InputError(f"no YAML that is read within {MOST_S:g} s", where)

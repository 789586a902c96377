"""Options that have no say in the way a plan is made: a user's own table of rates, or chains of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.errors import InputError

_FOUND_AGAIN = "what is found again in the cache has no say: "

UNHEARD: Final[dict[str, tuple[str, str]]] = {
    "--calibration": ("a profile leaves nothing to calibrate", ""),
    "--expert-loads": ("a profile divides no experts", "a chain of nodes divides no experts"),
    "--workload": (
        f"{_FOUND_AGAIN}a profile's rates have theirs in them",
        f"{_FOUND_AGAIN}chains keep no cache between requests",
    ),
    "--speculation": (
        "speculation has no say: a profile's rates have theirs in them",
        "speculation has no say: chains of nodes draft nothing",
    ),
    "--survive": (
        "a profile's replicas are not planned for lost nodes",
        "chains of nodes are not planned for lost nodes",
    ),
}
"""Why, by option: under a profile, and for chains of nodes ("" where it is heard)."""
UNHEARD["--trace"] = UNHEARD["--workload"]


def refuse(given: Mapping[str, object], profiled: bool, engine: str) -> None:
    """Options that were `given` something and have no say. Raises InputError."""
    for option, value in given.items() if profiled or engine == "chains" else ():
        why = UNHEARD[option][0 if profiled else 1]
        if value and why:
            raise InputError(why, option, f"leave out {option}, or the other one")

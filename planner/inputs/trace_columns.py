"""Columns of request traces as CSV, and a line of one as a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.inputs.numbers import TOKENS
from planner.inputs.tables import Row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """One row of a file."""

    arrival_s: float
    isl: int
    osl: int
    blocks: Sequence[int] = ()


COLUMNS = {
    "own": ("arrival_s", "isl", "osl"),
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
}


def request_of(row: Row, form: str, columns: Sequence[str]) -> Request | None:
    """One line of a CSV; None: it failed."""
    if row.problem:
        raise InputError(row.problem, f"{row.path}:{row.line}")
    at, isl, osl = columns
    if form == "burstgpt" and row.number(osl) == 0:
        return None
    seconds = _stamp(row, at) if form == "azure" else row.number(at)
    return Request(seconds, row.whole(isl, TOKENS), row.whole(osl, TOKENS))


def _stamp(row: Row, column: str) -> float:
    """A date as seconds; UTC where it names no zone."""
    text = row.text(column)
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        hint = "as in 2023-11-16 18:15:46.68"
        raise InputError(f"`{column}` is no time: {text[:40]}", row.where(column), hint) from None

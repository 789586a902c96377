"""A line of a request trace as a request: of CSV, or of JSON with its blocks (Mooncake's, Qwen-Bailian's)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, nearest
from planner.inputs.numbers import NOT_NEGATIVE, TOKENS, number, whole
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


MOONCAKE, QWEN = 512, 16
"""Tokens of a block in the public traces."""

FORMS = "columns arrival_s, isl, osl (and prefix_id), or a trace of Azure, BurstGPT, Mooncake or Qwen-Bailian"
"""What a file may be, for who has another."""


def requests_of(text: str, name: str) -> tuple[list[Request], int]:
    """The requests of a file called `name`, in its order, and the tokens of their blocks. Raises InputError
    with the line."""
    rows: list[Request] = []
    size = 0
    for line, part in enumerate(text.split("\n"), 1):
        if not part.strip():
            continue
        where = f"{name}:{line}"
        try:
            data = json.loads(part)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not valid JSON: {getattr(error, 'msg', error)}", where) from None
        if not isinstance(data, dict):
            raise InputError("expected one request in { } a line", where)
        size = size or (QWEN if "chat_id" in data or "turn" in data else MOONCAKE)
        rows.append(_request(data, where, size))
    return rows, size


def _request(data: dict[str, Any], where: str, size: int) -> Request:
    """One line of JSON."""
    for key in ("timestamp", "input_length", "output_length"):
        if key not in data:
            close = nearest(key, data, 1) if data else []
            hint = f"rename `{close[0]}`?" if close else FORMS
            raise InputError(f"`{key}` is missing", where, hint)
    stamp = number(data["timestamp"], "timestamp", where, NOT_NEGATIVE)
    isl, osl = (whole(data[k], k, where, TOKENS) for k in ("input_length", "output_length"))
    blocks = data.get("hash_ids", ())
    if not isinstance(blocks, list | tuple) or not all(
        isinstance(b, int) and not isinstance(b, bool) for b in blocks
    ):
        raise InputError("`hash_ids` must be whole numbers", where)
    if blocks and not adds_up(blocks, isl, size):
        many = f"a prompt of {isl:,} tokens has {-(-isl // size)} blocks of {size}"
        raise InputError(f"{many}, `hash_ids` has {len(blocks)}", where)
    return Request(stamp / (1e3 if size == MOONCAKE else 1.0), isl, osl, blocks)


def adds_up(blocks: Sequence[int], isl: int, size: int) -> bool:
    """Whether so many blocks of `size` tokens are a prompt of `isl`, with or without its broken end."""
    return len(blocks) in (isl // size, -(-isl // size))

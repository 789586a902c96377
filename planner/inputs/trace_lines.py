"""Request traces as lines of JSON, Mooncake's and Qwen-Bailian's: a line as a request with its blocks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from planner.errors import InputError, nearest
from planner.inputs.numbers import NOT_NEGATIVE, TOKENS, number, whole
from planner.inputs.trace_columns import Request

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

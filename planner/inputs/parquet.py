"""Columns of a trace in Parquet, read by pyarrow where it is there: no more rows or values than are told."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from planner.errors import InputError
from planner.reading.documents import kind_of

NEEDED = ("arrival_s", "prompt_tokens", "output_tokens")
BLOCKS = "prefix_blocks"


def read_columns(raw: bytes, name: str, most_rows: int, most_values: int) -> dict[str, list[Any]]:
    """`NEEDED` and, where it is there, `BLOCKS`, as plain values. Raises InputError."""
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        hint = "pip install pyarrow, or give the trace as JSONL or CSV"
        raise InputError(f"`{name}` is Parquet, and pyarrow is not installed", name, hint) from None
    try:
        told = parquet.read_metadata(arrow.BufferReader(raw))
        if told.num_rows > most_rows:
            raise InputError(f"`{name}` holds more than {most_rows:,} requests", name)
        if _values(told) > most_values:
            raise InputError(f"a column of `{name}` holds more than {most_values:,} values", name)
        had = list(parquet.read_schema(arrow.BufferReader(raw)).names)
        for column in NEEDED:
            if column not in had:
                raise InputError(f"column `{column}` is missing", name, f"it has {', '.join(had)[:200]}")
        table = parquet.read_table(
            arrow.BufferReader(raw), columns=[c for c in (*NEEDED, BLOCKS) if c in had]
        )
        return {column: [_plain(x) for x in table[column].to_pylist()] for column in table.column_names}
    except (arrow.ArrowException, OSError, ValueError) as error:  # damaged texts among them
        raise InputError(f"cannot read `{name}`: {str(error)[:100]}", name) from None


def _values(told: Any) -> int:
    """Of the longest column of a row group, those in lists each by itself: few bytes may stand for many."""
    groups = (told.row_group(i) for i in range(told.num_row_groups))
    return max((g.column(k).num_values for g in groups for k in range(g.num_columns)), default=0)


def _plain(value: Any) -> Any:
    """A decimal as a number; all else as it is."""
    return float(value) if isinstance(value, Decimal) else value


def block_ids(value: Any, where: str) -> Sequence[int]:
    """The ids of a prompt's blocks; none where there is nothing. Raises InputError."""
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(x, int) and not isinstance(x, bool) for x in value):
        return value
    raise InputError(f"`{BLOCKS}` must be whole numbers in a list, got {kind_of(value)}", where)

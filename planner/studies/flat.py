"""Rows of a sweep as flat tables, CSV and Parquet, for spreadsheets and data frames; curves as tables, and as
documents have them.

Columns are paths in the JSON row (`cell.isl`, `predicted.rps.value`); lists of texts are joined by "; ".
docs/sweep.md says what they mean.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from planner.errors import InputError
from planner.reading.cells import harmless
from planner.reports.words import short
from planner.studies.journal import Row
from planner.studies.pareto import Curve, Point

ORDER = (
    "cell.",
    "exit_code",
    "status",
    "objective",
    "gap",
    "predicted.",
    "replicas",
    "error.",
    "key",
    "question",
)
"""Starts of the names of columns: options first, then answers, what went wrong, what only programs need."""


def writer(output: Path) -> Callable[[Sequence[Row], TextIO], None] | None:
    """What writes rows to a file called `output`, by its ending; None where it takes JSON lines.

    Raises InputError where it cannot: no pyarrow, or a file of another kind that would be written over.
    """
    ending = output.suffix.lower()
    if ending not in (".csv", ".parquet"):
        return None
    if ending == ".parquet" and find_spec("pyarrow") is None:
        hint = "install it with `pip install pyarrow`, or write CSV: -o results.csv"
        raise InputError("Parquet needs the package pyarrow, which is not installed", "-o/--output", hint)
    begins = b"PAR1" if ending == ".parquet" else b"cell."
    if output.is_file() and output.read_bytes()[: len(begins)] not in (begins, b""):
        hint = "it would be written over: choose another file with -o"
        raise InputError("not a result of a sweep", str(output), hint)
    return as_parquet if ending == ".parquet" else as_csv


def as_csv(rows: Sequence[Row], file: TextIO) -> None:
    """Write `rows` as CSV with a header; what a row lacks is empty."""
    table = columns(rows)
    out = csv.writer(file, lineterminator="\n")
    out.writerow(map(harmless, table))
    out.writerows([*map(harmless, row)] for row in zip(*table.values(), strict=True))


def as_parquet(rows: Sequence[Row], file: TextIO) -> None:
    """Write `rows` as Parquet; a column of texts and numbers ("none" among limits) is one of texts."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

    table = columns(rows)
    for name, values in table.items():
        if any(isinstance(x, str) for x in values):
            table[name] = [None if x is None else str(x) for x in values]
    pyarrow.parquet.write_table(pyarrow.table(table), file.buffer)


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Columns of all `rows` by name, None where a row lacks one.

    >>> rows = [{"key": "a", "cell": {"isl": 8}, "gap": 0.0}, {"key": "b", "cell": {"osl": 2}, "gap": None}]
    >>> columns(rows)
    {'cell.isl': [8, None], 'cell.osl': [None, 2], 'gap': [0.0, None], 'key': ['a', 'b']}
    """
    flat = [dict(leaves("", row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    order = sorted(names, key=_place)
    return {name: [row.get(name) for row in flat] for name in order}


def leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values in a tree of dicts by their dotted paths. An empty branch has no leaf.

    >>> dict(leaves("", {"cell": {"isl": 8}, "replicas": ["1x a", "2x b"], "error": None}))
    {'cell.isl': 8, 'replicas': '1x a; 2x b'}
    """
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(f"{path}.{key}" if path else key, below)
    elif isinstance(value, list):
        yield path, "; ".join(map(str, value))
    elif value is not None or path not in ("error", "predicted"):
        yield path, value


def _place(name: str) -> int:
    return next(i for i, start in enumerate(ORDER) if name.startswith(start))


def curve_json(of: Curve, points: Sequence[Point]) -> dict[str, Any]:
    """The curve as documents have it, each point with its whole plan."""
    axes = {
        name: {"what": axis.what, "unit": axis.unit, "more_is_better": axis.more}
        for name, axis in (("x", of.x), ("y", of.y))
    }
    rows = [
        {
            **{name: float(f"{getattr(p, name):.9g}") for name in ("x", "y", "limit", "bound", "gap")},
            "plan": p.plan.model_dump(mode="json", by_alias=True),
        }
        for p in points
    ]
    return {"curve": of.name, **axes, "points": rows}


def curve_rows(of: Curve, points: Sequence[Point]) -> list[list[object]]:
    """The curve as a table, its header first: a row a point, with what runs and what it costs."""
    head: list[object] = [
        f"{of.x.what} [{of.x.unit}]",
        f"{of.y.what} [{of.y.unit}]",
        "limit",
        "bound",
        "ttft_ms",
        "tpot_ms",
        "usd_per_hour",
        "watts",
        "replicas",
    ]
    table: list[list[object]] = [head]
    for p in points:
        told = p.plan.predicted
        usd = told.usd_per_hour.value if told.usd_per_hour else ""
        figures = (p.x, p.y, p.limit, p.bound, told.ttft_ms.value, told.tpot_ms.value, usd, told.watts.value)
        shown = [float(f"{v:.6g}") if isinstance(v, float) else v for v in figures]
        table.append([*shown, "; ".join(short(r) for r in p.plan.replicas)])
    return table

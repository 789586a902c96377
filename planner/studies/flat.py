"""Rows of a sweep as flat tables, CSV and Parquet, for spreadsheets and data frames, and as a table for a
reader; curves as tables, and as documents have them.

Columns are paths in the JSON row (`cell.isl`, `predicted.rps.value`); lists of texts are joined by "; ".
docs/sweep.md says what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from rich import box
from rich.console import Console
from rich.table import Table

from planner.errors import InputError
from planner.reading import cells as text
from planner.reports import words as say
from planner.reports.words import short
from planner.studies.curves import Curve, Point
from planner.studies.journal import Row

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


def writer(output: Path) -> Callable[[Sequence[Row], BinaryIO], None] | None:
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


def as_csv(rows: Sequence[Row], file: BinaryIO) -> None:
    """Write `rows` as CSV with a header; what a row lacks is empty."""
    table = columns(rows)
    file.write(text.as_csv([list(table), *zip(*table.values(), strict=True)]).encode())


def as_parquet(rows: Sequence[Row], file: BinaryIO) -> None:
    """Write `rows` as Parquet; a column of texts and numbers ("none" among limits) is one of texts."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

    table = columns(rows)
    for name, values in table.items():
        if any(isinstance(x, str) for x in values):
            table[name] = [None if x is None else str(x) for x in values]
    pyarrow.parquet.write_table(pyarrow.table(table), file)


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


FIGURES = {"req/s": "rps", "tok/s": "out_tok_per_s", "TTFT ms": "ttft_ms", "TPOT ms": "tpot_ms"}
"""Titles of columns, and the figures of `predicted` that stand in them."""
WIDE = 120
"""Columns of a terminal from which on the replicas have a column."""
NAME = 26
"""Characters of an option that are not broken: the longest name of a shipped model has 25."""


def render(rows: Sequence[Row], console: Console) -> None:
    """The table; under it, why cells have no plan, each reason once."""
    console.print(table(rows, console.width))
    reasons, names = dict[str, list[str]](), varied(rows)
    for row in rows:
        if row["error"] is not None:
            cell = " ".join(_option(row, name) for name in names)
            reasons.setdefault(row["error"]["message"], []).append(cell)
    for reason, cells in reasons.items():
        console.print(f"no plan for {', '.join(cells)}: {reason}", markup=False, soft_wrap=True)


def table(rows: Sequence[Row], width: int) -> Table:
    """One line a cell: options, figures, and the replicas where `width` columns have room for them."""
    names, wide = varied(rows), width >= WIDE
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        made.add_column(name, overflow="fold", no_wrap=all(len(_option(row, name)) <= NAME for row in rows))
    for title in (*FIGURES, "$/h"):
        made.add_column(title, justify="right", no_wrap=True)
    if wide:
        made.add_column("replicas", overflow="fold")
    for row in rows:
        last = ["; ".join(row["replicas"])] if wide else []
        made.add_row(*(_option(row, name) for name in names), *_figures(row), *last)
    return made


def varied(rows: Sequence[Row]) -> list[str]:
    """Options that are not the same in all cells; of a single cell, its model.

    >>> varied([{"cell": {"model": "a", "isl": 8}}, {"cell": {"model": "a", "isl": 9}}])
    ['isl']
    """
    names = dict.fromkeys(name for row in rows for name in row["cell"])
    different = [n for n in names if len({repr(row["cell"].get(n)) for row in rows}) > 1]
    return different or ["model"]


def _option(row: Row, name: str) -> str:
    value = row["cell"].get(name)
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def _figures(row: Row) -> list[str]:
    predicted = row["predicted"]
    if predicted is None:
        return ["-"] * (len(FIGURES) + 1)
    usd = predicted["usd_per_hour"]
    values = [say.number(predicted[field]["value"]) for field in FIGURES.values()]
    return [*values, "-" if usd is None else f"{usd['value']:,.2f}"]

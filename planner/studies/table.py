"""The cells of a sweep as a table for a reader: the options that differ, and main figures of each plan."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from planner.reports import words as say
from planner.studies.journal import Row

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

"""The cells of a sweep as a table for a reader: the options that differ, and main figures of each plan."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from planner.reports import words as say
from planner.studies.journal import Row

FIGURES = {"req/s": "rps", "tok/s": "out_tok_per_s", "TTFT ms": "ttft_ms", "TPOT ms": "tpot_ms"}
"""Titles of columns, and the figures of `predicted` that stand in them."""
NAME = 26
"""Characters of an option that are not broken: the longest name of a shipped model has 25."""


def table(rows: Sequence[Row]) -> Table:
    """One line a cell; a cell without a plan says why instead of its figures."""
    names = varied(rows)
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        made.add_column(name, overflow="fold", no_wrap=all(len(_option(row, name)) <= NAME for row in rows))
    for title in (*FIGURES, "$/h"):
        made.add_column(title, justify="right", no_wrap=True)
    made.add_column("replicas", overflow="fold")
    for row in rows:
        made.add_row(*(_option(row, name) for name in names), *_figures(row), _last(row))
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


def _last(row: Row) -> str:
    """The replicas; behind them the gap where time ran out before it was closed."""
    if row["error"] is not None:
        where = f", at {row['error']['where']}" if row["error"]["where"] else ""
        return f"{row['error']['message']}{where}"
    late = f" (time limit: gap {say.percent(row['gap'])})" if row["exit_code"] else ""
    return "; ".join(row["replicas"]) + late

"""Our own CSV: the columns of `predict`, with `measured_ttft_ms` and `measured_tpot_ms` (contracts.md,
Tables)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from planner.calibration.runs import COLUMNS, Measurement
from planner.errors import InputError
from planner.inputs.numbers import POSITIVE
from planner.inputs.tables import Row, Table, read_csv

MEASURED = ("measured_ttft_ms", "measured_tpot_ms")
KNOWN = (*COLUMNS, *MEASURED)
ALIKE = 0.8
"""difflib's ratio from which a column is a known one misspelt; a user's others are kept apart."""


def matches(text: str) -> bool:
    """Whether the first line names columns of ours."""
    names = _header(text)
    return len(names & set(KNOWN)) >= 2 or any(name.startswith("measured_t") for name in names)


def read(path: Path, text: str, given: Mapping[str, str]) -> list[tuple[str, Measurement | InputError]]:
    """Every line with its place: what it measured, or what is wrong with it. A cell wins over an option.

    Raises InputError: a column that is missing, twice or misspelt.
    """
    needed = [name for name in MEASURED if name in _header(text)] or MEASURED[1:]
    table = read_csv(path, needed)
    _check_spelling(table)
    found: list[tuple[str, Measurement | InputError]] = []
    for row in table.rows:
        where = f"{row.path}:{row.line}"
        try:
            found.append((where, _measurement(row, where, given)))
        except InputError as error:
            found.append((where, error))
    return found


def _measurement(row: Row, where: str, given: Mapping[str, str]) -> Measurement:
    if row.problem:
        raise InputError(row.problem)
    own = {name: text for name, text in row.cells.items() if name in COLUMNS and text}
    ttft, tpot = (row.optional(name, POSITIVE) for name in MEASURED)
    return Measurement({**given, **own}, ttft, tpot, where)


def _header(text: str) -> set[str]:
    first = text.lstrip("\ufeff").lstrip().partition("\n")[0]
    return {name.strip(' "\r').lower() for name in re.split(r"[,;\t|]", first)}


def _check_spelling(table: Table) -> None:
    for column in set(table.columns) - set(KNOWN):
        close = get_close_matches(column.lower(), set(KNOWN) - set(table.columns), 1, ALIKE)
        if close:
            where, hint = f"{table.path}:1", f"did you mean `{close[0]}`?"
            raise InputError(f"unknown column `{column}`", where, hint)

"""CSV tables: rows with their line numbers, columns checked by name, cells read as numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from planner.errors import InputError
from planner.inputs.numbers import COUNT, NOT_NEGATIVE, Range, number, whole
from planner.reading.documents import decoded, read_bytes

MAX_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Row:
    """One line: `cells` by column, blanks stripped; `problem`: why the line does not fit its header."""

    path: str
    line: int
    cells: dict[str, str]
    problem: str | None = None

    def where(self, column: str) -> str:
        """ "table.csv:3, column isl_min" """
        return f"{self.path}:{self.line}, column {column}"

    def text(self, column: str) -> str:
        """A cell that must not be blank."""
        value = self.cells.get(column, "")
        if not value:
            raise InputError(f"`{column}` is blank", self.where(column))
        return value

    def whole(self, column: str, allowed: Range = COUNT) -> int:
        """A cell that must be a whole number."""
        return whole(self.text(column), column, self.where(column), allowed)

    def number(self, column: str, allowed: Range = NOT_NEGATIVE) -> float:
        """A cell that must be a number."""
        return number(self.text(column), column, self.where(column), allowed)

    def optional(self, column: str, allowed: Range = NOT_NEGATIVE) -> float | None:
        """A number, or None where the cell is blank or the column missing."""
        return self.number(column, allowed) if self.cells.get(column) else None


@dataclass(frozen=True)
class Table:
    """A CSV file: columns in its own order, rows in its own order (blank lines left out)."""

    path: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_csv(
    path: str | Path, required: Sequence[str], optional: Collection[str] = (), others: bool = True
) -> Table:
    """Reads a table. A line longer or shorter than the header is the row's own `problem`.

    Raises InputError: no such file, binary, empty, a column missing, twice, or (unless `others`) unknown.
    """
    return parse_csv(decoded(read_bytes(path, MAX_BYTES), str(path)), str(path), required, optional, others)


def parse_csv(
    text: str, name: str, required: Sequence[str], optional: Collection[str] = (), others: bool = True
) -> Table:
    """Like `read_csv`, of a text already in hand that errors call `name`."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = tuple(cell.strip() for cell in next(reader, []))
        _check_columns(name, columns, required, optional, others)
        rows = [
            row_of(name, reader.line_num, columns, cells) for cells in reader if any(c.strip() for c in cells)
        ]
    except csv.Error as error:
        raise InputError(f"not a valid CSV line: {error}", f"{name}:{reader.line_num}") from None
    return Table(name, columns, tuple(rows))


def row_of(path: str, line: int, columns: Sequence[str], cells: Sequence[str]) -> Row:
    """A line's cells by column; its problem where it is longer or shorter than the header."""
    problem = None
    if len(cells) != len(columns):
        problem = f"the line has {len(cells)} cells, the header {len(columns)}"
    return Row(
        path, line, {column: cell.strip() for column, cell in zip(columns, cells, strict=False)}, problem
    )


def _check_columns(
    path: str, columns: tuple[str, ...], required: Sequence[str], optional: Collection[str], others: bool
) -> None:
    where = f"{path}:1"
    for column in columns:
        if columns.count(column) > 1:
            raise InputError(f"column `{column}` is given twice", where)
    known = [*required, *optional]
    unknown = [c for c in columns if c not in known]
    for column in required:
        if column not in columns:
            raise InputError(f"column `{column}` is missing", where, _missing_hint(column, columns, unknown))
    if unknown and not others:
        close = get_close_matches(unknown[0], known, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"columns: {', '.join(known)}"
        raise InputError(f"unknown column `{unknown[0]}`", where, hint)


def _missing_hint(column: str, columns: tuple[str, ...], unknown: list[str]) -> str:
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
        return "part the columns with commas"
    close = get_close_matches(column, unknown, 1)
    return f"rename column `{close[0]}`?" if close else "the first line must name the columns"

"""Cells of the CSV that we write: no spreadsheet may run one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

STARTS = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a text for a formula (OWASP, CSV Injection)."""


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """A table, its header first, as the text of a CSV file.

    >>> as_csv([["name", "rps"], ["=a", 1.5]])
    "name,rps\\n'=a,1.5\\n"
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(harmless, row) for row in rows)
    return stream.getvalue()


def harmless(cell: object) -> object:
    """A cell as it is, or behind an apostrophe where it is a text that a spreadsheet would compute.

    >>> [harmless(cell) for cell in ("=1+2", "@SUM(A1)", "-0.5", -0.5, "2x tp4", None)]
    ["'=1+2", "'@SUM(A1)", '-0.5', -0.5, '2x tp4', None]
    """
    if not isinstance(cell, str) or not cell.startswith(STARTS):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell

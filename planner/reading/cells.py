"""Cells of the CSV that we write: no spreadsheet may run one."""

from __future__ import annotations

STARTS = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a text for a formula (OWASP, CSV Injection)."""


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

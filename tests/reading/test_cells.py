"""Cells of the CSV that is written: read back as they were, and none that a spreadsheet would run."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reading.cells import STARTS, as_csv, harmless


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("-1.5e3", "-1.5e3"),
        ("+2", "+2"),
        ("-inf", "-inf"),
        ("a=1", "a=1"),
        ("", ""),
        (-1, -1),
        (None, None),
    ],
)
def test_a_text_that_a_spreadsheet_would_compute_stands_behind_an_apostrophe(cell: object, written: object):
    assert harmless(cell) == written


CELLS = st.one_of(st.text("a=+-@,\"'\n 1", max_size=6), st.integers(-5, 5))


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=4))
def test_a_table_is_read_back_cell_by_cell(rows: list[list[object]]):
    back = list(csv.reader(io.StringIO(as_csv(rows), newline=""), strict=True))

    assert back == [[str(harmless(cell)) for cell in row] for row in rows]
    for cell in (cell for row in back for cell in row if cell.startswith(STARTS)):
        float(cell)  # a number, and nothing else, may begin so

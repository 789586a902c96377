"""CSV tables: rows with their lines, columns by name, cells as numbers; all that is wrong has its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.inputs.numbers import Range
from planner.inputs.tables import Row, parse_csv, read_csv


def test_rows_have_their_lines_though_lines_are_blank_and_cells_are_several_long():
    table = parse_csv('a, b\n1 , 2\n\n ,\n"x\ny",4\n5,6\n', "t.csv", ["a", "b"])

    assert table.columns == ("a", "b")
    assert [(row.line, row.cells) for row in table.rows] == [
        (2, {"a": "1", "b": "2"}),
        (6, {"a": "x\ny", "b": "4"}),
        (7, {"a": "5", "b": "6"}),
    ]


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.text("ab,\"; '", min_size=1), min_size=2, max_size=2), min_size=1, max_size=5),
)
def test_what_is_written_as_csv_is_read_as_it_was_but_for_blanks(rows: list[list[str]]):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    table = parse_csv("\n".join(["x,y", *quoted]), "t.csv", ["x"])
    kept = [row for row in rows if any(cell.strip() for cell in row)]

    assert [[row.cells["x"], row.cells["y"]] for row in table.rows] == [
        [cell.strip() for cell in row] for row in kept
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1,2,3", "the line has 3 cells, the header 2"),
        ("1", "the line has 1 cells, the header 2"),
        ("1,2", None),
    ],
)
def test_a_line_that_does_not_fit_its_header_is_the_row_s_own_problem(line: str, problem: str | None):
    assert parse_csv(f"a,b\n{line}\n", "t.csv", ["a"]).rows[0].problem == problem


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("isl,osl,isl\n", "column `isl` is given twice", None),
        ("isl,ols\n", "column `osl` is missing", "rename column `ols`?"),
        ("isl\n", "column `osl` is missing", "the first line must name the columns"),
        ("isl;osl\n", "column `isl` is missing", "part the columns with commas"),
        ("isl\tosl\n", "column `isl` is missing", "part the columns with commas"),
        ("", "column `isl` is missing", "the first line must name the columns"),
        ("isl,osl,prefx_id\n", "unknown column `prefx_id`", "did you mean `prefix_id`?"),
        ("isl,osl,zzz\n", "unknown column `zzz`", "columns: isl, osl, prefix_id"),
    ],
)
def test_columns_are_checked_by_name(text: str, message: str, hint: str | None):
    with pytest.raises(InputError) as caught:
        parse_csv(text, "t.csv", ["isl", "osl"], ["prefix_id"], others=False)

    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.where == "t.csv:1"


def test_other_columns_stay_where_they_are_allowed():
    assert parse_csv("isl,zzz\n1,2\n", "t.csv", ["isl"]).rows[0].cells == {"isl": "1", "zzz": "2"}


def test_a_quote_that_is_not_closed_is_refused_with_its_line():
    with pytest.raises(InputError, match="not a valid CSV line") as caught:
        parse_csv('a\n1\n"2\n', "t.csv", ["a"])
    assert caught.value.where == "t.csv:3"


ROW = Row("t.csv", 3, {"n": "4", "x": "0.5", "none": "", "word": "many"})


def test_cells_are_read_as_what_they_are_asked_for():
    assert ROW.whole("n") == 4
    assert ROW.number("x") == 0.5
    assert ROW.text("word") == "many"
    assert (ROW.optional("x"), ROW.optional("none"), ROW.optional("other")) == (0.5, None, None)


@pytest.mark.parametrize(
    ("read", "column", "said"),
    [
        (ROW.text, "none", "`none` is blank"),
        (ROW.text, "other", "`other` is blank"),
        (ROW.whole, "x", "`x` must be a whole number"),
        (ROW.number, "word", "`word` must be a number"),
        (ROW.optional, "word", "`word` must be a number"),
        (lambda column: ROW.number(column, Range(high=0.25)), "x", "`x` must be at most 0.25"),
        (lambda column: ROW.whole(column, Range(low=5, whole=True)), "n", "`n` must be at least 5"),
    ],
)
def test_a_cell_that_is_none_is_named_with_its_line_and_column(read, column: str, said: str):
    with pytest.raises(InputError) as caught:
        read(column)

    assert caught.value.message.startswith(said)
    assert caught.value.where == f"t.csv:3, column {column}"


def test_a_file_is_read_with_or_without_a_mark_of_its_bytes_and_refused_where_it_is_none(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")

    assert read_csv(path, ["a", "b"]).rows[0] == Row(str(path), 2, {"a": "1", "b": "2"})
    with pytest.raises(InputError):
        read_csv(tmp_path / "absent.csv", ["a"])
    path.write_bytes(b"a,b\n\x00\xff\xfe\n")
    with pytest.raises(InputError):
        read_csv(path, ["a"])

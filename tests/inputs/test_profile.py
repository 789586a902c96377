"""CSV tables in general, and the profile table in particular: read by name, refused by line and column."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.inputs.profile import ProfileRow, read_profile
from planner.inputs.tables import read_csv

HEADER = "design,device,gpus,role,isl_min,isl_max,osl_min,osl_max,max_rps"
ROW = "a,h100-sxm,8,mixed,1,2048,1,256,12.5"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


def refused(table: Path, text: str | bytes) -> InputError:
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_profile(table)
    return caught.value


def test_a_profile_reads_row_by_row(table: Path):
    table.write_text(f"{HEADER},price_usd_per_hour,watts\n{ROW},19.2,\n\nb,l4,1,decode,1,10,1,10,0,,70\n")

    assert read_profile(table) == [
        ProfileRow(2, "a", "h100-sxm", 8, "mixed", 1, 2048, 1, 256, 12.5, 19.2, None),
        ProfileRow(4, "b", "l4", 1, "decode", 1, 10, 1, 10, 0.0, None, 70.0),
    ]


def test_a_row_covers_both_ends_of_its_ranges(table: Path):
    table.write_text(f"{HEADER}\n{ROW}\n")
    (row,) = read_profile(table)

    assert row.covers(1, 1)
    assert row.covers(2048, 256)
    assert not row.covers(2049, 256)
    assert not row.covers(1, 257)


def test_columns_stand_in_any_order_with_blanks_and_a_byte_order_mark(table: Path):
    columns, cells = HEADER.split(","), ROW.split(",")
    table.write_bytes(f"\ufeff{' , '.join(reversed(columns))}\r\n{' ,'.join(reversed(cells))}\r\n".encode())

    assert read_profile(table)[0].max_rps == 12.5


@pytest.mark.parametrize(
    ("old", "new", "message", "where"),
    [
        ("8,mixed", "0,mixed", "`gpus` must be at least 1", "2, column gpus"),
        ("8,mixed", "x,mixed", '`gpus` must be a number, got text "x"', "2, column gpus"),
        ("8,mixed", "1.5,mixed", "`gpus` must be a whole number", "2, column gpus"),
        ("8,mixed", ",mixed", "`gpus` is blank", "2, column gpus"),
        ("mixed", "mixd", "unknown role `mixd`", "2, column role"),
        ("1,2048", "4096,2048", "`isl_max` (2048) is below its minimum (4096)", "2, column isl_max"),
        ("12.5", "-1", "`max_rps` must be at least 0", "2, column max_rps"),
        ("12.5", "nan", "`max_rps` must be a finite number", "2, column max_rps"),
        (",12.5", "", "the line has 8 cells, the header 9", "2"),
        ("12.5", "12.5,7", "the line has 10 cells, the header 9", "2"),
        ("isl_min", "isl_mn", "column `isl_min` is missing", "1"),
        ("max_rps", "max_rps,watt", "unknown column `watt`", "1"),
        ("isl_min", "isl_max", "column `isl_max` is given twice", "1"),
        ("a,h100", '"a,h100', "not a valid CSV line", "2"),
    ],
)
def test_a_wrong_cell_is_told_by_line_and_column(table: Path, old: str, new: str, message: str, where: str):
    error = refused(table, f"{HEADER}\n{ROW}\n".replace(old, new, 1))

    assert message in error.message
    assert error.where == f"{table}:{where}"


def test_misspelt_columns_name_the_nearest(table: Path):
    assert "`isl_mn`" in (refused(table, HEADER.replace("isl_min", "isl_mn") + f"\n{ROW}\n").hint or "")
    assert "`watts`" in (refused(table, f"{HEADER},watt\n{ROW},7\n").hint or "")
    assert "commas" in (refused(table, f"{HEADER}\n{ROW}\n".replace(",", ";")).hint or "")


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), (b"\x00\x01", "is binary"), (b"caf\xe9\n", "not UTF-8"), (HEADER + "\n", "no rows")],
)
def test_files_that_are_no_table_are_refused(table: Path, content: str | bytes, message: str):
    assert message in refused(table, content).message


def test_a_design_is_one_replica_in_all_its_rows(table: Path):
    other = ROW.replace("1,2048", "2049,4096")

    assert (
        "has `gpus` 4 here and 8 on line 2"
        in refused(table, f"{HEADER}\n{ROW}\n{other.replace(',8,', ',4,')}\n").message
    )
    assert "has these lengths on line 2 already" in refused(table, f"{HEADER}\n{ROW}\n{ROW}\n").message


def test_other_columns_and_ragged_lines_are_kept_for_tables_that_allow_them(table: Path):
    table.write_text("model,note\nx,hello\ny\n")
    found = read_csv(table, ["model"], others=True)

    assert found.columns == ("model", "note")
    assert found.rows[0].cells == {"model": "x", "note": "hello"}
    assert [row.problem for row in found.rows] == [None, "the line has 1 cells, the header 2"]
    assert found.rows[1].line == 3


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.one_of(st.binary(max_size=40), st.text(alphabet='a,"\n8.-\r', max_size=40).map(str.encode)))
def test_any_bytes_are_a_profile_or_an_input_error(table: Path, body: bytes):
    table.write_bytes(f"{HEADER}\n".encode() + body)

    with suppress(InputError):
        assert read_profile(table)

"""`meshwright predict`: the table comes back whole, in order, with answers added."""

import csv

import pytest

from planner.cli.app import run
from planner.predict.predictions import ANSWERS

HEADER = "who,model,device,tp,isl,osl,concurrency,tpot_ms"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        f"{HEADER}\nann,llama-3.1-8b,h100,1,1024,256,8,old\nbob,llama-3.1-8b,h1OO,1,1024,256,8,\n"
        '"c, d",llama-3.1-8b,h100,2,,,,\n'
    )
    return path


def test_all_rows_come_back_and_bad_ones_say_why(table, tmp_path, capsys):
    out = tmp_path / "out.csv"

    assert run(["predict", str(table), "--out", str(out)]) == 2
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))

    assert [row["who"] for row in rows] == ["ann", "bob", "c, d"]
    assert list(rows[0])[: len(HEADER.split(",")) - 1] == HEADER.split(",")[:-1]
    assert list(rows[0])[-len(ANSWERS) :] == list(ANSWERS)
    assert float(rows[0]["tpot_ms"]) > 0
    assert float(rows[2]["tpot_ms"]) > 0
    assert rows[1]["tpot_ms"] == ""
    assert "unknown GPU" in rows[1]["note"]
    told = capsys.readouterr().err
    assert f"{table}:3: unknown GPU" in told
    assert len(told.splitlines()) == 1


def test_a_good_table_exits_0_and_says_nothing(table, tmp_path, capsys):
    table.write_text("model,device\nllama-3.1-8b,h100\n")

    assert run(["predict", str(table), "--out", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "model,model,device\n"])
def test_a_table_that_cannot_be_read_leaves_no_file(text, tmp_path):
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    path.write_text(text)

    assert run(["predict", str(path), "--out", str(out)]) == 2
    assert not out.exists()


def test_a_short_line_is_one_bad_row(table, tmp_path):
    table.write_text("model,device,tp\nllama-3.1-8b,h100\nllama-3.1-8b,h100,2\n")
    out = tmp_path / "out.csv"

    assert run(["predict", str(table), "--out", str(out)]) == 2
    with out.open(newline="") as file:
        notes = [row["note"] for row in csv.DictReader(file)]
    assert "2 cells" in notes[0]
    assert notes[1] == ""


def test_what_a_spreadsheet_would_compute_comes_back_as_a_text(tmp_path):
    """Own columns go through to a file that people open: their formulas must not."""
    table, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    table.write_text("model,device,=who\nllama-3.1-8b,h100,=HYPERLINK(1)\nllama-3.1-8b,h100,-2.5\n")

    assert run(["predict", str(table), "--out", str(out)]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["'=who"] for row in rows] == ["'=HYPERLINK(1)", "-2.5"]

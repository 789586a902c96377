"""`meshwright sweep`: rows in the file, progress on stderr, a table where asked; real plans in them."""

import csv
import io
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from planner.cli import app
from planner.cli.progress import Progress
from planner.studies import flat
from planner.studies.flat import FIGURES, render


def test_a_sweep_of_real_plans_with_a_cell_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(
        "base: {gpus: 1xL40S, engine: vllm}\nvary: {model: [llama-3.1-8b, llama-3.1-70b, no-such-model]}\n"
    )

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.jsonl"), "--jobs", "1"]) == 4

    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["exit_code"] for row in rows] == [0, 3, 2]
    assert rows[0]["predicted"]["out_tok_per_s"]["value"] > 0
    assert rows[0]["replicas"][0].startswith("1x 1×l40s tp1 mixed vllm bf16 b")
    assert rows[2]["error"]["code"] == "bad_input"
    assert out == ""
    assert "3 of 3 cells" in err
    assert "3 rows, 2 of them without a plan (1 infeasible, 1 bad input)" in err


def test_a_table_of_the_cells_with_csv_and_json_rows_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(
        "base: {gpus: 1xL40S, engine: vllm, ttft_ms: 900}\nvary: {model: [llama-3.1-8b, no-such-model]}\n"
    )
    words = ["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.csv"), "--table", "--jobs", "1"]

    assert app.run(words) == 4
    first = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    table = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert [line["cell.model"] for line in table] == ["llama-3.1-8b", "no-such-model"]
    assert float(table[0]["predicted.rps.low"]) == rows[0]["predicted"]["rps"]["low"]
    assert table[1]["error.message"] == rows[1]["error"]["message"]
    assert (table[1]["objective"], table[1]["exit_code"]) == ("", "2")
    assert "llama-3.1-8b" in first
    assert "no-such-model" in first
    assert "no plan for no-such-model: unknown model `no-such-model`" in first
    assert "ttft_ms" not in first  # the same in all cells

    assert app.run(words) == 4  # from what is done
    assert capsys.readouterr().out == first


@pytest.mark.parametrize("width", [80, 200])
def test_each_cell_has_one_line_at_any_width_and_replicas_where_there_is_room(width: int) -> None:
    predicted = {name: {"value": 12345.6} for name in (*FIGURES.values(), "usd_per_hour")}
    row = {"predicted": predicted, "error": None, "replicas": ["1x 1×l40s tp1 mixed vllm bf16 b73"]}
    rows = [row | {"cell": {"model": "llama-3.1-8b", "isl": isl}} for isl in (512, 1024)]
    console = Console(width=width, file=io.StringIO())

    render(rows, console)

    printed = [line for line in console.file.getvalue().splitlines() if line.strip()]
    assert len(printed) == 4
    assert ("1×l40s tp1" in printed[-1]) == (width == 200)


@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet"])
def test_a_table_of_another_kind_is_not_written_over(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "find_spec", lambda _: object())  # as if pyarrow were there
    (tmp_path / "s.yaml").write_text("base: {gpus: 1xL40S, model: llama-3.1-8b}\n")
    (tmp_path / name).write_text("isl,osl\n1,2\n")

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / name)]) == 2

    assert "not a result of a sweep" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "isl,osl\n1,2\n"
    assert not (tmp_path / "mine.jsonl").exists()


def test_parquet_without_pyarrow_is_refused_before_any_cell_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "find_spec", lambda _: None)
    (tmp_path / "s.yaml").write_text("base: {gpus: 1xL40S, model: llama-3.1-8b}\n")

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.parquet")]) == 2

    err = capsys.readouterr().err
    assert "pyarrow, which is not installed" in err
    assert "-o results.csv" in err
    assert not (tmp_path / "r.jsonl").exists()


def test_parquet_is_written_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for pyarrow, which a test run need not have."""
    stand_in = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    stand_in[0].table, stand_in[0].parquet = dict, stand_in[1]  # type: ignore[attr-defined]
    stand_in[1].write_table = lambda table, file: file.write(b"PAR1" + repr(table).encode())  # type: ignore[attr-defined]
    for module in stand_in:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(flat, "find_spec", lambda _: True)
    (tmp_path / "s.yaml").write_text("base: {gpus: 1xL40S, model: no-such-model}\n")

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.parquet"), "-j", "1"]) == 4
    assert b"'exit_code': [2]" in (tmp_path / "r.parquet").read_bytes()


def test_parquet_holds_the_same_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "s.yaml").write_text(
        "base: {gpus: 1xL40S, model: no-such-model}\nvary: {ttft_ms: [none, 900]}\n"
    )

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.parquet"), "-j", "1"]) == 4

    columns = parquet.read_table(tmp_path / "r.parquet").to_pydict()
    assert columns["cell.ttft_ms"] == ["none", "900.0"]
    assert columns["exit_code"] == [2, 2]


def test_a_sweep_that_is_no_sweep_is_refused_where_it_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text("base: {gpus: 1xL40S}\nvary:\n  modell: [a]\n")

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.jsonl")]) == 2
    err = capsys.readouterr().err
    assert "unknown field `modell`" in err
    assert "s.yaml:3:3" in err
    assert "did you mean `model`?" in err
    assert not (tmp_path / "r.jsonl").exists()


def test_progress_elsewhere_than_on_a_terminal_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress("cells") as progress:
        for done in range(101):
            progress(done, 100, 0)

    assert capsys.readouterr().err.splitlines()[0] == "0 of 100 cells"
    assert "\r" not in capsys.readouterr().err


REPO = Path(__file__).resolve().parents[2]


def test_the_commands_of_the_page_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second goes on from the first's rows. Those for a cluster run in tests/studies/test_clusters.py."""
    page = (REPO / "docs" / "sweep.md").read_text()
    (tmp_path / "docs").symlink_to(REPO / "docs")
    monkeypatch.chdir(tmp_path)
    commands = [line[2:] for line in page.splitlines() if line.startswith("$ meshwright")]
    alone = [command for command in commands if "--backend" not in command]
    assert len(alone) == 2

    for command in alone:
        assert app.run(shlex.split(command)[1:]) == 0, capsys.readouterr().err
        said = capsys.readouterr()

    assert "12 of 12 cells (12 found done)" in said.err
    assert "llama-3.1-8b" in said.out


def test_sweeps_with_a_cache_share_what_they_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(
        "base: {model: llama-3.1-8b, engine: vllm}\nvary: {gpus: [1xL40S, 1x l40s, 1xL4]}\n"
    )
    words = ["sweep", str(tmp_path / "s.yaml"), "--jobs", "1", "--cache", str(tmp_path / "cache"), "-o"]

    assert app.run([*words, str(tmp_path / "a.jsonl")]) == 0
    assert "3 of 3 cells (1 found done)" in capsys.readouterr().err
    assert app.run([*words, str(tmp_path / "b.jsonl")]) == 0
    assert "3 of 3 cells (3 found done)" in capsys.readouterr().err
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 2


def test_real_plans_have_the_same_bytes_with_one_process_and_with_two(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "base: {gpus: 1xL40S, engine: vllm}\n"
        "vary: {model: [llama-3.1-8b, qwen3-8b], isl: [500, 1000, 60000]}\n"
    )
    for jobs in "12":
        app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / f"{jobs}.jsonl"), "--jobs", jobs])

    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()

"""`meshwright sweep`: rows in the file, progress on stderr, nothing on stdout; and real plans in them."""

import json
from pathlib import Path

import pytest

from planner.cli import app
from planner.cli.progress import Progress


def test_a_sweep_of_real_plans_with_a_cell_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text(
        "base: {gpus: 1xL40S, engine: vllm}\nvary: {model: [llama-3.1-8b, llama-3.1-70b, no-such-model]}\n"
    )

    assert app.run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "r.jsonl"), "--jobs", "1"]) == 0

    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["exit_code"] for row in rows] == [0, 3, 2]
    assert rows[0]["predicted"]["out_tok_per_s"]["value"] > 0
    assert rows[0]["replicas"][0].startswith("1x 1×l40s tp1 mixed vllm bf16 b")
    assert rows[2]["error"]["code"] == "bad_input"
    assert out == ""
    assert "3 of 3 cells" in err
    assert "3 rows, 2 of them without a plan" in err


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

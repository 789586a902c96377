"""Sweeps: every cell once, in order, whatever fails and however often the process is killed."""

import io
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.studies import sweep
from planner.studies.flat import as_csv
from planner.studies.journal import Journal
from planner.studies.pools.local import Here
from planner.studies.questions import Planner, key
from tests.studies.fake import CELLS, FAKE, plan, pool, resolve

REPO = Path(__file__).resolve().parents[2]


def silent(*_: int) -> None: ...


def rows(path: Path) -> list[dict[str, Any]]:
    """All rows in `path` but a torn last one."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def test_rows_come_in_cell_order_with_failures_among_them(tmp_path: Path) -> None:
    cells = [*CELLS[6:10], {"gpus": "8xH100", "model": "bug", "isl": 1}]

    sweep.run(cells, tmp_path / "out.jsonl", FAKE, Here, silent)

    found = rows(tmp_path / "out.jsonl")
    assert [row["cell"] for row in found] == cells
    assert [row["exit_code"] for row in found] == [0, 0, 3, 3, 1]
    assert found[0]["objective"] == pytest.approx(1000 / 106)
    assert found[0]["status"] == "within_gap"
    assert found[0]["replicas"] == ["4x 2×h100-sxm tp2 mixed vllm bf16 b96"]
    assert found[2]["error"] == {
        "code": "infeasible", "message": "does not fit", "where": None, "hint": "take more GPUs"
    }  # fmt: skip
    assert "ZeroDivisionError: a bug" in found[4]["error"]["message"]


def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    one = sweep.run(CELLS, tmp_path / "one.jsonl", FAKE, Here, silent)
    two = sweep.run(CELLS, tmp_path / "two.jsonl", FAKE, pool(2), silent)

    assert one == two


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_sweep_killed_many_times_equals_an_undisturbed_one(tmp_path: Path, jobs: str) -> None:
    sweep.run(CELLS, tmp_path / "calm.jsonl", FAKE, Here, silent)
    out, log = tmp_path / "out.jsonl", tmp_path / "log"
    command = [sys.executable, "-m", "tests.studies.fake", str(out), str(log), jobs]
    chance, kills, settled = random.Random(7), 0, dict[str, int]()

    while not out.exists():
        process = subprocess.Popen(command, cwd=REPO)
        before = _done(out)
        while process.poll() is None and _done(out) < before + chance.randint(3, 12):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        planned = Counter(log.read_text().splitlines()) if log.exists() else Counter[str]()
        for row in rows(_part(out)) if _part(out).exists() else []:
            settled.setdefault(_name(row["cell"]), planned[_name(row["cell"])])
        if kills % 3 == 1 and (part := _part(out)).exists():  # a kill in the middle of a write
            part.write_bytes(part.read_bytes() + b'{"key": "half a li')

    assert kills >= 2
    assert out.read_bytes() == (tmp_path / "calm.jsonl").read_bytes()
    assert not _part(out).exists()
    planned = Counter(log.read_text().splitlines())
    assert {name: planned[name] for name in settled} == settled  # what was done was never planned again


def _name(cell: dict[str, Any]) -> str:
    return f"{cell['model']} {cell['isl']}"


def _part(out: Path) -> Path:
    return out.with_name(out.name + ".part")


def _done(out: Path) -> int:
    try:
        return _part(out).read_bytes().count(b"\n")
    except FileNotFoundError:  # not begun, or ended this instant
        return 0


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    calls: list[object] = []

    def counted(cell: dict[str, Any]) -> Any:
        calls.append(cell)
        return plan(**cell)

    counting = Planner(resolve, counted)
    sweep.run(CELLS[:4], tmp_path / "out.jsonl", counting, Here, silent)
    sweep.run(CELLS[2:6], tmp_path / "out.jsonl", counting, Here, silent)

    assert len(calls) == 6
    assert [row["cell"] for row in rows(tmp_path / "out.jsonl")] == CELLS[2:6]


def test_a_changed_file_makes_its_cells_new(tmp_path: Path) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text("nodes: [{device: h100-sxm}]")
    before = key({"cluster": str(cluster)})
    cluster.write_text("nodes: [{device: h200}]")

    assert key({"cluster": str(cluster)}) != before


def test_equal_cells_are_planned_once(tmp_path: Path) -> None:
    found = sweep.run([CELLS[0], CELLS[0]], tmp_path / "out.jsonl", FAKE, Here, silent)

    assert len(found) == len(rows(tmp_path / "out.jsonl")) == 2


def test_rows_of_an_earlier_form_are_planned_again(tmp_path: Path) -> None:
    now = sweep.run(CELLS[:2], tmp_path / "now.jsonl", FAKE, Here, silent)
    old = [{name: x for name, x in row.items() if name != "question"} | {"seconds": 1.5} for row in now]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(row) + "\n" for row in old))
    sweep.run(CELLS[:2], tmp_path / "old.jsonl", FAKE, Here, silent)

    assert (tmp_path / "old.jsonl").read_bytes() == (tmp_path / "now.jsonl").read_bytes()


@pytest.mark.parametrize("text", ["precious\n", f"{'[' * 100_000}\n", '{"key": 1, "cell": {}}\n'])
def test_a_file_that_is_no_result_of_a_sweep_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.txt").write_text(text)

    with pytest.raises(InputError, match="not a result of a sweep"):
        sweep.run(CELLS, tmp_path / "mine.txt", FAKE, Here, silent)

    assert (tmp_path / "mine.txt").read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("text", ["precious", "precious\n", '{"a": 1}', '{"key": "x", "c": 1}\n'])
def test_a_foreign_file_where_rows_would_be_kept_is_left_alone(tmp_path: Path, text: str) -> None:
    part = _part(tmp_path / "out.jsonl")
    part.write_text(text)

    with pytest.raises(InputError, match="not a result of a sweep"):
        sweep.run(CELLS, tmp_path / "out.jsonl", FAKE, Here, silent)

    assert part.read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == [part.name]


def test_a_torn_first_row_is_planned_again(tmp_path: Path) -> None:
    _part(tmp_path / "out.jsonl").write_text('{"key": "abc')
    sweep.run(CELLS[:2], tmp_path / "out.jsonl", FAKE, Here, silent)

    assert [row["cell"] for row in rows(tmp_path / "out.jsonl")] == CELLS[:2]


def test_links_that_were_planted_beside_the_results_are_not_followed(tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out.jsonl"
    victim.write_text("")
    _part(out).symlink_to(victim)
    (tmp_path / ".out.jsonl.whole").symlink_to(victim)

    with pytest.raises(InputError, match="cannot write"):
        sweep.run(CELLS[:2], out, FAKE, Here, silent)
    _part(out).unlink()
    sweep.run(CELLS[:2], out, FAKE, Here, silent)

    assert victim.read_text() == ""
    assert len(rows(out)) == 2


def test_results_that_are_a_link_are_written_through(tmp_path: Path) -> None:
    link, real = tmp_path / "link.jsonl", tmp_path / "real.jsonl"
    link.symlink_to(real)
    sweep.run(CELLS[:2], link, FAKE, Here, silent)

    assert link.is_symlink()
    assert len(rows(real)) == 2


@pytest.mark.parametrize("place", ["", "no/such/folder/out.jsonl"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path, place: str) -> None:
    def never(_: Any) -> Any:
        raise AssertionError

    with pytest.raises(InputError, match="cannot write"):
        sweep.run(CELLS, tmp_path / place, Planner(resolve, never), Here, silent)


def test_two_sweeps_do_not_write_to_the_same_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "out.jsonl"), pytest.raises(InputError, match="another sweep"):
        sweep.run(CELLS, tmp_path / "out.jsonl", FAKE, Here, silent)


def test_an_interrupted_plan_is_no_row(tmp_path: Path) -> None:
    def stopped(cell: dict[str, Any]) -> Any:
        found = plan(**cell)
        if cell["isl"] == 102:
            found = found.model_copy(
                update={"proof": found.proof.model_copy(update={"status": "interrupted"})}
            )
        return found

    with pytest.raises(KeyboardInterrupt):
        sweep.run(CELLS, tmp_path / "out.jsonl", Planner(resolve, stopped), Here, silent)

    assert _done(tmp_path / "out.jsonl") == 2


def test_names_that_a_spreadsheet_would_compute_are_texts_in_the_csv() -> None:
    file = io.BytesIO()
    as_csv([{"cell": {"model": "=1+2", "isl": -5}}], file)
    assert file.getvalue().decode().splitlines() == ["cell.model,cell.isl", "'=1+2,-5"]

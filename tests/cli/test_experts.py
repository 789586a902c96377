"""`meshwright experts`: what it prints, writes and exits with; its page's commands run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from planner.cli.app import run
from planner.reports import experts as heat
from tests.expert_maps.loads import drawn, saved

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "experts.md"


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return saved(tmp_path / "loads.npz", drawn(steps=2))


def test_it_prints_for_a_reader_and_writes_the_map(loads: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experts", loads, "--gpus", "4", "--slots", "5", "-o", "map.json"]) == 0
    told = capsys.readouterr()

    for words in ("3 layers of 16 experts on 4 GPUs, 5 slots each", "experts in order", "Drift", "Proof"):
        assert words in told.out
    assert told.err == ""
    assert json.loads(Path("map.json").read_text())["slots"] == [5, 5, 5, 5]


def test_json_is_the_map_and_nothing_else(loads: str, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["experts", loads, "--gpus", "4", "--slots", "5", "--json"]
    assert run([*args, "-o", "map.yaml", "--format", "trtllm"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["kind"] == "expert_map"
    assert found["proof"]["bound"] <= found["proof"]["objective"]
    assert found["drift"]["rows"][0][0] == "experts in order"
    assert Path("map.yaml").read_text().startswith("num_slots: 20\n")


def test_a_gap_not_proven_exits_4(loads: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes a token have a loose bound where tokens choose at random."""
    rng = np.random.default_rng(0)
    np.save("tokens.npy", np.array([[rng.permutation(16)[:4] for _ in range(40)] for _ in range(3)]))
    args = ["--gpus", "4", "--gpus-per-node", "1", "--objective", "combined", "--tokens", "tokens.npy"]

    assert run(["experts", loads, *args, "--gap", "0.001", "--time-limit", "3"]) == 4
    assert "not proven nearer" in capsys.readouterr().out


def test_bad_input_leaves_no_file_and_says_why_as_json(
    loads: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["experts", loads, "--gpus", "4", "--slots", "2", "-o", "map.json", "--json"]) == 2
    told = capsys.readouterr()

    assert json.loads(told.out)["error"]["where"] == "--slots"
    assert "hint: give at least 4 slots a GPU" in told.err
    assert not Path("map.json").exists()


def test_a_format_wants_a_file(loads: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experts", loads, "--gpus", "4", "--format", "sglang"]) == 2
    assert "hint: name it with -o FILE" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_fails_before_the_solve(
    loads: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.expert_maps.find.find", lambda asked: pytest.fail("it was solved"))

    assert run(["experts", loads, "--gpus", "4", "-o", "absent/map.json"]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(("layers", "gpus"), [(58, 32), (58, 64), (1, 1), (3, 256)])
def test_the_heat_map_fits(width: int, layers: int, gpus: int) -> None:
    values = np.linspace(0.5, 2.0, layers * gpus).reshape(layers, gpus)
    names = [str(layer) for layer in range(layers)]
    console = Console(width=width, record=True, no_color=True)
    with console.capture() as captured:
        console.print(heat.panels([("before", values), ("after", values)], names, width - 2))
    lines = [line.rstrip() for line in captured.get().splitlines()]

    assert max(map(len, lines)) <= width - 2
    assert len(lines) <= heat.MOST_ROWS + 4
    assert len([line for line in lines if re.match(r" *\d", line)]) == min(
        layers, -(-layers // -(-layers // 30))
    )


def test_the_pages_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(REPO / "docs")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 4

    for command in commands:
        program, *args = shlex.split(command)
        assert program == "meshwright"
        assert (command, run(args)) == (command, 0), capsys.readouterr().err

"""Files are whole or absent, nothing is left beside them, and nobody writes over what is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.cli.app import run
from planner.cli.output import say, visible, whole_file
from planner.errors import InputError
from planner.reading.new_files import beside, create


def test_a_file_is_written_whole_when_all_is_well(tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o600)
    with whole_file(path) as file:
        file.write("new")
        assert path.read_text() == "old"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(str(1 / (path.stat().st_size - 3)))
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["", "none/out", "x" * 300, "a\0b"])
def test_what_cannot_be_written_is_told_before_any_work(tmp_path: Path, name: str):
    with pytest.raises(InputError, match="cannot write"), whole_file(tmp_path / name):
        raise AssertionError("work was begun")


def test_what_a_killed_process_left_is_removed(tmp_path: Path):
    word = "0123456789abcdef"
    dead, own = (tmp_path / f".out.{pid}.{word}.part" for pid in (999999999, os.getpid()))
    foreign = tmp_path / ".out.999999999.part"
    for file in (dead, own, foreign):
        file.write_text("half")
    beside(tmp_path / "out")

    assert (dead.exists(), own.exists(), foreign.exists()) == (False, True, True)


def test_names_of_unfinished_files_cannot_be_foreseen_and_lead_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    assert beside(tmp_path / "out") != beside(tmp_path / "out")
    monkeypatch.setattr("planner.reading.new_files.secrets.token_hex", lambda _: "known")
    beside(tmp_path / "out").symlink_to(victim)

    with pytest.raises(FileExistsError):
        create(beside(tmp_path / "out"))
    with pytest.raises(InputError, match="file exists"), whole_file(tmp_path / "out") as file:
        file.write("theirs")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["-o", "c.yaml"], ["-o", "./c.yaml"], ["--output=c.yaml"]])
def test_a_file_that_is_read_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("nodes: [{device: l4}]\n")

    assert run(["plan", "c.yaml", "-m", "qwen3-8b", *words]) == 2
    assert "is read and written by one command" in capsys.readouterr().err
    assert Path("c.yaml").read_text() == "nodes: [{device: l4}]\n"


def test_control_characters_are_shown_and_do_not_act(capsys: pytest.CaptureFixture[str]):
    assert visible("\x1b[31mred\u202e\ud83d") == "\\x1b[31mred\\u202e\\ud83d"
    assert visible("good\rbad\r\n") == "good\\rbad\r\n"
    say("\x1b[31mred", "one\rtwo")
    assert capsys.readouterr().out == "\\x1b[31mred\none\\rtwo\n"
    assert run(["plan", "--gpus", "1xL4", "-m", "\x1b[31mred"]) == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["0", "40"])
def test_on_a_narrow_terminal_or_one_of_no_columns_no_figure_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
):
    monkeypatch.setenv("COLUMNS", columns)

    assert run(["plan", "--gpus", "2xA100-40", "-m", "qwen3-8b", "--rate", "1"]) == 0
    told = capsys.readouterr().out
    assert "…" not in told.replace("8 …", "")  # a range of sizes has three dots of its own
    assert "time per output token, mean" in told


def test_what_the_system_refuses_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("planner.cli.version.version", refuse)

    assert run(["--version"]) == 2
    assert "error: the system refused: no space left on device" in capsys.readouterr().err

"""The last plan, which commands take where no file is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import api
from planner.cli import app

ASKED = ["plan", "--gpus", "1xL4", "-m", "qwen3-0.6b", "--engine", "vllm"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "meshwright" / "last-plan.json"


def test_the_plan_that_was_made_last_is_checked_explained_and_exported(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(ASKED) == 0
    assert "of this plan, which is kept" in capsys.readouterr().out
    assert '"brief": true' in state.read_text()

    assert app.run(["check"]) == 0
    _, err = capsys.readouterr()
    assert str(state) in err
    assert app.run(["export", "--to", "vllm", "-o", str(tmp_path / "serve")]) == 0
    assert (tmp_path / "serve" / "README.md").exists()
    capsys.readouterr()
    assert app.run(["explain"]) == 0
    assert "Bottleneck" in capsys.readouterr().out


def test_explain_finds_what_the_first_screen_left_out(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app.run(ASKED)
    capsys.readouterr()
    app.run(["explain", "--json"])
    told = capsys.readouterr().out

    whole = api.plan(None, "qwen3-0.6b", gpus="1xL4", engine="vllm")
    assert whole.assumptions or whole.alternatives
    assert all(line.what.split(",")[0] in told for line in whole.assumptions)
    assert not whole.brief


def test_without_any_plan_commands_say_how_to_make_one(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["check"]) == 2
    assert "meshwright plan -o plan.json" in capsys.readouterr().err


def test_a_state_folder_that_takes_nothing_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    assert app.run(ASKED) == 0
    assert "-o plan.json" in capsys.readouterr().out


def test_a_plan_that_failed_leaves_the_last_one(state: Path) -> None:
    app.run(ASKED)
    before = state.read_text()

    assert app.run([*ASKED[:3], "-m", "llama-3.1-405b"]) != 0
    assert state.read_text() == before


def test_a_planted_link_is_replaced_not_followed(state: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    state.parent.mkdir(parents=True)
    state.symlink_to(victim)

    app.run(ASKED)

    assert victim.read_text() == "mine"
    assert not state.is_symlink()


def test_a_report_has_a_name_of_its_own_and_spares_what_it_did_not_write(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    app.run(ASKED)

    assert app.run(["report"]) == 0
    first = (tmp_path / "report.html").stat().st_mtime_ns
    assert app.run(["report"]) == 0
    assert (tmp_path / "report.html").stat().st_mtime_ns != first

    (tmp_path / "report.html").write_text("a page of somebody else's")
    assert app.run(["report"]) == 2
    assert "name another file with -o" in capsys.readouterr().err
    assert (tmp_path / "report.html").read_text() == "a page of somebody else's"


def test_an_export_goes_into_a_folder_of_the_targets_name(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app.run(ASKED)

    assert app.run(["export", "--to", "vllm"]) == 0
    assert (tmp_path / "vllm" / "README.md").exists()
    assert app.run(["export", "--to", "vllm"]) == 2, "the folder has files now"

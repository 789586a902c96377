"""Help in groups, and what a shell completes."""

from __future__ import annotations

import re

import pytest

from model_zoo import catalog
from planner.cli import app, complete
from planner.cli.help import GROUPS
from planner.inputs.presets import PRESETS


def sections(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The text of each section of a command's help."""
    assert app.run([command, "--help"]) == 0
    parts = re.split(r"^(\S.*):$", capsys.readouterr().out, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_option_of_plan_stands_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    told = sections("plan", capsys)

    assert "Options" not in told
    assert list(told)[1:] == [group for group in GROUPS if group in told]
    for group, text in list(told.items())[1:]:
        assert set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, flags=re.MULTILINE)) <= set(GROUPS[group])


def test_a_command_of_few_options_lists_them_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(sections("predict", capsys)) == ["Arguments", "Options"]


def test_the_help_of_workload_names_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(complete.PRESETS) == set(PRESETS)
    assert all(name in sections("plan", capsys)["Load"] for name in PRESETS)


def test_models_are_completed_from_the_catalog() -> None:
    offered = list(complete.models("Llama-3.1"))

    assert "llama-3.1-70b" in offered
    assert all(catalog.find(name)[0].name == name for name in offered)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("8xh100-s", ["8xh100-sxm"]),
        ("8xH100,16xl40", ["8xH100,16xl40", "8xH100,16xl40s"]),
        ("16", "16xh100-sxm"),
        ("h200-sx", ["8xh200-sxm"]),
    ],
)
def test_gpus_are_completed_behind_their_count(typed: str, offered: list[str] | str) -> None:
    found = list(complete.gpus(typed))

    assert offered in found if isinstance(offered, str) else found == offered


def test_files_are_completed_in_their_folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("a.yaml", "a.txt", "sub/b.yaml"):
        (tmp_path / name).write_text("")

    assert list(complete.clusters("")) == ["a.yaml", "sub/"]
    assert list(complete.clusters("sub/")) == ["sub/b.yaml"]
    assert list(complete.workloads("ra")) == ["rag"]


def test_a_shell_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As bash asks: the words typed so far, and which of them is being typed."""
    monkeypatch.setenv("_MESHWRIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "meshwright plan --gpus 8xH100 -m llama-3.1-405b-")
    monkeypatch.setenv("COMP_CWORD", "5")
    app.run([])

    assert capsys.readouterr().out.split() == ["llama-3.1-405b-awq-int4", "llama-3.1-405b-fp8"]

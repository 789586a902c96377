"""The README is true: its commands run, set-up is two commands, its sample looks like today's output."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from planner.cli import app

REPO = Path(__file__).resolve().parents[1]
DOCS = REPO / "docs"
README = (REPO / "README.md").read_text(encoding="utf-8")
STARTED = (DOCS / "getting-started.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """What stands behind `$ ` in the blocks of a page."""
    lines = (line for block in blocks("console", page) for line in block.splitlines())
    return [line[2:] for line in lines if line.startswith("$ ")]


def asking(command: str) -> str:
    """What a command asks, wherever it writes the answer."""
    return re.sub(r" -o \S+", "", command)


TESTED = ("buy", "experts", "offload", "several", "survive", "sweep")
PAGES = [(DOCS / f"{name}.md").read_text(encoding="utf-8") for name in TESTED]
RUN = {asking(command) for page in PAGES for command in commands(page)}
"""Commands of pages whose own tests run them, and look at what they print."""


def after(marker: str) -> str:
    """The code block after `<!-- marker -->`."""
    found = re.search(rf"<!-- {marker} -->\n```\w+\n(.*?)```", README, flags=re.DOTALL)
    assert found
    return found.group(1)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that has the repository's files, where commands may write."""
    for name in ("docs", "cluster_configs"):
        (tmp_path / name).symlink_to(REPO / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [README, STARTED], ids=["README", "getting-started"])
def test_every_command_runs(page: str, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = commands(page)
    assert len(every) >= 8

    for command in (command for command in every if asking(command) not in RUN):
        program, *args = shlex.split(command)
        assert program == "meshwright"
        assert (command, app.run(args)) == (command, 0), capsys.readouterr().err
        assert capsys.readouterr().out or {"-o", "--out"} & set(args), f"{command} said nothing"


def test_every_python_example_runs(workspace: Path) -> None:
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})


def test_the_first_of_two_set_up_commands_plans_on_a_shipped_cluster_with_the_sections_of_the_sample(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = blocks("sh")
    program, *args = shlex.split(first.split("&&")[-1])

    assert second == after("test command")
    assert first == after("set-up command")
    assert program == ".venv/bin/meshwright"
    assert app.run(args) == 0
    real = capsys.readouterr().out

    def headings(text: str) -> list[str]:
        return [line.strip() for line in text.splitlines()[2:] if re.match(r"[A-Z][^:=]*$", line)]

    assert headings(after("sample")) == headings(real)


def test_ci_runs_the_test_command_word_for_word() -> None:
    script = (REPO / ".ci" / "run").read_text()
    extract = re.search(r"command=\$\((.*)\)", script)
    assert extract
    found = subprocess.run(
        ["sh", "-c", extract.group(1)], cwd=REPO, capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == after("test command").strip()
    assert os.access(REPO / ".ci" / "run", os.X_OK)
    assert os.access(REPO / "scripts" / "check", os.X_OK)


def test_every_local_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)

    assert [link for link in links if not (REPO / link).exists()] == []

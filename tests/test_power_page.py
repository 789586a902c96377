"""The page on power caps is true: its commands run, its cluster is the example's, its figures the code's."""

import re
import shlex
from pathlib import Path

import pytest

from planner.cli import app
from planner.cost.power import HELD_SHARE, LEAST_SHARE, SLOWED_ARITHMETIC, SLOWED_MEMORY
from planner.problems.feeds import SHARES

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs" / "power.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", re.findall(r"^\$ meshwright (.*)$", PAGE, flags=re.MULTILINE))
def test_the_commands_of_the_page_say_the_limits_of_gpus(command, monkeypatch, capsys):
    monkeypatch.chdir(REPO)

    assert app.run(shlex.split(command)) == 0
    assert "GPU limit" in capsys.readouterr().out


def test_the_cluster_of_the_page_is_the_examples():
    shown = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    kept = (REPO / "docs" / "examples" / "racks.yaml").read_text(encoding="utf-8")

    assert re.sub(r" *#.*", "", shown) in re.sub(r" *#.*", "", kept)


def test_the_figures_of_the_page_are_the_codes():
    a, b = (f"{x:.3f}" for x in (SLOWED_ARITHMETIC, SLOWED_MEMORY))
    shares = [f"{100 * share:g}" for share in SHARES]

    assert f"(x - {HELD_SHARE:g})" in PAGE
    assert f"a = {a} where arithmetic bounds it, {b} where memory does" in PAGE
    assert f"{', '.join(shares[:-1])} and {shares[-1]} %" in " ".join(PAGE.split())
    assert SHARES[-1] == LEAST_SHARE == 0.5

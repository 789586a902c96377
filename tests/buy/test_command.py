"""`meshwright buy` as people type it."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from planner.check import check
from planner.cli import app
from planner.plans.reading import read_plan
from planner.reports.bought import _proven

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "buy.md").read_text()
COMMANDS = re.findall(r"^\$ meshwright (.*)$", PAGE, flags=re.MULTILINE)
SMALL = ["buy", "--model", "llama-3.1-8b", "--engine", "vllm"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_say_what_to_have(command, monkeypatch, capsys):
    monkeypatch.chdir(REPO)

    assert app.run([*shlex.split(command), "--time-limit", "600"]) == 0
    assert "offers" in capsys.readouterr().out


@pytest.mark.parametrize("gap", [0.0, 0.02])
def test_one_offer_is_one(gap):
    assert _proven(SimpleNamespace(gap=gap, offers=1, in_time=True)).endswith(" of 1 offer")
    assert _proven(SimpleNamespace(gap=gap, offers=2, in_time=True)).endswith(" of 2 offers")


def test_the_list_of_the_page_is_one(tmp_path, capsys):
    listed = tmp_path / "offers.yaml"
    listed.write_text(re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)[0])

    assert app.run([*SMALL, "--budget", "2.5$/h", "--prices", str(listed)]) == 0
    assert "l40s" in capsys.readouterr().out


def test_the_document_has_the_fields_of_the_page_and_the_plan_passes_its_check(tmp_path, capsys):
    written = tmp_path / "plan.json"

    assert app.run([*SMALL, "--budget", "2.5$/h", "--json", "-o", str(written)]) == 0
    said = json.loads(capsys.readouterr().out)
    fields = re.findall(r"^\| (`.*?) \|", PAGE.split("## JSON")[1], flags=re.MULTILINE)

    assert list(said) == [name for line in fields for name in re.findall(r"`(\w+)`", line)]
    assert said["takes"] <= 2.5
    assert check(read_plan(written)) == []


@pytest.mark.parametrize(
    ("wrong", "code", "told"),
    [
        (["--budget", "50 euros"], 2, "50$/h"),
        (["--budget", "0.1$/h"], 3, "the cheapest that does takes $0.50/h"),
        (["--budget", "5$/h", "--prices", "rentd"], 2, "rented"),
        ([], 2, "--budget"),
    ],
)
def test_what_cannot_be_is_said_in_a_few_lines(wrong, code, told, capsys):
    assert app.run([*SMALL, *wrong]) == code
    assert told in capsys.readouterr().err

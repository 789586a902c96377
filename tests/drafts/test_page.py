"""The page on speculative decoding is true: its command runs and prints what it says."""

import re
import shlex
from pathlib import Path

from planner.cli import app
from planner.drafts.kinds import ACCEPTED, KINDS, LENGTHS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "speculation.md").read_text(encoding="utf-8")


def test_its_command_prints_what_it_says(capsys):
    (command,) = re.findall(r"^\$ meshwright (.*)$", PAGE, flags=re.MULTILINE)
    (said,) = re.findall(r"says `(.*?)`", PAGE)

    assert app.run([*shlex.split(command), "--details"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert said in printed
    assert "no speculative decoding" in printed


def test_its_table_has_every_kind_and_its_acceptance():
    table = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in PAGE.splitlines() if "|" in row}

    for kind in KINDS:
        assert table[kind] == (str(ACCEPTED[kind]) if kind in ACCEPTED else "must be said")
    assert "without it " + " and ".join(map(str, LENGTHS)) in PAGE

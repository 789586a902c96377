"""What `diff` prints: the sum of it first, figures with their units, and what moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import app
from planner.plans.schema import Plan
from tests.check.plans import dense


def printed(before: Plan, after: Plan, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    for name, plan in (("a.json", before), ("b.json", after)):
        (folder / name).write_text(plan.model_dump_json(by_alias=True))
    assert app.run(["diff", str(folder / "a.json"), str(folder / "b.json"), *more]) == 0
    return capsys.readouterr().out


def dearer() -> Plan:
    data = json.loads(dense().model_dump_json(by_alias=True))
    data["predicted"]["usd_per_hour"] = {"value": 12.0, "low": 12.0, "high": 12.0}
    return Plan.model_validate(data)


def cheaper() -> Plan:
    data = json.loads(dearer().model_dump_json(by_alias=True))
    data["predicted"]["usd_per_hour"]["value"] = 9.0
    data["predicted"]["utilisation"]["value"] = 0.25
    return Plan.model_validate(data)


def test_the_first_line_says_what_changed_in_all_and_figures_have_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(dearer(), cheaper(), tmp_path, capsys).splitlines()

    assert lines[:2] == ["cost 25.0 % lower", ""]
    assert "predicted.usd_per_hour: 12 -> 9 USD/h (-25.0 %)" in lines
    assert any(line.startswith("predicted.utilisation: ") and line.endswith("-> 25 %") for line in lines)


def test_plans_that_are_the_same_have_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(dense(), dense(), tmp_path, capsys) == "no difference\n"


def test_json_has_the_summary_the_changes_with_units_and_the_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(printed(dearer(), cheaper(), tmp_path, capsys, "--json"))

    assert told["summary"] == "cost 25.0 % lower"
    assert told["moves"] == []
    change = next(c for c in told["changes"] if c["where"] == "predicted.usd_per_hour")
    assert change == {
        "where": "predicted.usd_per_hour", "before": 12.0, "after": 9.0, "unit": "USD/h", "ratio": -0.25
    }  # fmt: skip

"""`meshwright pareto`: what each point is asked with, exit codes, the forms of a curve's file."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.cli import pareto as command
from planner.cli.app import run
from planner.studies.curves import Point
from planner.studies.curves import curve as curve_of
from planner.studies.pareto import Found
from tests.reports.samples import MIXED, ONE_NODE

POINTS = [Point(20.0, 400.0, 25.0, 402.0, ONE_NODE), Point(40.0, 300.0, 40.0, 306.0, MIXED)]
"""Within 0.5 and 2 per cent of their bounds."""


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands for the planner and the study, which asks for one plan and answers with `points`."""
    fake = SimpleNamespace(points=POINTS, plans=[], told=[], undecided=0, interrupted=False)

    def plan(*args: Any, **options: Any) -> Any:
        fake.plans.append((args, options))
        return ONE_NODE

    def pareto(of: Any, solve: Any, most: int, tell: Any) -> Found:
        fake.of, fake.most = of.name, most
        solve(objective="throughput", tpot_ms=30.0, rate=None)
        tell(1)
        return Found(list(fake.points), fake.undecided, fake.interrupted)

    monkeypatch.setattr("planner.api.plan", plan)
    monkeypatch.setattr("planner.studies.pareto.pareto", pareto)
    return fake


def test_each_point_is_planned_with_the_question_and_what_the_curve_adds(study: SimpleNamespace) -> None:
    words = "--points 5 --isl 100 --ttft-ms 900 --percentile p95 --engine sglang --time-limit 9 --gap 0.05"
    assert run(["pareto", "c.yaml", "-m", "m", *words.split()]) == 0

    ((args, options),) = study.plans
    assert (args, study.of, study.most) == (("c.yaml", "m"), "speed", 5)
    assert options == {
        "workload": "chat", "isl": 100, "ttft_ms": "900", "percentile": "p95", "engine": "sglang",
        "gap": 0.05, "time_limit_s": 9.0, "seed": 0, "simple": 0.0, "explain": False,
        "objective": "throughput", "tpot_ms": 30.0,
    }  # fmt: skip


@pytest.mark.parametrize(("gap", "code"), [("0.01", 4), ("0.0199", 4), ("0.02", 0), ("0.3", 0)])
def test_the_worst_point_decides_whether_the_curve_is_proven(
    study: SimpleNamespace, gap: str, code: int
) -> None:
    assert run(["pareto", "--gpus", "8xH100", "-m", "m", "--gap", gap]) == code


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        ({"undecided": 1}, 4, "1 more limit left undecided"),
        ({"undecided": 2}, 4, "2 more limits left undecided"),
        ({"interrupted": True}, 130, "interrupted: there may be further points"),
    ],
)
def test_a_curve_that_was_stopped_is_told_and_that_it_was(
    study: SimpleNamespace, ended: dict[str, Any], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    vars(study).update(ended)
    assert run(["pareto", "--gpus", "8xH100", "-m", "m", "--gap", "0.3"]) == code

    told = capsys.readouterr()
    assert said in told.err
    assert "2 points" in told.out


@pytest.mark.parametrize("name", ["speed", "cost"])
def test_the_curves_file_is_a_table_or_has_all_plans(
    study: SimpleNamespace, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, document = tmp_path / "c.csv", tmp_path / "c.json"
    asked = ["pareto", "--gpus", "8xH100", "-m", "m", "--curve", name, "--gap", "0.02", "--rate", "4"]
    asked = asked if name == "cost" else asked[:-2]
    assert run([*asked, "-o", str(table)]) == 0
    told = capsys.readouterr()
    assert run([*asked, "--json", "-o", str(document)]) == 0

    rows = list(csv.reader(table.read_text().splitlines()))
    assert [" ".join(row[:4]) for row in rows[1:]] == ["20.0 400.0 25.0 402.0", "40.0 300.0 40.0 306.0"]
    assert rows[0][0].startswith(curve_of(name).x.what)
    assert [row[6] for row in rows[1:]] == ["", "84.4"]
    found = json.loads(document.read_text())
    assert found == json.loads(capsys.readouterr().out)
    assert [p["gap"] for p in found["points"]] == [0.005, 0.02]
    assert [p["plan"]["problem"]["workload"]["name"] for p in found["points"]] == ["chat", "mix"]
    assert f"written to {table}" in told.err
    assert "llama-3.1-70b on 8xH100" in told.out


@pytest.mark.parametrize("output", ["c.yaml", "c", "c.csv.gz", "c.CSV"])
def test_a_file_of_another_ending_is_refused_before_any_plan(
    study: SimpleNamespace, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pareto", "--gpus", "8xH100", "-m", "m", "-o", output]) == 2

    assert "let it end in .csv or .json" in capsys.readouterr().err
    assert study.plans == []


def test_the_text_of_a_file_follows_its_ending() -> None:
    of = curve_of("speed")

    assert json.loads(command._written(of, POINTS, "a.json"))["curve"] == "speed"
    assert command._written(of, POINTS, "a.csv").count("\n") == 3
    assert command._written(of, [], "a.csv").count("\n") == 1

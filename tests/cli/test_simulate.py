"""`meshwright simulate`: a plan's own load, a trace, trouble; exit codes; series; bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from planner import api
from planner.cli.app import run


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    found = api.plan(None, gpus="2xL4", model="qwen3-8b", rate=1.0, ttft_ms=5000, work_limit=50, risk=0.5)
    path.write_text(found.model_dump_json())
    return str(path)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.csv"
    path.write_text(
        "arrival_s,isl,osl\n" + "".join(f"{i * 0.8},{500 + i},{50 + i % 9}\n" for i in range(200))
    )
    return str(path)


def test_the_plans_own_load(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", plan, "--requests", "500"]) == 0
    out = capsys.readouterr().out
    assert "every limit was kept" in out
    assert "Poisson" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_a_trace_as_json_with_its_series(plan: str, trace: str, tmp_path: Path, capsys) -> None:
    series = tmp_path / "s.csv"
    assert run(["simulate", plan, "--trace", trace, "--json", "-o", str(series)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requests"], found["counted"]) == (200, 200)
    assert found["promises"]["ttft_ms"]["limit_ms"] == 5000
    rows = list(csv.DictReader(series.read_text().splitlines()))
    assert list(rows[0]) == ["time_s", "r1.waiting", "r1.running", "r1.kv"]
    assert len(rows) == len(found["series"]["time_s"]) > 100


def test_a_load_that_is_too_much_breaks_a_limit(plan: str, trace: str, capsys) -> None:
    assert run(["simulate", plan, "--trace", trace, "--rate", "60"]) == 4
    assert "TTFT BROKEN" in capsys.readouterr().out


def test_failures_and_stragglers(plan: str, trace: str, capsys) -> None:
    """Either makes it slower; words that name none are told so."""
    times = []
    for words in ([], ["--slow", "r1@3"]):
        run(["simulate", plan, "--trace", trace, "--json", *words])
        times.append(json.loads(capsys.readouterr().out)["tpot_ms"]["p95"])
    assert times[1] > times[0]
    for words in (["--fail", "r1"], ["--fail", "@3"], ["--slow", "r1@0.9"], ["--slow", "r1@x"]):
        assert run(["simulate", plan, *words]) == 2
        assert "as in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--requests", "2"], "from 3 to"),
        (["--rate", "-1"], "more than 0"),
        (["-o", "x.txt"], ".csv or .json"),
        (["--trace", "none.csv"], "no such file"),
        (["--fail", "r7@1"], "no group `r7`"),
    ],
)
def test_bad_input(plan: str, words: list[str], says: str, capsys) -> None:
    assert run(["simulate", plan, *words]) == 2
    assert says in capsys.readouterr().err


def test_a_trace_has_its_own_requests(plan: str, trace: str, capsys) -> None:
    assert run(["simulate", plan, "--trace", trace, "--requests", "10"]) == 2
    assert "leave one out" in capsys.readouterr().err


def test_more_than_it_serves_is_said_plainly(plan: str, capsys) -> None:
    assert run(["simulate", plan, "--rate", "60", "--requests", "4000"]) == 4
    out = capsys.readouterr().out
    assert "more come than it serves" in out
    assert "OVERLOADED: 6" in out
    assert "The plan, and what is predicted, is for 1.00 requests/s" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_percentiles_are_predicted_beside_those_achieved(plan: str, capsys) -> None:
    assert run(["simulate", plan, "--requests", "500"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("  predicted")]
    assert [row.count("ms") for row in rows] == [5, 5]


def test_what_a_trace_brings_is_noted(plan: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{20 - i if i == 7 else i},320,5,{i % 2}" for i in range(20)]
    path.write_text("arrival_s,isl,osl,prefix_id\n" + "\n".join([*rows, "30,900000,5,0"]) + "\n")
    assert run(["simulate", plan, "--trace", str(path), "--routing", "prefix-aware"]) == 0
    out = capsys.readouterr().out
    assert "of prompt tokens were found in the servers' caches" in out
    assert "stood after later ones (the first: 9)" in out
    assert "1 requests are longer than the model takes" in out
    assert run(["simulate", plan, "--routing", "prefix-aware"]) == 2
    assert "prefix_id" in capsys.readouterr().err

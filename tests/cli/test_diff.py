"""What `diff` prints: the sum of it first, figures with their units, and what moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import app
from planner.plans.schema import Plan
from planner.plans.schema.several import Demand, Several, Total
from tests.check.plans import dense
from tests.migration.plans import group, plan

Any = Plan | Several


def printed(before: Any, after: Any, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    for name, one in (("a.json", before), ("b.json", after)):
        (folder / name).write_text(one.model_dump_json(by_alias=True))
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
    assert told["migration"]["servers"] == {"kept": 6, "restarted": 0, "stopped": 0, "started": 0}
    change = next(c for c in told["changes"] if c["where"] == "predicted.usd_per_hour")
    assert change == {
        "where": "predicted.usd_per_hour", "before": 12.0, "after": 9.0, "unit": "USD/h", "ratio": -0.25
    }  # fmt: skip


ONE, TWO = plan(group("r1", ["h-0"])), plan(group("r1", ["h-0"]), group("r2", ["h-1"], 2))


def test_what_it_takes_is_told_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: 16.06 GB come over eight NICs of 50 GB/s, and once more over NVLink; a disk reads 2 GB/s."""
    lines = printed(ONE, TWO, tmp_path, capsys).splitlines()
    told = lines[lines.index("Migration: servers 1 untouched, 2 started") :]

    assert told[1].startswith("served meanwhile: 10.0 requests/s, 100 % of before")
    assert told[2] == (
        "to load: 32.1 GB: 16.1 GB over scale-up links, 16.1 GB over NICs; 16.1 GB lie where they are needed"
    )
    assert told[3] == "seconds to load at least: 0.040, by the NICs into h-1"
    assert told[4].endswith("its node's storage: 8.0, by the storage of h-1")
    assert told[5].startswith("  h-1: 2 GPUs take 32.1 GB")


def test_several_plans_are_a_table_against_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third = tmp_path / "c.json"
    third.write_text(plan(group("r1", ["h-3"])).model_dump_json(by_alias=True))
    lines = printed(ONE, TWO, tmp_path, capsys, str(third)).splitlines()

    assert [word in lines[0] for word in ("cost", "to load", "at least", "served")] == [True] * 4
    assert any("32.1 GB" in line and "100 %" in line for line in lines)
    assert any("16.1 GB" in line and "0 %" in line for line in lines)
    told = json.loads(printed(ONE, TWO, tmp_path, capsys, str(third), "--json"))
    assert told["before"] == str(tmp_path / "a.json")
    assert [one["migration"]["servers"]["started"] for one in told["plans"]] == [2, 1]


def of_two(first: Plan, second: Plan, usd: float) -> Several:
    """Two models side by side: the second under another name, on the GPUs from 4 on."""
    data = json.loads(second.model_dump_json(by_alias=True))
    data["problem"]["model"]["name"] = "another"
    data["seats"] = [{"replica": "r1", "number": 0, "gpus": {"h-0": [4]}, "port": 9000}]
    plans = [first, Plan.model_validate(data)]
    return Several(
        meshwright_version="0",
        models=[Demand(model="llama-3.1-8b", part=0.5), Demand(model="another", part=0.5)],
        plans=plans,
        total=Total(
            rps=sum(p.predicted.rps.value for p in plans), out_tok_per_s=1.0, gpus=2, usd_per_hour=usd
        ),
        proof=first.proof,
    )


def test_plans_of_several_models_are_compared_model_by_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = of_two(ONE, ONE, 24.0), of_two(TWO, ONE, 48.0)
    told = json.loads(printed(before, after, tmp_path, capsys, "--json"))
    places = [change["where"] for change in told["changes"]]

    assert told["summary"] == "cost 100.0 % higher, throughput 100.0 % higher, 2 replicas more"
    assert places[:2] == ["total.rps", "total.usd_per_hour"]
    assert "plans[llama-3.1-8b].predicted.rps" in places
    assert not any(place.startswith("plans[another]") for place in places)
    assert [move["design"].split(":")[0] for move in told["moves"]] == ["llama-3.1-8b"]
    assert told["migration"]["servers"] == {"kept": 2, "restarted": 0, "stopped": 0, "started": 2}
    assert printed(before, before, tmp_path, capsys) == "no difference\n"


def test_a_model_that_comes_beside_another_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(printed(ONE, of_two(ONE, ONE, 24.0), tmp_path, capsys, "--json"))
    come = next(change for change in told["changes"] if change["where"] == "plans[another].predicted.rps")

    assert (come["before"], come["after"]) == (None, 10.0)
    assert told["migration"]["servers"]["kept"] == 1
    assert told["migration"]["taken"]["storage"] > 16e9


def test_one_model_of_several_is_compared_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tmp_path / "both.json"
    both.write_text(of_two(TWO, ONE, 48.0).model_dump_json(by_alias=True))
    (tmp_path / "one.json").write_text(ONE.model_dump_json(by_alias=True))

    assert app.run(["diff", str(tmp_path / "one.json"), f"{both}#llama-3.1-8b"]) == 0
    assert "servers 1 untouched, 2 started" in capsys.readouterr().out
    assert app.run(["diff", str(both), f"{both}#nobody"]) == 2


def test_where_no_place_is_told_the_rest_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crowded = plan(group("r1", ["h-0"], count=99))
    out = printed(ONE, crowded, tmp_path, capsys)

    assert "Migration: not known (" in out
    told = json.loads(printed(ONE, crowded, tmp_path, capsys, "--json"))
    assert told["migration"] is None
    assert "find no room" in told["migration_unknown"]

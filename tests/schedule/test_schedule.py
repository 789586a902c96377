"""`meshwright schedule`: units as `plan` would have them, slots that hold, what others would pay, exports."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from planner import api
from planner.cli.app import run
from planner.errors import InputError
from planner.exporters.keda import scaled_objects
from planner.inputs.traffic import Traffic
from planner.schedule.answer import Ask, demand, stated
from planner.schedule.reactive import SHORT, follow, tuned
from planner.schedule.units import Unit
from solvers.schedule import Kind, Problem

CLUSTER = """\
name: cloud
nodes:
  - {name: h, device: h100-sxm, count: 6, gpus_per_node: 1, price_usd_per_hour: 2.5}
  - {name: l, device: l40s, count: 9, gpus_per_node: 1, price_usd_per_hour: 0.9}
  - {name: s, device: a100-sxm, count: 9, gpus_per_node: 1, price_usd_per_hour: 0.7, spot: true}
"""
DAY = """\
name: day
buckets: [{isl: 1100, osl: 210}]
slo: {ttft_ms: 2000, tpot_ms: 50, percentile: p95}
traffic: {slot_s: 7200, rate_rps: [6, 3, 4, 20, 40, 44, 41, 38, 30, 22, 15, 9]}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "day.yaml").write_text(DAY)
    return tmp_path


def asked(files: Path, *words: str) -> list[str]:
    return ["schedule", str(files / "c.yaml"), "-m", "qwen3-8b", "-w", str(files / "day.yaml"), *words]


def test_every_slot_is_carried_and_the_money_is_that_of_the_counts(files: Path, capsys) -> None:
    assert run(asked(files, "--json", "--reserved", "0.6", "--min-up", "240")) == 0
    found = json.loads(capsys.readouterr().out)
    counts = np.array(found["counts"])
    capacity = np.array([u["rps"] for u in found["units"]])
    price = np.array([u["usd_per_hour"] for u in found["units"]])
    cold = np.array([u["cold_s"] for u in found["units"]]) / 3600
    kept = np.array(found["reserved"])
    beyond = np.maximum(counts - kept[:, None], 0).sum(axis=1)
    starts = np.maximum(np.diff(counts, axis=1), 0).sum(axis=1)

    assert (capacity @ counts >= np.array(found["rate_rps"]) - 1e-6).all()
    spot = np.array([u["spot"] for u in found["units"]])
    assert ((capacity * ~spot) @ counts >= 0.5 * np.array(found["rate_rps"]) - 1e-6).all()
    usd = float(price @ (2 * beyond + 0.6 * 24 * kept + cold * starts))
    assert found["usd"] == pytest.approx(usd)
    assert found["bound"] <= found["usd"] * (1 + 1e-9)
    assert found["usd"] < min(found["static_usd"], found["reactive_usd"])


def test_a_unit_serves_what_plan_says_such_nodes_serve_at_that_percentile(files: Path, capsys) -> None:
    """At its rate a plan exists, a little above none does."""
    run(asked(files, "--json"))
    h = json.loads(capsys.readouterr().out)["units"][0]
    given = {"gpus": "1xH100", "model": "qwen3-8b", "isl": 1100, "osl": 210, "percentile": "p95"}
    limits = {"ttft_ms": 2000.0, "tpot_ms": 50.0}
    plan = api.plan(None, **given, **limits, rate=0.98 * h["rps"], explain=False)  # type: ignore[arg-type]
    assert plan.predicted.rps.value == pytest.approx(0.98 * h["rps"])
    with pytest.raises(Exception, match="cannot be served"):
        api.plan(None, **given, **limits, rate=1.03 * h["rps"], explain=False)  # type: ignore[arg-type]


def test_no_spot_no_margin_and_cold_starts_by_hand(files: Path, capsys) -> None:
    costs = {}
    for words in ((), ("--spot-share", "0"), ("--margin", "25"), ("--cold-start", "3600")):
        assert run(asked(files, "--json", *words)) == 0
        found = json.loads(capsys.readouterr().out)
        costs[words] = found["usd"]
        if "--spot-share" in words:
            assert not any(found["counts"][2])
        if "--margin" in words:
            assert found["sized_rps"] == pytest.approx([1.25 * r for r in found["rate_rps"]])
            assert found["margin_usd"] == pytest.approx(found["usd"] - costs[()], rel=0.02)
    base = costs.pop(())
    assert all(usd > base for usd in costs.values())


def test_for_people_and_as_tables(files: Path, capsys) -> None:
    for name in ("s.csv", "s.json", "s.yaml"):
        assert run(asked(files, "-o", str(files / name))) == 0
        out = capsys.readouterr().out
        assert "a fleet that never changes" in out
        assert max(len(line) for line in out.splitlines()) <= 80
    rows = list(csv.DictReader((files / "s.csv").read_text().splitlines()))
    assert list(rows[0]) == ["start_s", "rate_rps", "sized_rps", "h", "l", "s"]
    assert json.loads((files / "s.json").read_text())["counts"][0] == [int(r["h"]) for r in rows]
    objects = list(YAML(typ="safe").load_all((files / "s.yaml").read_text()))
    assert {o["kind"] for o in objects} == {"ScaledObject"}


def at_minute(objects: list[dict], name: str, minute: int) -> int:
    """Replicas that cron triggers ask for at a minute of the day."""
    for o in objects:
        if o["spec"]["scaleTargetRef"]["name"] == name:
            for t in o["spec"]["triggers"]:
                (m1, h1), (m2, h2) = (t["metadata"][k].split()[:2] for k in ("start", "end"))
                if int(h1) * 60 + int(m1) <= minute < int(h2) * 60 + int(m2):
                    return int(t["metadata"]["desiredReplicas"])
            return o["spec"]["minReplicaCount"]
    return 0


def test_crons_ask_for_the_counts_of_every_slot() -> None:
    counts = [[0, 0, 2, 2, 1, 3], [1, 1, 1, 1, 1, 1]]
    made = scaled_objects(["a", "b"], counts, 14_400.0)
    for t in range(6):
        for name, mine in zip("ab", counts, strict=True):
            assert at_minute(made, name, 240 * t + 7) == mine[t]
    with pytest.raises(InputError, match="whole minutes"):
        scaled_objects(["a"], [[1, 2]], 90.0)
    with pytest.raises(InputError, match="whole minutes"):
        scaled_objects(["a"], [[1] * 200], 3600.0)


def test_a_weeks_crons_name_the_day() -> None:
    made = scaled_objects(["a"], [[*[1] * 24, *[2] * 24]], 3600.0)
    starts = [t["metadata"]["start"] for t in made[0]["spec"]["triggers"]]
    assert starts == ["0 0 * * 1", "0 0 * * 2"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--reserved", "2"], 2, "not from"),
        (["--margin", "-3"], 2, "no margin in percent"),
        (["-o", "x.txt"], 2, "CSV, JSON or YAML"),
        (["--margin", "900"], 3, "all nodes together serve"),
    ],
)
def test_bad_input_and_too_much(files: Path, words: list[str], code: int, says: str, capsys) -> None:
    assert run(asked(files, *words)) == code
    assert says in capsys.readouterr().err


def test_a_workload_without_rates_by_hour(files: Path, capsys) -> None:
    assert run(["schedule", str(files / "c.yaml"), "-m", "qwen3-8b", "-w", "chat"]) == 2
    assert "no `traffic`" in capsys.readouterr().err


def test_nodes_without_a_price(files: Path, capsys) -> None:
    (files / "c.yaml").write_text(
        CLUSTER.replace("l40s", "rtx-4080").replace(", price_usd_per_hour: 0.9", "")
    )
    assert run(asked(files)) == 2
    assert "nodes without a price: l" in capsys.readouterr().err


def test_tails_are_sized_by_the_busiest_minute() -> None:
    traffic = Traffic(slot_s=600, rate_rps=[1.0, 2.0], peak_rps=[1.5, 4.0])
    assert demand(traffic, "p99", 0.1) == ([pytest.approx(1.65), pytest.approx(4.4)], "busiest minute")
    assert demand(traffic, "mean", 0.0) == ([1.0, 2.0], "mean of the slot")


def test_units_become_kinds() -> None:
    unit = Unit("s", "l4", 2, 50, 3.0, 1.4, True, 180.0, "1 x tp1 vllm")
    p = stated([unit], [1.0, 7.0], 600.0, Ask(min_up_s=1500, reserved=0.6, spot_share=0.3))
    (kind,) = p.kinds
    assert (kind.capacity, kind.most, kind.cold_hours, kind.up_slots) == (3.0, 4, 0.05, 3)
    assert (kind.reserved, kind.risky, p.safe) == (None, True, pytest.approx(0.7))


def test_an_autoscaler_follows_what_was_and_pays_for_head_room() -> None:
    """By hand: demand 2, 2, 6: at the jump it still has 2 servers, and is 4 short of 10."""
    p = Problem((Kind("a", 1.0, 1.0, 20),), (2.0, 2.0, 6.0), 1.0)
    found = follow(p, 0.0)
    assert found.counts.tolist() == [[2, 2, 2]]
    assert found.short == pytest.approx(0.4)
    best = tuned(p)
    assert best.short <= SHORT
    assert best.head == 2.0

"""`meshwright schedule`: units as `plan` would have them, slots that hold, what others would pay, exports."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from planner import api
from planner.cli.app import run
from planner.errors import InputError
from planner.exporters.schedules import autoscaled, scaled_objects
from planner.inputs.traffic import Traffic
from planner.schedule.answer import Ask, stated
from planner.schedule.capacity import demand
from planner.schedule.units import Unit

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
    capacity = np.array([u["by_slot"][0] for u in found["units"]])
    assert capacity == pytest.approx([u["rps"] for u in found["units"]])
    price = np.array([u["usd_per_hour"] for u in found["units"]])
    cold = np.array([u["cold_s"] for u in found["units"]]) / 3600
    kept = np.array([found["reserved"][u["node_class"]] for u in found["units"]])
    beyond = np.maximum(counts - kept[:, None], 0).sum(axis=1)
    starts = np.maximum(np.diff(counts, axis=1), 0).sum(axis=1)

    spot = np.array([u["spot"] for u in found["units"]])
    capacity /= 1 + 0.05 * cold * spot
    assert (capacity @ counts >= np.array(found["rate_rps"]) - 1e-6).all()
    assert ((capacity * ~spot) @ counts >= 0.5 * np.array(found["rate_rps"]) - 1e-6).all()
    usd = float(price @ (2 * beyond + 0.6 * 24 * kept + cold * starts))
    assert found["usd"] == pytest.approx(usd)
    assert found["bound"] <= found["usd"] * (1 + 1e-9)
    assert found["usd"] < min(found["static_usd"], found["autoscaler"]["usd"])
    assert found["autoscaler"]["short"] <= found["short"]


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


def test_nodes_listed_in_another_order_are_the_same_schedule(files: Path, capsys) -> None:
    told = []
    name, nodes, *entries = CLUSTER.splitlines()
    for order in (entries, entries[::-1]):
        (files / "c.yaml").write_text("\n".join([name, nodes, *order]))
        assert run(asked(files, "--json")) == 0
        told.append(json.loads(capsys.readouterr().out) | {"seconds": 0})

    assert told[0] == told[1]


def test_no_spot_no_margin_and_cold_starts_by_hand(files: Path, capsys) -> None:
    costs = {}
    for words in (
        (),
        ("--spot-share", "0"),
        ("--margin", "25"),
        ("--cold-start", "3600"),
        ("--spot-losses", "9"),
    ):
        assert run(asked(files, "--json", *words)) == 0
        found = json.loads(capsys.readouterr().out)
        costs[words] = found["usd"]
        if "--spot-share" in words:
            assert not any(found["counts"][2])
        if "--margin" in words:
            assert found["sized_rps"] == pytest.approx([1.25 * r for r in found["rate_rps"]])
            assert found["bare_usd"] == pytest.approx(costs[()], rel=0.02)
    base = costs.pop(())
    assert all(usd > base for usd in costs.values())


def test_for_people_and_as_tables(files: Path, capsys) -> None:
    for name in ("s.csv", "s.json", "s.yaml"):
        assert run(asked(files, "-o", str(files / name))) == 0
        out = capsys.readouterr().out
        assert "a fleet that never changes" in out
        assert max(len(line) for line in out.splitlines()) <= 80
    assert run(asked(files, "--json", "-o", str(files / "s.csv"))) == 0
    told = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader((files / "s.csv").read_text().splitlines()))
    assert list(rows[0]) == ["start_s", "rate_rps", "sized_rps", "h", "l", "s"]
    assert told["counts"] == [[int(r[name]) for r in rows] for name in "hls"]
    assert json.loads((files / "s.json").read_text()).keys() == told.keys()
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
        (["--margin", "-3"], 2, "no percentage"),
        (["--short", "101"], 2, "no percentage"),
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
    assert demand(traffic, "mean", 0.0) == ([1.0, 2.0], "mean")


def test_bursts_of_more_users_are_less_for_each() -> None:
    traffic = Traffic(slot_s=600, rate_rps=[1.0], peak_rps=[2.0], needed_rps=[3.0]).scaled(4.0)
    assert (traffic.rate_rps, traffic.peak_rps, traffic.needed_rps) == ([4.0], [8.0], [8.0])


def test_where_the_queue_of_a_slot_is_known_it_sizes_the_slot() -> None:
    traffic = Traffic(slot_s=600, rate_rps=[1.0, 2.0], peak_rps=[1.5, 4.0], needed_rps=[3.0, 5.0])
    assert demand(traffic, "p90", 0.0) == ([3.0, 5.0], "queue at p90")
    assert demand(traffic, "mean", 0.0) == ([1.0, 2.0], "mean")


def test_units_become_kinds() -> None:
    """A spot node that is lost 4 times an hour and starts in 180 s serves 1 / 1.2 of the time."""
    unit = Unit("s", "l4", 2, 50, "mixed", 3.0, (3.0, 2.0), 1.4, True, 180.0, "1 x tp1 vllm")
    p = stated([unit], [1.0, 7.0], 600.0, Ask(min_up_s=1500, reserved=0.6, spot_share=0.3, spot_losses=4))
    (kind,) = p.kinds
    assert p.capacity[0].tolist() == [[pytest.approx(2.5), pytest.approx(2 / 1.2)]]
    assert (kind.most, kind.cold_hours, kind.up_slots) == (50, 0.05, 3)
    assert (kind.reserved, kind.risky, p.safe) == (None, True, pytest.approx(0.7))


def test_units_of_prompts_and_of_answers_are_the_same_nodes() -> None:
    each = [
        Unit("h", "h100", 1, 9, role, 3.0, (3.0, 2.0), 1.4, False, 180.0, "")
        for role in ("mixed", "prefill", "decode")
    ]
    p = stated(each, [1.0, 7.0], 600.0, Ask())
    assert p.needs.tolist() == [[1.0, 7.0], [1.0, 7.0]]
    assert (p.capacity > 0).any(axis=2).tolist() == [[True, True], [True, False], [False, True]]
    assert p.machines == [[0, 1, 2]]
    assert [u.name for u in each] == ["h", "h-prefill", "h-decode"]


HOURS = """\
name: day
buckets: [{isl: 3000, osl: 30}, {isl: 200, osl: 700}]
slo: {ttft_ms: 3000, tpot_ms: 25, percentile: mean}
traffic:
  slot_s: 21600
  rate_rps: [60, 60, 60, 60]
  shares: [[0.95, 0.05], [0.05, 0.95], [0.5, 0.5], [0.5, 0.5]]
"""


def test_servers_of_prompts_and_answers_follow_the_mix_of_each_slot(files: Path, capsys) -> None:
    """Long prompts in one slot, long answers in the next: of each as many as that slot needs."""
    (files / "day.yaml").write_text(HOURS)
    (files / "c.yaml").write_text(CLUSTER.replace("count: 6", "count: 40"))
    assert run(asked(files, "--engine", "vllm", "--json", "--time-limit", "120")) == 0
    found = json.loads(capsys.readouterr().out)
    names = [u["name"] for u in found["units"]]
    prefill, decode = (next(i for i, n in enumerate(names) if n.endswith(end)) for end in ("fill", "code"))
    by_slot = {name: u["by_slot"] for name, u in zip(names, found["units"], strict=True)}
    assert by_slot[names[prefill]][0] < 0.5 * by_slot[names[prefill]][1]
    assert by_slot[names[decode]][0] > 2 * by_slot[names[decode]][1]
    assert found["usd"] <= found["whole_usd"] * (1 + 1e-9)
    capacity = np.array([u["by_slot"] for u in found["units"]])
    counts = np.array(found["counts"])
    whole = [i for i, u in enumerate(found["units"]) if u["role"] == "mixed"]
    for role in (prefill, decode):
        rows = [*whole, role]
        assert ((capacity[rows] * counts[rows]).sum(axis=0) >= 60 * 0.99).all()


def test_shares_that_are_no_shares(files: Path, capsys) -> None:
    for change, says in (("0.95, 0.05", "add up"), ("[0.5, 0.5], ", "slots"), ("[0.05, 0.95]", "shares")):
        (files / "day.yaml").write_text(HOURS.replace(change, {"0.95, 0.05": "0.95, 0.5"}.get(change, ""), 1))
        assert run(asked(files)) == 2
        assert says in capsys.readouterr().err


def test_the_autoscaler_of_kubernetes_is_told_every_count() -> None:
    counts = [[2, 2, 0, 3], [0, 0, 0, 0]]
    made = autoscaled(["a", "b"], counts, 21_600.0)
    kinds = [m["kind"] for m in made]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "HorizontalPodAutoscaler", *["CronJob"] * 3]
    jobs = {m["spec"]["schedule"]: m["spec"]["jobTemplate"]["spec"]["template"]["spec"] for m in made[4:]}
    told = {at: json.loads(pod["containers"][0]["command"][-1])["spec"] for at, pod in jobs.items()}
    assert told["0 0 * * *"] == {"minReplicas": 2, "maxReplicas": 3}
    assert told["0 12 * * *"] == {"minReplicas": 1, "maxReplicas": 1}
    assert told["0 18 * * *"] == {"minReplicas": 3, "maxReplicas": 4}
    assert made[1]["rules"][0]["resourceNames"] == ["a"]
    assert {pod["serviceAccountName"] for pod in jobs.values()} == {made[0]["metadata"]["name"]}


def test_manifests_are_written_and_are_what_was_asked_for(files: Path) -> None:
    for form, kind in (("keda", "ScaledObject"), ("hpa", "CronJob")):
        assert run(asked(files, "-o", str(files / "s.yaml"), "--autoscaler", form)) == 0
        objects = list(YAML(typ="safe").load_all((files / "s.yaml").read_text()))
        assert kind in {o["kind"] for o in objects}


DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["schedule.md", "workload.md"])
def test_every_command_of_the_pages_runs(page: str, tmp_path: Path, monkeypatch, capsys) -> None:
    for name in ("docs", "cluster_configs"):
        (tmp_path / name).symlink_to(DOCS.parent / name)
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    commands = re.findall(r"^\$ meshwright (.*)$", text, re.MULTILINE)
    assert len(commands) == 2
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()
    for command in commands:
        if f"$ meshwright {command}" not in readme:  # whose commands are run by its own test
            assert run(shlex.split(command)) == 0, command
    for link in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (DOCS / link).exists(), link
    capsys.readouterr()


def test_the_pages_example_of_traffic_is_one(tmp_path: Path) -> None:
    from planner.question.asked import read

    example = re.findall(r"```yaml\n(.*?)```", (DOCS / "workload.md").read_text(encoding="utf-8"), re.DOTALL)[
        0
    ]
    (tmp_path / "w.yaml").write_text("buckets: [{isl: 100, osl: 10}, {isl: 900, osl: 10}]\n" + example)
    asked = read(None, "qwen3-8b", "1xH100", str(tmp_path / "w.yaml"), {}, {})
    assert asked.workload.traffic.shares[3] == [0.5, 0.5]

"""Plans that keep KV cache between requests: what they count on is there, and `check` knows when not."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cluster_configs.reading import resolve
from cluster_configs.schema import Cluster
from planner import api
from planner.check import check
from planner.cli import app
from planner.errors import InputError
from planner.inputs.reuse import Reuse
from planner.inputs.workload import Bucket, Slo, Workload
from planner.plans.schema import Kept, Plan
from planner.reading.documents import read_text
from planner.reading.validation import validate

Document = dict[str, Any]
LOOSE = Slo(ttft_ms=8000, tpot_ms=100)
BOX = """
name: box
nodes:
  - name: b
    device: l40s
    gpus_per_node: 2
    host: {memory_gb: MEMORY, gb_per_s: 300, pcie_gb_per_s: 25}
    tiers: [{kind: nvme, gb: 4000, read_gb_per_s: 12, write_gb_per_s: 6}]
"""
WAYS = (
    Reuse(name="system prompt", tokens=1000, share=0.8, distinct=4),
    Reuse(name="tools", share=0.5, gap_s=4, gap_cv=2, again=0.9),
    Reuse(name="turns", share=0.5, gap_s=60, gap_cv=1.5, again=0.7, part=0.9),
)


def agents(*reuse: Reuse, **given: Any) -> Workload:
    given = {"arrivals": None if "rate_rps" in given else "closed"} | given
    return Workload(buckets=[Bucket(isl=8000, osl=200)], slo=LOOSE, reuse=list(reuse), **given)


@cache
def planned(kind: str) -> Plan:
    """Plans that tests share, small enough to solve in a second or two."""
    memory = {"poor": 64, "host": 512, "pairs": 512, "none": 512, "sglang": 512}[kind]
    box = validate(read_text(BOX.replace("MEMORY", str(memory)), "box.yaml"), Cluster)
    ways = () if kind == "none" else WAYS
    engine = {"poor": "trtllm", "sglang": "sglang"}.get(kind, "vllm")
    asked = {"workload": agents(*ways), "engine": engine, "explain": kind == "host"}
    return api.plan(resolve(box), "llama-3.1-8b", **asked)


def kept_of(plan: Plan) -> Kept:
    return next(r.kept for r in plan.replicas if r.kept is not None)


def test_reuse_serves_more_and_says_what_it_serves_without() -> None:
    plan, without = planned("host"), planned("none")
    alone = next(a for a in plan.alternatives if "no KV cache kept between requests" in a.what)

    assert plan.predicted.rps.value > 1.3 * without.predicted.rps.value
    assert alone.objective == pytest.approx(without.predicted.rps.value, rel=0.03)
    assert without.replicas[0].kept is None
    assert "kept" not in without.replicas[0].model_dump()
    assert "reuse" not in without.problem.workload


def test_what_is_found_is_what_returns_within_the_time_to_live() -> None:
    """All of a time to live without end: begun 800, and of 7,200 tokens 0.45 + of 6,400 0.35 more."""
    k = kept_of(planned("host"))

    assert 0 < k.found_tokens[0] <= 800 + 0.45 * 7200 + 0.35 * 6400
    assert k.hit == pytest.approx(k.found_tokens[0] / 8000, rel=1e-3)
    assert k.keep_s <= k.lasts_s


def test_what_rests_in_host_memory_is_listed_among_the_tiers() -> None:
    plan = planned("host")
    k = kept_of(plan)
    rests = [part for part in plan.tiers if part.what == "cache"]

    assert k.place == "host"
    assert [part.bytes for part in rests] == [k.bytes]
    assert k.bytes * sum(r.count for r in plan.replicas) <= 0.9 * 512e9


def test_more_host_memory_is_worth_something_where_it_is_short_and_prices_fall_with_speed() -> None:
    prices = {p.limit.split(" ")[0]: p for p in kept_of(planned("poor")).prices}

    assert prices["hbm"].worth >= prices["host"].worth >= 0
    assert all(p.marginal is not None and p.worth <= p.marginal * (1 + 1e-6) for p in prices.values())


def test_kinds_that_return_soon_are_kept_for_less_time_than_slow_ones() -> None:
    """A tool's gap is over after a minute; a turn may come much later."""
    times = {t.kind: sum(t.seconds.values()) for t in kept_of(planned("host")).times}

    assert times["tools"] < times["turns"]


def test_a_plan_survives_its_own_json() -> None:
    plan = planned("sglang")

    assert check(Plan.model_validate_json(plan.model_dump_json(by_alias=True))) == []


def test_nothing_that_returns_is_said() -> None:
    load = agents(Reuse(name="batch", gap_s=10, again=0.0))
    plan = api.plan(None, "llama-3.1-8b", gpus="1xl40s", workload=load, engine="vllm", explain=False)

    assert [w.code for w in plan.warnings if w.code == "reuse_unused"] == ["reuse_unused"]
    assert plan.replicas[0].kept is None


def replica(d: Document) -> Document:
    return next(r for r in d["replicas"] if r.get("kept"))  # type: ignore[no-any-return]


def change(key: str, factor: float) -> Callable[[Document], None]:
    def bend(d: Document) -> None:
        replica(d)["kept"][key] *= factor

    return bend


def tokens(d: Document) -> None:
    k = replica(d)["kept"]
    k["found_tokens"][0] = 7900.0
    k["hit"] = 7900 / 8000


def less_memory(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["host"]["memory_gb"] = 0.5 * replica(d)["kept"]["bytes"] / 1e9


def slow_link(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["host"]["pcie_gb_per_s"] = 0.1 * replica(d)["kept"]["loads_gb_per_s"]


def rarely_back(d: Document) -> None:
    for way in d["problem"]["workload"]["reuse"]:
        way["again"] = 0.2 if way["gap_s"] else way["again"]


def late_back(d: Document) -> None:
    for way in d["problem"]["workload"]["reuse"]:
        way["gap_s"] = 50 * way["gap_s"] if way["gap_s"] else None


def many_beginnings(d: Document) -> None:
    d["problem"]["workload"]["reuse"][0]["distinct"] = 1000


def no_tier(d: Document) -> None:
    d["tiers"][0]["bytes"] *= 0.5


def other_tier(d: Document) -> None:
    d["tiers"][0]["tier"] = "nvme"


def two_figures(d: Document) -> None:
    replica(d)["kept"]["found_tokens"].append(1.0)


BENT: dict[str, tuple[Callable[[Document], None], str]] = {
    "more found than returns": (tokens, "found_overstated"),
    "a hit rate of its own": (change("hit", 1.1), "hit_wrong"),
    "less held than rests": (change("bytes", 0.8), "kept_understated"),
    "room for less time": (change("lasts_s", 0.001), "kept_too_short"),
    "loaded by less than is found": (change("loads_gb_per_s", 0.8), "loads_understated"),
    "less host memory": (less_memory, "kept_over"),
    "a slow link": (slow_link, "loads_over"),
    "fewer come back": (rarely_back, "found_overstated"),
    "they come back later": (late_back, "found_overstated"),
    "a thousand beginnings": (many_beginnings, "kv_over"),
    "a tier of another size": (no_tier, "kept_elsewhere"),
    "another tier": (other_tier, "kept_elsewhere"),
    "a figure too many": (two_figures, "kept_shape"),
}


@pytest.mark.parametrize("name", sorted(BENT))
def test_a_bent_plan_is_refused(name: str) -> None:
    bend, code = BENT[name]
    document = deepcopy(json.loads(planned("host").model_dump_json(by_alias=True)))
    bend(document)

    assert code in {v.code for v in check(Plan.model_validate(document))}


def test_a_prompt_is_no_quicker_than_what_is_not_found() -> None:
    """With what is kept, prompts of a third less time are still possible; without, they are below physics."""
    document = json.loads(planned("host").model_dump_json(by_alias=True))
    for r in document["replicas"]:
        r["step"]["prefill_s"] *= 0.7
    kept = {v.code for v in check(Plan.model_validate(document))}
    for r in document["replicas"]:
        r["kept"] = None
    document["tiers"] = []
    lost = {v.code for v in check(Plan.model_validate(document))}

    assert "prefill_below_roofline" in lost - kept


TRACE = "arrival_s,isl,osl,prefix_id\n" + "".join(
    f"{5 * i},{1000 + 500 * (i // 4)},100,user{i % 4}\n" for i in range(60)
)


def test_a_trace_gives_lengths_and_reuse(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    asked = {"gpus": "1xl40s", "trace": tmp_path / "t.csv", "engine": "vllm", "explain": False}
    plan = api.plan(None, "llama-3.1-8b", **asked)
    load = Workload.model_validate(plan.problem.workload)
    mean = sum(share * b.isl for share, b in zip(load.shares, load.buckets, strict=True))

    assert mean == pytest.approx(1000 + 500 * 7, rel=0.01)
    assert kept_of(plan).place == "hbm"
    assert kept_of(plan).hit > 0.5
    assert "isl" not in plan.problem.defaulted
    assert any("60 requests in 5 min" in w.message for w in plan.warnings)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--isl", "100"], "`isl` and a trace both say"),
        (["--engine", "chains"], "has no say"),
        (["--workload", "agent"], "`prefix_hit` and a trace both say"),
    ],
)
def test_a_trace_and_something_else_that_says_the_same_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    given = ["plan", "--gpus", "1xl40s", "--model", "llama-3.1-8b", "--trace", str(tmp_path / "t.csv")]

    assert app.run([*given, *options]) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_trace_that_is_not_there_is_bad_input() -> None:
    with pytest.raises(InputError):
        api.plan(None, "llama-3.1-8b", gpus="1xl40s", trace="nowhere.csv")


def test_the_report_says_where_for_how_long_and_what_a_gb_is_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    asked = ["--gpus", "1xl40s", "--model", "llama-3.1-8b", "--engine", "vllm"]
    app.run(["plan", *asked, "--trace", str(tmp_path / "t.csv"), "--details"])
    said = " ".join(capsys.readouterr().out.split())

    assert "kept in" in said
    assert "GPU memory" in said
    assert "one more GB" in said

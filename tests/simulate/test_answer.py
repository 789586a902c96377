"""Plans of every kind replayed near what they say, or refused with a reason; overload; what traces bring."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.inputs.traces import read_trace
from planner.plans.schema import Plan
from planner.simulate.answer import Ask, Simulated, simulate
from planner.simulate.arrivals import drawn
from planner.simulate.groups import Servers
from planner.simulate.pools import Trouble

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "plans"

KINDS = {
    "percentile": 0.15,
    "drafts": 0.15,
    "cxl-768gb": 0.3,
    "two-4090-384gb": 0.15,
    "unlike-stages": 0.1,
    "kept-cache": 0.1,
    "long-prompts": 0.2,
    "h100-8": 0.1,
    "latency": 0.1,
    "four-small-boxes": 0.1,
    "melange-cloud": 0.1,
    "three-zones": 0.1,
}
"""Golden plans (splits, unlike pairs, pipelines, drafts, weights in host memory, kept cache), and how far the
replay's TPOT may be from theirs: steps of one or two sequences that read few experts from host memory are
below the plan's line, and of prompts of 100,000 tokens 2,000 say little."""


def golden(name: str) -> Plan:
    form = json.loads((GOLDEN / f"{name}.json").read_text())
    form["meshwright_version"] = "0"
    form["proof"]["seconds"] = 0.0
    return Plan.model_validate(form)


def closed(name: str) -> Plan:
    """The plan as one of a closed loop of what it has in flight."""
    plan = golden(name)
    workload = plan.problem.workload | {"arrivals": "closed"}
    return plan.model_copy(update={"problem": plan.problem.model_copy(update={"workload": workload})})


def replayed(name: str, **ask: object) -> Simulated:
    return simulate(golden(name), Ask(**ask))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", KINDS)
def test_plans_of_every_kind_run_as_planned(name: str) -> None:
    """By formulas for servers each of which has random arrivals of its own."""
    plan = golden(name)
    found = simulate(plan, Ask(routing="random"))
    rate = plan.problem.workload["rate_rps"]
    percentile = plan.problem.workload["slo"]["percentile"] if rate else "mean"
    assert found.rps == pytest.approx(plan.predicted.rps.value, rel=0.05)
    assert found.tpot_ms[percentile] == pytest.approx(plan.predicted.tpot_ms.value, rel=KINDS[name])
    assert found.overload is None


def test_a_profile_says_no_steps() -> None:
    with pytest.raises(InputError, match="measured replicas is not simulated"):
        replayed("profile")


def test_of_ten_thousand_gpus_nobody_waits_unasked() -> None:
    with pytest.raises(InputError, match="in flight at once: a replay of it takes"):
        replayed("ten-thousand")


def test_too_few_requests_show_nothing() -> None:
    with pytest.raises(InputError, match="too few: the plan has"):
        replayed("melange-cloud", requests=100)


def test_a_closed_loop_begins_in_the_middle() -> None:
    """As many at the start as later, and answers at even places: no prompt of theirs is computed."""
    plan = closed("melange-cloud")
    servers = Servers(plan)
    made = drawn(servers, None, None, 0)
    met = made.load.met
    assert 0.7 < met / (made.load.in_flight or 1) < 1
    assert all((new[:met] == 1).all() for new in made.load.new.values())
    assert np.mean(made.load.requests.osl[:met]) == pytest.approx(
        made.load.requests.osl[met:].mean() / 2, rel=0.05
    )
    waiting = simulate(plan, Ask()).outcome.series.waiting
    waits = np.sum([w for name, w in waiting.items() if name.startswith("p")], axis=0)
    assert waits.max() < 0.1 * (made.load.in_flight or 1)


@pytest.mark.parametrize("times", [2.5, 4.0])
def test_few_requests_say_as_many_tokens_a_second_as_many_do(times: float) -> None:
    """Of answers that a closed loop meets on the way the whole is counted where it ends, as of all others:
    nobody counts what is begun when the last request comes."""
    plan = closed("four-small-boxes")
    inside = drawn(Servers(plan), None, None, 0).load.in_flight
    few, many = (simulate(plan, Ask(requests=int(k * inside))) for k in (times, 20.0))

    assert few.out_tok_per_s == pytest.approx(many.out_tok_per_s, rel=0.05)


def test_a_trace_that_begins_with_empty_servers_is_counted_from_its_first_end(tmp_path: Path) -> None:
    """By hand: one request every 0.2 s, each alike: they end as fast as they come, the first of them late."""
    plan = golden("four-small-boxes")
    rows = [f"{0.2 * i},1000,200" for i in range(200)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["arrival_s,isl,osl", *rows]))
    found = simulate(plan, Ask(trace=read_trace(path)))

    assert found.rps == pytest.approx(5.0, rel=0.05)
    assert found.out_tok_per_s == pytest.approx(1000.0, rel=0.05)


def test_what_is_expected_at_each_percentile_is_the_plans_own_at_its_own() -> None:
    found = replayed("percentile")
    assert found.expected["ttft_ms"]["p95"] == pytest.approx(found.predicted["ttft_ms"].value, rel=0.05)
    assert list(found.expected["ttft_ms"]) == ["mean", "p50", "p90", "p95", "p99"]
    assert not replayed("gb200-nvl72").expected


def test_more_than_it_serves_is_overload_and_no_less() -> None:
    plan = golden("percentile")
    rate = plan.predicted.rps.value
    calm, crowded = (simulate(plan, Ask(rate=by * rate, requests=4000)) for by in (1.0, 6.0))
    assert calm.overload is None
    assert crowded.overload is not None
    assert crowded.overload.came_rps == pytest.approx(6 * rate, rel=0.1)
    assert crowded.overload.ended_rps < 0.9 * crowded.overload.came_rps
    assert not crowded.kept


def traced(tmp_path: Path, rows: list[str], head: str = "arrival_s,isl,osl") -> Simulated:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return replayed("percentile", trace=read_trace(path))


def test_requests_longer_than_the_model_takes_are_left_out_and_counted(tmp_path: Path) -> None:
    found = traced(tmp_path, ["0,100,5", "1,900000,5", "2,100,5"])
    assert (found.refused, found.requests) == (1, 2)
    with pytest.raises(InputError, match="no two requests"):
        traced(tmp_path, ["0,900000,5", "1,900000,5", "2,100,5"])


def test_requests_out_of_order_are_put_in_order_and_counted(tmp_path: Path) -> None:
    assert traced(tmp_path, ["0,100,5", "3,100,5", "2,100,5", "1,100,5"]).unordered == (2, 3)
    assert traced(tmp_path, ["0,100,5", "3,100,5"]).unordered == (0, 0)


def test_prefixes_of_a_trace_are_followed(tmp_path: Path) -> None:
    rows = [f"{i},320,5,{'same' if i % 2 else i}" for i in range(40)]
    found = traced(tmp_path, rows, "arrival_s,isl,osl,prefix_id")
    assert found.found is not None
    assert 0.2 < found.found < 0.5
    assert traced(tmp_path, ["0,100,5", "3,100,5"]).found is None


def test_prefix_aware_routing_needs_prefixes() -> None:
    with pytest.raises(InputError, match="begin alike"):
        replayed("percentile", routing="prefix-aware")


def test_a_group_whose_last_server_fails_is_named() -> None:
    with pytest.raises(InputError, match="the last one of `r1` has failed"):
        replayed("kept-cache", trouble=(Trouble("r1", fails_s=1.0),))


def test_of_a_fleet_that_fails_in_part_the_rest_serves_all() -> None:
    plan = golden("percentile")
    calm, hit = (simulate(plan, Ask(requests=1500, trouble=t)) for t in ((), (Trouble("r1", fails_s=20.0),)))
    assert np.isfinite(hit.outcome.end_s).all()
    assert hit.tpot_ms["mean"] > calm.tpot_ms["mean"]


def test_how_far_it_is_is_told() -> None:
    heard: list[tuple[int, int]] = []
    replayed("percentile", requests=20_000, tell=lambda done, of: heard.append((done, of)))
    assert heard
    assert all(done <= of == 20_000 for done, of in heard)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)

"""The most requests without a rate: of random arrivals, or of a closed loop."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from planner import api
from planner.errors import Infeasible, InputError
from planner.inputs.workload import Workload
from planner.plans.schema import Plan
from planner.reports import terminal
from planner.several.asked import read_several, wanted
from planner.simulate.answer import Ask, simulate


@cache
def planned(**asked: object) -> Plan:
    """Checked by `api.plan` itself."""
    given = {"engine": "vllm", "gap": 0.0, "explain": False, "work_limit": 500} | asked
    return api.plan(None, "llama-3.1-8b", gpus="2xL40S", **given)  # type: ignore[arg-type]


def test_random_arrivals_are_fewer_than_a_closed_loop_takes_and_fewer_yet_at_a_percentile():
    closed, drawn, tail = (planned(**more) for more in ({"loop": "closed"}, {}, {"percentile": "p95"}))

    assert closed.predicted.rps.value > drawn.predicted.rps.value > tail.predicted.rps.value
    assert drawn.problem.workload["arrivals"] == "open"
    assert "arrivals" in drawn.problem.defaulted
    assert closed.problem.workload["arrivals"] == "closed"


@settings(max_examples=6, deadline=None)
@example(share=0.97, percentile="mean", engine="any")
@example(share=0.97, percentile="p95", engine="vllm")
@given(
    share=st.floats(0.01, 0.999),
    percentile=st.sampled_from(["mean", "p50", "p95", "p99"]),
    engine=st.sampled_from(["any", "vllm", "sglang", "trtllm"]),
)
def test_a_rate_below_the_one_shown_is_served_by_the_same_nodes(share: float, percentile: str, engine: str):
    most = planned(percentile=percentile, engine=engine).predicted.rps.value
    lower = planned(rate=share * most, percentile=percentile, engine=engine)

    assert lower.predicted.rps.value == pytest.approx(share * most)


def test_more_than_the_rate_shown_is_not():
    most = planned().proof.bound

    with pytest.raises(Infeasible):
        planned(rate=1.01 * most)


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_an_objective_other_than_throughput_needs_a_rate_in_either_loop(loop: str):
    with pytest.raises(InputError, match="needs a rate to serve"):
        planned(loop=loop, objective="gpus")


def test_chains_have_no_percentile():
    with pytest.raises(InputError, match="limits of chains are on means"):
        planned(percentile="p95", engine="chains")


def test_a_closed_loop_keeps_its_own_percentile(tmp_path: Path):
    """Of short and long requests: nine of ten of either are within both limits in the closed loop's replay,
    and those of the open loop's p90, which is that of random arrivals, serve less."""
    mix = tmp_path / "mix.yaml"
    mix.write_text("""
name: mix
buckets: [{isl: 512, osl: 128, share: 0.6}, {isl: 4096, osl: 512, share: 0.4}]
""")
    asked = {"workload": str(mix), "percentile": "p90", "risk": 0.5, "simple": 0.0}
    closed = planned(loop="closed", **asked)
    run = simulate(closed, Ask())

    assert run.arrivals.endswith("always in flight")
    assert run.kept
    assert run.rps == pytest.approx(closed.predicted.rps.value, rel=0.02)
    assert all(p.percentile == "p90" and p.attained >= 0.88 for p in run.promises.values())
    mean = planned(**asked | {"loop": "closed", "percentile": "mean"})
    assert planned(**asked).predicted.rps.value < closed.predicted.rps.value < mean.predicted.rps.value


def test_a_fleet_of_unlike_replicas_has_the_percentile_of_all_its_requests():
    """An H100 answers most requests, an L40S one of six. The formulas of each are near, not exact."""
    asked = {"engine": "vllm", "percentile": "p90", "risk": 0.5, "simple": 0.0, "work_limit": 500}
    plan = api.plan(None, "llama-3.1-8b", gpus="1xH100,1xL40S", tpot_ms=60, explain=False, **asked)
    run = simulate(plan, Ask(requests=40_000))
    p = plan.predicted

    assert len(plan.replicas) == 2
    for name, band, near in (("ttft_ms", p.ttft_ms, 0.25), ("tpot_ms", p.tpot_ms, 0.06)):
        assert band.low < band.value < band.high
        assert getattr(run, name)["p90"] == pytest.approx(band.value, rel=near)
        assert run.expected[name]["p90"] == pytest.approx(band.value, rel=0.06)
        assert run.promises[name].attained >= 0.85


@pytest.mark.parametrize("percentile", ["mean", "p95"])
def test_the_closed_loop_beside_random_arrivals_is_the_one_that_is_planned_for_itself(percentile: str):
    """Of one replica on the only GPU, which is the same in both plans; times beside are means."""
    asked = {"engine": "vllm", "gap": 0.0, "explain": False, "percentile": percentile}
    drawn, closed = (
        api.plan(None, "llama-3.1-8b", gpus="1xL40S", loop=x, **asked) for x in ("open", "closed")
    )
    beside = drawn.saturated

    assert beside is not None
    assert closed.saturated is None
    assert beside.rps == pytest.approx(closed.predicted.rps.value, rel=1e-3)
    assert (beside.tpot_ms < 0.999 * closed.predicted.tpot_ms.value) == (percentile == "p95")
    assert beside.tpot_ms <= 1.001 * closed.predicted.tpot_ms.value
    assert "saturated" not in planned(rate=5.0).model_dump()


def test_the_terminal_shows_the_closed_loop_beside_random_arrivals(capsys: pytest.CaptureFixture[str]):
    console = Console(width=100, color_system=None)
    terminal.render(planned(), console)
    shown = capsys.readouterr().out

    assert "2 of 2 GPUs, random arrivals" in shown
    assert "in a closed loop" in shown

    terminal.render(planned(loop="closed"), console)
    assert "2 of 2 GPUs, a closed loop" in capsys.readouterr().out


def test_a_workload_of_a_script_and_several_models_come_at_random_too():
    chat = Workload.model_validate({"isl": 1024, "osl": 256})
    drawn = api.ask(None, "llama-3.1-8b", gpus="2xL40S", workload=chat).asked
    together = read_several(None, "2xL40S", wanted(["llama-3.1-8b", "qwen3-4b"], "chat", {}, None), {})

    assert drawn.workload.loop == "open"
    assert {one.workload.loop for one in together.asked} == {"open"}
    assert all("arrivals" in one.defaulted for one in (drawn, *together.asked))


@pytest.mark.parametrize(
    "given", [{"workload": "batch"}, {"workload": "offline"}, {"engine": "chains"}, {"loop": "closed"}]
)
def test_what_is_there_from_the_start_and_chains_remain_closed(given: dict[str, str]):
    asked = api.ask(None, "llama-3.1-8b", gpus="2xL40S", **given).asked

    assert asked.workload.loop == "closed"
    assert "arrivals" not in asked.defaulted

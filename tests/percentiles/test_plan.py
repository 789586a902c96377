"""Plans sized by a replay: they hold in it, say so, and `check` finds every lie about it."""

import io

import numpy as np
import pytest
from rich.console import Console

from planner import plan
from planner.check import check
from planner.errors import InputError, OutOfTime
from planner.inputs.traces import read_trace
from planner.percentiles.plan import known, tightly
from planner.percentiles.tighten import Tight
from planner.plans.schema import Plan
from planner.question.asked import read
from planner.reports.terminal import render
from planner.simulate.answer import Ask, simulate

ASKED = {"gpus": "4xL40S", "engine": "vllm", "rate": 1.7, "ttft_ms": 2100, "tpot_ms": 60, "objective": "gpus"}
TIMED = {"work_limit": 100, "explain": False, "risk": 0.5}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Ten minutes: one request a second, and forty at once every two minutes."""
    rng = np.random.default_rng(3)
    bursts = [120 * i + 60 + rng.random(40) * 0.5 for i in range(5)]
    at = np.sort(np.concatenate([rng.random(600) * 600, *bursts]))
    path = tmp_path_factory.mktemp("traces") / "bursts.csv"
    isl, osl = rng.integers(400, 1600, len(at)), rng.integers(50, 200, len(at))
    rows = [f"{a - at[0]:.4f},{i},{o}" for a, i, o in zip(at, isl, osl, strict=True)]
    path.write_text("\n".join(["arrival_s,isl,osl", *rows]), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def sized(trace):
    return plan(None, "llama-3.1-8b", trace=trace, percentile="p95", **ASKED, **TIMED)


def test_the_plan_holds_in_the_replay_of_its_trace(sized, trace):
    run = simulate(sized, Ask(trace=read_trace(trace), rate=1.7))

    assert run.kept
    for name, got in sized.replayed.achieved.items():
        assert run.promises[name].achieved_ms <= got.achieved_ms * (1 + 1e-6) <= got.limit_ms * (1 + 1e-6)


def test_the_plan_for_random_times_does_not_hold(sized, trace):
    """Which is why it was sized: fewer GPUs, and a broken promise."""
    load = read(None, "llama-3.1-8b", "4xL40S", "chat", _loads("p95"), {}, trace=trace).workload
    bare = plan(None, "llama-3.1-8b", workload=load, gpus="4xL40S", engine="vllm", objective="gpus", **TIMED)

    assert bare.replayed is None
    assert _gpus(bare) < _gpus(sized)
    assert not simulate(bare, Ask(trace=read_trace(trace), rate=1.7)).kept


def test_it_is_told_at_its_own_rate_and_limits(sized):
    told = sized.replayed

    assert sized.predicted.rps.value == pytest.approx(1.7)
    assert sized.problem.workload["slo"]["ttft_ms"] == 2100
    assert told.sized_rps > 1.7
    assert told.broke < _gpus(sized)
    assert sized.proof.space.caps[0].binds
    assert not sized.proof.space.complete
    assert check(sized) == []


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("rate_rps", 1.6, "replay_unlike"),
        ("sized_rps", 1.0, "replay_unlike"),
        ("ttft_ms", 2500.0, "replay_unlike"),
        ("tpot_ms", None, "replay_unlike"),
        ("busy", 10_000, "replay_unlike"),
        ("achieved.ttft_ms.limit_ms", 3000.0, "replay_unlike"),
        ("achieved.ttft_ms.achieved_ms", 2201.0, "replay_missed"),
        ("achieved.tpot_ms.attained", 0.9, "replay_missed"),
    ],
)
def test_check_finds_a_lie_about_the_replay(sized, field, value, code):
    form = sized.model_dump(mode="json", by_alias=True)
    part, *way = form["replayed"], *field.split(".")
    for step in way[:-1]:
        part = part[step]
    part[way[-1]] = value

    assert code in [v.code for v in check(Plan.model_validate(form))]


def test_the_replay_is_printed(sized):
    console = Console(width=80, record=True, file=io.StringIO())
    render(sized, console)
    text = console.export_text()

    assert "In the replay" in text
    assert "800 requests of" in text
    assert "breaks a limit in the replay" in text


def test_nothing_is_replayed_for_a_mean_or_without_a_rate(trace):
    def asked(percentile, rate=1.7):
        loads = _loads(percentile) | {"rate": rate}
        return read(None, "llama-3.1-8b", "4xL40S", "chat", loads, {}, trace=trace)

    assert known(asked("p95"))
    assert not known(asked("mean"))
    assert not known(asked("p95", rate=None))


def test_tight_limits_are_not_relaxed_by_themselves(trace):
    """The default SLO may be: one that stands for a replay must not."""
    asked = read(
        None, "llama-3.1-8b", "4xL40S", "chat", {"rate": 1.7, "percentile": "p95"} | NONE, {}, trace=trace
    )
    tight = tightly(asked, Tight(3.0, 0.5, 0.8))

    assert tight.workload.slo.ttft_ms == asked.workload.slo.ttft_ms * 0.5
    assert tight.workload.rate_rps == 3.0
    assert any(name.startswith("slo.") for name in asked.defaulted)
    assert not any(name.startswith("slo.") for name in tight.defaulted)


def test_a_limit_on_whole_requests_is_kept_in_a_replay_and_told():
    """At random times, as no arrivals are known; a mean is one, too."""
    asked = {"gpus": "2xL40S", "engine": "vllm", "rate": 1.0, "isl": 500, "osl": 200, "objective": "gpus"}
    found = plan(None, "llama-3.1-8b", tpot_ms="none", e2e_ms=4000, **asked, **TIMED)
    told = found.replayed

    assert told.trace is None
    assert told.achieved["e2e_ms"].achieved_ms <= 4000
    assert told.tpot_ms < 4000 / 200
    assert found.problem.workload["slo"]["e2e_ms"] == 4000
    assert check(found) == []
    form = found.model_dump(mode="json", by_alias=True)
    del form["replayed"]["achieved"]["e2e_ms"]
    assert "replay_missed" in [v.code for v in check(Plan.model_validate(form))]


@pytest.mark.parametrize("more", [{}, {"rate": 1.0, "objective": "energy"}, {"rate": 1.0, "survive": "node"}])
def test_a_limit_on_whole_requests_without_a_replay_is_refused(more):
    with pytest.raises(InputError, match="whole requests"):
        plan(None, "llama-3.1-8b", gpus="16xL40S", e2e_ms=4000, **more)


def test_where_no_plan_holds_that_is_said_and_not_called_proven(trace):
    with pytest.raises(OutOfTime, match=r"has TTFT at .* of its limit") as told:
        plan(None, "llama-3.1-8b", trace=trace, percentile="p99", **ASKED | {"gpus": "1xL40S"}, **TIMED)
    assert (
        told.value.hint == "more nodes, looser limits, or --percentile p90; --percentile mean replays nothing"
    )


def test_whole_requests_that_no_plan_answers_in_time_are_named():
    """Their mean is asked for, so neither another percentile nor no replay is a way out."""
    with pytest.raises(OutOfTime, match=r"tried has a whole request at \d+ % of its limit") as told:
        plan(None, "llama-3.1-8b", e2e_ms=1000, percentile="mean", **ASKED | {"ttft_ms": "none"}, **TIMED)
    assert told.value.hint == "more nodes, looser limits"


NONE = dict.fromkeys(("isl", "osl", "ttft_ms", "tpot_ms"))


def _loads(percentile):
    return NONE | {"rate": 1.7, "ttft_ms": 2000, "tpot_ms": 60, "percentile": percentile}


def _gpus(made):
    return sum(r.count * sum(s.gpus for s in r.stages) for r in made.replicas)

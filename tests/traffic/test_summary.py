"""A trace as a workload: means kept, what buckets lose, rates by slot, bursts, the file that comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cli.app import run
from planner.inputs.presets import PRESETS, SOURCES
from planner.inputs.reading import read_workload
from planner.inputs.reuse import Idle, IdleKind
from planner.inputs.traces import Trace, read_trace
from planner.inputs.workload import Bucket, Slo, Workload
from planner.traffic.summary import (
    LOSS,
    MOST_BUCKETS,
    dispersion,
    document,
    lost,
    parted,
    summary,
    traffic_of,
)


def trace(arrival_s, isl, osl) -> Trace:
    none = np.zeros(0, dtype=np.int64)
    return Trace(
        "t",
        np.asarray(arrival_s, dtype=float),
        np.asarray(isl, dtype=np.int64),
        np.asarray(osl, dtype=np.int64),
        0,
        none,
        np.zeros(len(isl) + 1, dtype=np.int64),
    )


def poisson(n: int, rate: float, seed: int = 0) -> Trace:
    rng = np.random.default_rng(seed)
    isl, osl = (rng.lognormal(m, 1.0, n).astype(int) + 1 for m in (6.5, 4.5))
    at = np.cumsum(rng.exponential(1 / rate, n))
    return trace(at - at[0], isl, osl)


@settings(max_examples=25)
@given(seed=st.integers(0, 999), n=st.integers(2, 400))
def test_buckets_keep_the_mean_lengths_and_lose_little(seed: int, n: int) -> None:
    t = poisson(n, 5.0, seed)
    which = parted(t)
    w = summary(t, "x", None, Slo()).workload
    shares = np.array(w.shares)

    assert shares.sum() == pytest.approx(1.0)
    assert shares @ [b.isl for b in w.buckets] == pytest.approx(t.isl.mean(), abs=0.6)
    assert shares @ [b.osl for b in w.buckets] == pytest.approx(t.osl.mean(), abs=0.6)
    assert len(w.buckets) <= MOST_BUCKETS
    if len(w.buckets) < MOST_BUCKETS:
        assert max(lost(t, which)) <= LOSS


def test_one_bucket_of_unlike_prompts_loses_their_spread() -> None:
    """By hand: prompts of 1 and 3, mean 2: 4 of 5 halves of pairs are kept."""
    t = trace([0, 1], [1, 3], [1, 1])
    assert lost(t, np.zeros(2, dtype=np.int64))[0] == pytest.approx(1 - 4 / 5)
    assert lost(t, np.arange(2))[0] == 0


def test_answers_of_one_token_have_no_context_to_lose() -> None:
    t = trace([0, 1, 2], [1000, 1001, 1002], [1, 1, 1])

    assert lost(t, parted(t))[1] == 0
    assert not parted(t).any()


def test_requests_alike_are_one_bucket() -> None:
    w = summary(trace([0, 1, 2], [5, 5, 5], [7, 7, 7]), "x", None, Slo()).workload
    assert [(b.isl, b.osl, b.share) for b in w.buckets] == [(5, 7, 1.0)]


def test_rates_by_slot_and_busiest_minutes_by_hand() -> None:
    """600 requests in the first half hour, 1,200 in the second, all in its first minute."""
    at = np.concatenate([np.linspace(0, 1799, 600), np.linspace(1800, 1859, 1199), [3600.0]])
    found = traffic_of(trace(at, np.ones(len(at)), np.ones(len(at))), 1800.0)
    assert found.rate_rps == pytest.approx([600 / 1800, 1200 / 1800], rel=1e-3)
    assert found.peak_rps[1] == pytest.approx(1199 / 60, rel=0.02)


@settings(max_examples=20)
@given(seed=st.integers(0, 999))
def test_at_random_counts_vary_as_poisson_has_it_and_bursts_more(seed: int) -> None:
    t = poisson(8000, 10.0, seed)
    assert dispersion(t.arrival_s, t.span_s, 1.0, 800.0) == pytest.approx(1.0, abs=0.35)
    pairs = np.sort(np.repeat(t.arrival_s, 4))
    assert dispersion(pairs, t.span_s, 1.0, 800.0) > 2.5


def test_a_day_that_rises_is_not_a_burst() -> None:
    """Counts are looked at around the rate of their own slot."""
    rng = np.random.default_rng(1)
    parts = [np.sort(rng.uniform(k * 600, (k + 1) * 600, 200 * (k + 1))) for k in range(10)]
    at = np.concatenate(parts)
    assert dispersion(at, 6000.0, 10.0, 600.0) == pytest.approx(1.0, abs=0.25)
    assert dispersion(at, 6000.0, 10.0, 6000.0) > 1.5


def test_the_file_reads_back_and_plans(tmp_path: Path, capsys) -> None:
    rows = "\n".join(f"{i * 0.5},{400 + i % 7 * 300},{50 + i % 5 * 40}" for i in range(400))
    (tmp_path / "chat.csv").write_text(f"arrival_s,isl,osl\n{rows}\n")
    out = tmp_path / "w.yaml"

    assert run(["workload", str(tmp_path / "chat.csv"), "-o", str(out), "--percentile", "p95"]) == 0
    told = capsys.readouterr().err
    assert "buckets; lost by that:" in told
    load, _ = read_workload(out)
    own = summary(read_trace(tmp_path / "chat.csv"), "chat", None, Slo(percentile="p95")).workload
    assert load.traffic == own.traffic
    assert load.buckets == own.buckets
    assert load.rate_rps == max(load.traffic.rate_rps)
    plan = ["plan", "--gpus", "2xL4", "-m", "qwen3-0.6b", "--engine", "vllm", "-w", str(out), "--json"]
    assert run(plan) == 0
    assert (
        json.loads(capsys.readouterr().out)["problem"]["workload"]["traffic"]["slot_s"] == own.traffic.slot_s
    )


def test_presets_say_where_they_are_from(capsys) -> None:
    assert run(["workload", "--list"]) == 0
    out = capsys.readouterr().out
    assert SOURCES.keys() == PRESETS.keys()
    assert all(name in out for name in PRESETS)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a trace"),
        (["none.csv"], "no such file"),
        (["T", "--slot", "0"], "from a second"),
        (["T", "--ttft-ms", "fast"], "no limit in ms"),
    ],
)
def test_bad_input(tmp_path: Path, words: list[str], says: str, capsys) -> None:
    (tmp_path / "t.csv").write_text("arrival_s,isl,osl\n0,1,1\n1,1,1\n")
    words = [str(tmp_path / "t.csv") if w == "T" else w for w in words]
    assert run(["workload", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "says"),
    [("-1,5,5", ":3"), ("2,0,5", ":3"), ("nan,5,5", ":3"), ("x,5,5", ":3"), ("2,5,1e12", ":3")],
)
def test_rows_that_are_none_are_named(tmp_path: Path, row: str, says: str, capsys) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"arrival_s,isl,osl\n0,1,1\n{row}\n")
    assert run(["workload", str(path)]) == 2
    assert f"{path}{says}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("traffic: {slot_s: 60, rate_rps: [0, 0]}", "no slot has any requests"),
        ("traffic: {slot_s: 60, rate_rps: [1], peak_rps: [1, 2]}", "peak_rps"),
        ("traffic: {slot_s: 0, rate_rps: [1]}", "slot_s"),
        ("traffic: {slot_s: 60, rate_rps: []}", "rate_rps"),
    ],
)
def test_traffic_that_is_none(tmp_path: Path, text: str, says: str, capsys) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(f"{text}\n")
    assert run(["plan", "--gpus", "1xL4", "-m", "qwen3-0.6b", "-w", str(path)]) == 2
    err = capsys.readouterr().err
    assert str(path) in err
    assert says in err


def test_slots_know_the_rate_that_their_queue_needs() -> None:
    """Thirty at once in the second slot: for half of 2 s of waiting they need nearly 30 a second."""
    at = np.concatenate([np.arange(0.0, 600.0, 10.0), 700 + np.linspace(0, 1e-3, 30), [1199.0]])
    n = len(at)
    trace = Trace("t", at, np.full(n, 100), np.full(n, 10), 0, np.zeros(0, int), np.zeros(n + 1, int))
    traffic = summary(trace, "t", 600.0, Slo(ttft_ms=2000, percentile="p99")).workload.traffic

    assert traffic.needed_rps[0] == pytest.approx(traffic.rate_rps[0], rel=0.01)
    assert traffic.needed_rps[1] == pytest.approx(29.0, rel=0.02)
    assert summary(trace, "t", 600.0, Slo(percentile="mean")).workload.traffic.needed_rps == []


def figures(told) -> list[float]:
    """All numbers in a document."""
    if isinstance(told, dict | list):
        return [x for part in (told.values() if isinstance(told, dict) else told) for x in figures(part)]
    return [told] if isinstance(told, float) else []


def test_figures_that_were_counted_are_written_with_the_digits_that_a_trace_knows() -> None:
    """Differences of times like 4.100000000000023 are no figures; limits that were asked for stay."""
    made = summary(read_trace("docs/examples/trace.csv"), "x", None, Slo(ttft_ms=1234.56789)).workload
    told = document(made)

    assert told["slo"]["ttft_ms"] == 1234.56789
    assert all(float(f"{x:.6g}") == x for x in figures({**told, "slo": 0}))
    assert told["idle"]["ages_s"][1] == 4.1
    assert Workload.model_validate(told | {"slo": made.slo}).idle is not None


def test_ages_that_are_written_alike_are_one_class() -> None:
    """What returns at 4.1 s and at a rounding more returns at 4.1 s."""
    kind = IdleKind(bucket=0, depth=0.0, tokens=8.0, back=[0.125, 0.25, 0.5])
    idle = Idle(ages_s=[4.1, 4.1 + 1e-12, 5.0], kinds=[kind], hits=[[1.0, 2.0, 4.0]])
    buckets = [Bucket(isl=8, osl=2, share=1.0)]
    told = document(Workload(name="x", buckets=buckets, rate_rps=1.0, idle=idle))["idle"]

    assert told["ages_s"] == [4.1, 5.0]
    assert (told["kinds"][0]["back"], told["hits"]) == ([0.375, 0.5], [[3.0, 4.0]])

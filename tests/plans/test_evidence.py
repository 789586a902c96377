"""What was never measured of a replica, by the table of what was."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evidence import measured, steps, wins
from cluster_configs.reading import from_gpus
from planner.cost.calibration import Traits
from planner.plans import evidence as told
from planner.plans.schema import Route
from tests.check.plans import dense

R = dense().replicas[0]
TABLE = {
    R.engine: {
        "devices": {R.stages[0].device: {"weights": [R.precision.weights]}},
        "pipeline": False,
        "expert_parallel": False,
        "attention_dp": True,
        "split_wins": ["nvlink"],
    }
}


def mechanisms(monkeypatch, between=(), moe=False, **changes):
    monkeypatch.setattr(told, "table", lambda: TABLE)
    changed = R.model_copy(update=changes)
    return [mechanism for mechanism, _ in told.unmeasured(changed, between, moe)]


def test_what_was_measured_is_not_named(monkeypatch):
    assert mechanisms(monkeypatch) == []
    assert mechanisms(monkeypatch, attn_dp=2) == []


def test_each_mechanism_without_runs_is_named(monkeypatch):
    assert mechanisms(monkeypatch, pp=2, ep=2, cp=2, power_limit_watts=300.0) == [
        "pipeline",
        "expert_parallel",
        "context_parallel",
        "power_limit",
    ]


@pytest.mark.parametrize(("share", "named"), [(0.59, False), (0.61, True)])
def test_steps_beyond_those_of_public_runs_by_more_than_their_band_are_named(monkeypatch, share, named):
    """Runs reached 0.5; steps may be 1.2 times as quick as predicted: 0.6."""
    monkeypatch.setattr(told, "table", lambda: {R.engine: {"steps": 0.5}})

    said = list(told.beyond_runs(R, share, 1.2))

    assert [mechanism for mechanism, _ in said] == ["step_rate"] * named
    assert all("at 61 % of" in words and "reached 50 %" in words for _, words in said)


def test_nothing_is_known_of_the_steps_of_an_engine_without_runs(monkeypatch):
    monkeypatch.setattr(told, "table", lambda: {})

    assert list(told.beyond_runs(R, 5.0, 1.0)) == []


def test_the_best_whole_steps_of_a_run_are_its_requests_or_its_prompts():
    """Llama-3.1-8B in bf16 on an H100, 1,000 tokens in: 14.2 TFLOP, so 15 % of 794.5 TFLOP/s if they take
    0.12 s; eight requests of 0.5 s each, 16 a second, whose 100 further tokens are a tenth of it: 32 %."""
    traits = [Traits("vllm", "hopper", "h100-sxm", "bf16", "", "m", "vllm")] * 2
    row = {"asked": "yes", "model": "llama-3.1-8b", "device": "h100-sxm", "kv_precision": "", "gpus": "1"}
    row |= {"isl": "1000", "osl": "101", "concurrency": "1"}
    row |= {"silicon_ttft_ms": "120", "silicon_tpot_ms": "3.8"}

    assert steps([row], traits[:1]) == {"vllm": pytest.approx(0.15, abs=0.01)}
    assert steps([row, row | {"concurrency": "8"}], traits) == {"vllm": pytest.approx(0.32, abs=0.02)}


def test_servers_apart_win_by_link(monkeypatch):
    assert mechanisms(monkeypatch, ["nvlink"], role="prefill") == []
    assert mechanisms(monkeypatch, ["nvlink", "pcie+rdma"], role="prefill") == ["split"]


def test_formats_and_devices_without_runs_are_named(monkeypatch):
    other = R.precision.model_copy(update={"weights": "int4_wo"})
    stage = R.stages[0].model_copy(update={"device": "t4"})

    assert mechanisms(monkeypatch, precision=other) == ["precision"]
    assert mechanisms(monkeypatch, moe=True) == ["precision"]
    assert mechanisms(monkeypatch, stages=[stage]) == ["device"]


def test_an_engine_that_nobody_measured_has_no_devices(monkeypatch):
    assert mechanisms(monkeypatch, engine="mine") == ["device"]


def test_the_table_comes_from_the_rows():
    traits = [Traits("vllm", "hopper", "h100-sxm", "fp8", "", "m", "vllm")]
    rows = [{"engine": "vllm", "ep": "1", "pp": "2"}, {"engine": "vllm", "ep": "1", "pp": "1"}]

    found = measured(rows, traits, [])["vllm"]

    assert found["devices"] == {"h100-sxm": {"weights": ["fp8"]}}
    assert (found["pipeline"], found["expert_parallel"]) == (True, False)
    assert found["split_wins"] == []


@pytest.mark.parametrize(
    ("gains", "won"),
    [
        ([1.3], True),
        ([1.3, 0.8, 0.9], False),  # one run alone is no win
        ([1.1, 1.1, 0.5], True),  # most
        ([2.0, 0.9, 0.9], True),  # in the mean
        ([4.0, 0.0, 0.0], False),  # broke down
    ],
)
def test_a_way_of_caches_wins_by_most_comparisons_or_in_the_mean(gains, won):
    rows = [{"comparable": "yes", "engine": "vllm", "link": "NVLink + IB", "gain": str(g)} for g in gains]

    assert wins(rows, "vllm") == ({"nvlink", "nvlink+rdma"} if won else set())
    assert wins([row | {"comparable": "drafts"} for row in rows], "vllm") == set()
    assert wins(rows, "sglang") == set()


@pytest.mark.parametrize(
    ("gpus", "first", "second", "over"),
    [
        ("2xH100", "h100-sxm", "h100-sxm", "nvlink"),
        ("16xH100", "h100-sxm", "h100-sxm", "nvlink+rdma"),
        ("8xL40S", "l40s", "l40s", "pcie"),
        ("8xH100,8xL40S", "h100-sxm", "l40s", "ethernet"),
    ],
)
def test_caches_go_over_the_way_between_servers(gpus, first, second, over):
    stages = {name: R.stages[0].model_copy(update={"node_class": name}) for name in (first, second)}
    replicas = [
        R.model_copy(update={"id": role, "role": role, "stages": [stages[at]]})
        for role, at in (("prefill", first), ("decode", second))
    ]
    way = Route(bucket=0, share=1.0, prefill="prefill", decode="decode")

    used = told.caches_over(replicas, [way], from_gpus(gpus))

    assert used == {"prefill": [over], "decode": [over]}


def test_the_shipped_table_names_what_calibration_was_fitted_to():
    assert "weights" in told.table()["vllm"]["devices"]["h100-sxm"]


def test_each_says_how_far_off_times_may_be_by_it_alone(monkeypatch):
    """First tokens of servers that only prefill, steps of others: 0.2 is exp(1.2816 * 0.2) - 1 = 29 %."""
    monkeypatch.setattr(told, "widths", lambda: {"pipeline": (0.1, 0.2)})

    assert told.band_of("pipeline", "mixed") == pytest.approx(0.292)
    assert told.band_of("pipeline", "decode") == pytest.approx(0.292)
    assert told.band_of("pipeline", "prefill") == pytest.approx(0.137)
    assert told.band_of("draft", "mixed") == 0.0


def test_what_bands_have_anyway_counts_too(monkeypatch):
    """Attention-dp 0.15 in steps, with 0.2 on top 0.25; caches that are taken in 0.03, sent ones 0.35."""
    monkeypatch.setattr(told, "widths", lambda: {"attention_dp": (0.0, 0.2)})

    assert told.band_of("attention_dp", "mixed") == pytest.approx(np.exp(1.2816 * 0.25) - 1, abs=1e-3)
    assert told.band_of("split", "decode") == pytest.approx(np.exp(1.2816 * 0.03) - 1, abs=1e-3)
    assert told.band_of("split", "prefill") == pytest.approx(np.exp(1.2816 * 0.35) - 1, abs=1e-3)

"""What was never measured of a replica, by the table of what was."""

from __future__ import annotations

from benchmarks.evidence import measured
from planner.cost.calibration import Traits
from planner.plans import evidence as told
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


def mechanisms(monkeypatch, link="nvlink", moe=False, **changes):
    monkeypatch.setattr(told, "table", lambda: TABLE)
    changed = R.model_copy(update=changes)
    return [mechanism for mechanism, _ in told.unmeasured(changed, [link], moe)]


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


def test_servers_apart_win_by_link(monkeypatch):
    assert mechanisms(monkeypatch, role="prefill") == []
    assert mechanisms(monkeypatch, link="pcie", role="prefill") == ["split"]


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
    split = {"comparable": "yes", "engine": "vllm", "link": "PCIe"}

    found = measured(rows, traits, [split | {"gain": "0.9"}])["vllm"]

    assert found["devices"] == {"h100-sxm": {"weights": ["fp8"]}}
    assert (found["pipeline"], found["expert_parallel"]) == (True, False)
    assert found["split_wins"] == []
    assert measured(rows, traits, [split | {"gain": "1.3"}])["vllm"]["split_wins"] == ["pcie"]


def test_the_shipped_table_names_what_calibration_was_fitted_to():
    assert "weights" in told.table()["vllm"]["devices"]["h100-sxm"]

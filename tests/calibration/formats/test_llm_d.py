"""Reports of llm-d-benchmark by hand: both versions, which servers there were, units, what cannot be used."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.calibration.fields import Fields
from planner.calibration.formats import llm_d
from planner.errors import InputError

LATENCY = {
    "time_to_first_token": {"units": "s", "mean": 0.12, "p50": 0.1},
    "time_per_output_token": {"units": "ms/token", "mean": 15.0},
    "request_latency": {"units": "ms", "mean": 4000.0},
}
REQUESTS = {
    "total": 104, "failures": 3, "incomplete": 1,
    "input_length": {"mean": 1000.0}, "output_length": {"mean": 256.0},
}  # fmt: skip
ENGINE = {
    "kind": "engine",
    "standardized": {
        "role": "replica",
        "tool": "vllm",
        "tool_version": "0.11.0",
        "replicas": 2,
        "model": {"name": "qwen3-32b"},
        "accelerator": {"model": "H100", "count": 2, "parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1}},
    },
}
ROUTER = {"standardized": {"tool": "gateway"}}


def engine(**standardized: Any) -> dict[str, Any]:
    """ENGINE with other values; None: left out."""
    all_ = {**ENGINE["standardized"], **standardized}  # type: ignore[dict-item]
    return {"standardized": {k: v for k, v in all_.items() if v is not None}}


def report(
    stack: list[dict[str, Any]] | None = None, load: dict[str, Any] | None = None, **metrics: Any
) -> Fields:
    """A report of version 0.2 with these components, this load and other metrics."""
    aggregate = {
        "requests": REQUESTS,
        "latency": LATENCY,
        "throughput": {"request_rate": {"mean": 2.0}},
        **metrics,
    }
    return Fields(
        {
            "scenario": {
                "stack": [ENGINE, ROUTER] if stack is None else stack,
                "load": {"standardized": {"concurrency": 8}, **(load or {})},
            },
            "results": {"request_performance": {"aggregate": aggregate}},
        }
    )


OLD: dict[str, Any] = {
    "scenario": {
        "model": {"name": "qwen3-32b", "quantization": "FP8"},
        "load": {"args": {"max_concurrency": 8, "request_rate": "inf"}},
        "host": {
            "type": ["replica", "replica"],
            "accelerator": [
                {"model": "H100", "count": 4, "parallelism": {"tp": 4, "ep": 4}},
                {"model": "H100", "count": 4, "parallelism": {"tp": 4, "ep": 4}},
            ],
        },
        "platform": {"engine": [{"name": "ghcr.io/llm-d/llm-d-cuda:v0.2.0", "version": "a/b:1"}] * 2},
    },
    "metrics": {"requests": REQUESTS, "latency": LATENCY, "throughput": {"requests_per_sec": 2.5}},
}


def test_a_report_is_known_by_its_parts() -> None:
    assert llm_d.matches(report())
    assert llm_d.matches(Fields(OLD))
    assert not llm_d.matches(Fields({"scenario": {}}))
    assert not llm_d.matches(Fields({"metrics": {}}))


def test_version_2_by_hand() -> None:
    run = llm_d.run(report())

    assert run.told == {
        "model": "qwen3-32b", "device": "H100", "engine_version": "0.11.0", "tp": "2", "pp": "1",
    }  # fmt: skip
    assert run.guessed == {"engine": "vllm", "precision": ""}
    assert (run.isl, run.osl, run.rps, run.cap, run.asked_rps) == (1000.0, 256.0, 2.0, 8.0, None)
    assert (run.ttft_ms, run.tpot_ms, run.latency_ms, run.notes) == (120.0, 15.0, 4000.0, ())
    assert (run.completed, run.failed, run.replicas, run.dp, run.shares_prefix) == (100.0, 4.0, 2, 1, False)


def test_version_1_by_hand() -> None:
    """An image is no version; its engine is known by name; experts over four GPUs are told."""
    run = llm_d.run(Fields(OLD))

    assert run.told == {"model": "qwen3-32b", "device": "H100", "tp": "4", "pp": "1", "ep": "4"}
    assert run.guessed == {"engine": "vllm", "precision": "fp8"}
    assert (run.rps, run.cap, run.asked_rps, run.replicas) == (2.5, 8.0, math.inf, 2)


@pytest.mark.parametrize(("quantisation", "precision"), [("FP8", "fp8"), ("gguf", ""), (None, "")])
def test_a_quantisation_of_no_name_of_ours_is_not_guessed(quantisation: str | None, precision: str) -> None:
    scenario = {**OLD["scenario"], "model": {"name": "m", "quantization": quantisation}}

    assert llm_d.run(Fields({**OLD, "scenario": scenario})).guessed["precision"] == precision


def test_where_fewer_engines_than_accelerators_are_named_the_rest_are_of_another_kind() -> None:
    one = {**OLD["scenario"], "platform": {"engine": OLD["scenario"]["platform"]["engine"][:1]}}

    with pytest.raises(InputError, match="replicas of different kinds"):
        llm_d.run(Fields({**OLD, "scenario": one}))


def test_a_report_that_says_nothing_of_servers_leaves_them_to_options() -> None:
    run = llm_d.run(report(stack=[ROUTER]))

    assert (run.told, run.replicas, run.dp) == ({}, 1, 1)
    assert run.guessed == {"engine": "", "precision": ""}


@pytest.mark.parametrize(
    ("stack", "replicas"),
    [
        ([ENGINE, ENGINE, engine(replicas=5)], 9),
        ([engine(replicas=None)], 1),
        ([engine(role="decode")], 2),
        ([ROUTER, engine(replicas=3), ROUTER], 3),
    ],
)
def test_equal_servers_are_counted_together(stack: list[dict[str, Any]], replicas: int) -> None:
    assert llm_d.run(report(stack=stack)).replicas == replicas


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        ([engine(role="prefill"), engine(role="decode")], "prefill and decode ran on different GPUs"),
        ([engine(role="decode"), engine(role="prefill")], "prefill and decode ran on different GPUs"),
        ([ENGINE, engine(tool_version="0.12.0")], "replicas of different kinds shared the load"),
        ([ENGINE, engine(accelerator={"model": "L40S", "count": 2})], "replicas of different kinds"),
        ([engine(replicas=1.5)], "replicas"),
        ([engine(replicas=0)], "replicas"),
    ],
)
def test_servers_that_cannot_be_one_replica_are_refused(stack: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(InputError, match=says):
        llm_d.run(report(stack=stack))


@pytest.mark.parametrize(
    ("accelerator", "sizes"),
    [
        ({"model": "H100", "count": 8, "parallelism": {"tp": 8, "ep": 8}}, {"tp": "8", "pp": "1", "ep": "8"}),
        ({"model": "H100", "count": 8}, {"tp": "1", "pp": "1"}),
        ({"model": "H100", "count": 0, "parallelism": {"tp": 8}}, {}),
        ({"model": "H100", "parallelism": {"tp": 8}}, {}),
    ],
)
def test_sizes_are_known_where_gpus_are(accelerator: dict[str, Any], sizes: dict[str, str]) -> None:
    told = llm_d.run(report(stack=[engine(accelerator=accelerator)])).told

    assert {axis: told[axis] for axis in ("tp", "pp", "ep") if axis in told} == sizes


@pytest.mark.parametrize(
    ("load", "shares"),
    [
        ({}, False),
        ({"prefix": {"length": 5}}, True),
        ({"multi_turn": {"enabled": True}}, True),
        ({"multi_turn": {"enabled": False}}, False),
    ],
)
def test_prompts_that_share_beginnings_are_noted(load: dict[str, Any], shares: bool) -> None:
    assert llm_d.run(report(load={"standardized": {"rate_qps": 3, **load}})).shares_prefix is shares


def test_loads_beside_this_one_make_it_useless() -> None:
    with pytest.raises(InputError, match="other loads ran on the same servers"):
        llm_d.run(report(load={"metadata": {"concurrent_with": ["other"]}}))


@pytest.mark.parametrize(
    ("throughput", "rps"),
    [
        ({"requests_rate": {"mean": 3.0}}, 3.0),
        ({"request_rate": {"mean": 2.0}, "requests_rate": {"mean": 3.0}}, 2.0),
        ({}, None),
    ],
)
def test_the_rate_has_two_names(throughput: dict[str, Any], rps: float | None) -> None:
    assert llm_d.run(report(throughput=throughput)).rps == rps


@pytest.mark.parametrize(
    ("figures", "ms", "notes"),
    [
        ({"units": "s/token", "mean": 0.015}, 15.0, ()),
        ({"units": "ms", "p50": 14.0}, 14.0, ("time_per_output_token is a median",)),
        ({}, 9.0, ()),
        ({"units": "ms"}, 9.0, ()),
    ],
)
def test_a_time_is_the_first_that_is_told_in_its_own_unit(
    figures: dict[str, Any], ms: float, notes: tuple[str, ...]
) -> None:
    """Gaps between tokens stand in for the time of each."""
    gaps = {"units": "s", "mean": 0.009}
    latency = {**LATENCY, "time_per_output_token": figures, "inter_token_latency": gaps}
    run = llm_d.run(report(latency=latency))

    assert run.tpot_ms == pytest.approx(ms)
    assert run.notes == notes


@pytest.mark.parametrize("unit", ["us", "", "tokens/s"])
def test_a_unit_that_nobody_knows_is_refused(unit: str) -> None:
    latency = {**LATENCY, "time_to_first_token": {"units": unit, "mean": 1.0}}

    with pytest.raises(InputError, match=f"`time_to_first_token` is in `{unit}`") as error:
        llm_d.run(report(latency=latency))
    assert error.value.hint == "known units: ms, s, ms/token, s/token"


def test_a_report_without_counts_or_times_says_so_by_none() -> None:
    run = llm_d.run(report(requests={}, latency={}))

    assert (run.completed, run.failed) == (None, 0.0)
    assert (run.ttft_ms, run.tpot_ms, run.latency_ms, run.isl, run.osl) == (None,) * 5

"""Floors by hand, and that a prediction beyond them is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.floors import Work
from benchmarks.roofline import BEYOND, Cells, drawn, measured, ratios, report
from cluster_configs import devices
from model_zoo import catalog
from planner.predict.predictions import Prediction, predict_rows

MOST, BYTES_PER_S = 794.5e12, 3.35e12
LAYERS, MATRICES, HEAD = 32, 41_943_040 + 3 * 4096 * 14_336, 128_256 * 4096
"""Of Llama-3.1-8B: layers, parameters of the matrices of one, and of the LM head."""

ROW: Cells = {
    **{"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "kv_precision": "bf16"},
    **{"tp": "1", "pp": "2", "attn_dp": "1", "ep": "1", "moe_tp": "1", "prefix_hit": "0"},
    **{"isl": "1000", "osl": "101", "concurrency": "8"},
}


def work(model: str = "llama-3.1-8b", device: str = "h100-sxm", kv: str = "bf16") -> Work:
    return Work(catalog.find(model)[0], devices.find(device), kv)


def predicted(role: str, **times: Any) -> Prediction:
    (made,) = predict_rows([{**ROW, "role": role}])
    assert isinstance(made, Prediction)
    return replace(made, **times)


def test_a_token_of_a_dense_model_takes_two_flops_a_parameter() -> None:
    assert work().token_s == pytest.approx(2 * LAYERS * MATRICES / MOST)
    assert work().head_s == pytest.approx(2 * HEAD / MOST)


def test_a_prompt_meets_half_of_itself_on_average() -> None:
    pairs = 1000 * 500 * LAYERS * 2 * 32 * (128 + 128)
    whole = work().prompt_s(np.array([1000.0]), np.array([1000.0]))[0]

    assert whole == pytest.approx(1000 * work().token_s + work().head_s + pairs / MOST)


def test_a_step_reads_weights_and_cache() -> None:
    assert work().read_bytes(np.array([7.0]))[0] == pytest.approx(2 * (LAYERS * MATRICES + HEAD))
    assert work().cache_bytes(np.array([1000.0]))[0] == pytest.approx(1000 * 131_072)
    assert work(kv="fp8").cache_bytes(np.array([1000.0]))[0] == pytest.approx(1000 * 65_536)


def test_of_experts_one_token_reads_those_it_takes_and_many_read_all() -> None:
    sparse = work("mixtral-8x7b")
    none, one, many = sparse.read_bytes(np.array([0.0, 1.0, 1e9]))

    assert (one - none) / (many - none) == pytest.approx(2 / 8)
    assert (many - none) == pytest.approx(2 * 32 * 8 * 3 * 4096 * 14_336)


@pytest.mark.parametrize(
    ("model", "device", "tflops"),
    [
        ("llama-3.1-70b-fp8", "h100-sxm", 1402.6),
        ("llama-3.1-70b-fp8", "a100-sxm", 271.2),
        ("llama-3.1-70b-awq-int4", "h100-sxm", 794.5),
    ],
)
def test_products_run_at_the_rate_that_their_weights_have_there(
    model: str, device: str, tflops: float
) -> None:
    found = work(model, device)

    assert found.most(found.card.weights.dense) == 1e12 * tflops


def test_a_rate_of_prompts_beyond_the_best_product_is_found() -> None:
    """Two GPUs that compute at the best product without a pause: exactly at the roofline."""
    most = 2 / work().prompt_s(np.array([1000.0]), np.array([1000.0]))[0]
    cells = {**ROW, "role": "prefill"}
    at, beyond = ratios(
        work(), [cells, cells], [predicted("prefill", out_tok_per_s=x * most) for x in (1, 1.5)]
    )

    assert at.of["compute"] == pytest.approx(1.0)
    assert beyond.worst == pytest.approx(1.5)
    assert beyond.worst > BEYOND


def test_a_step_faster_than_the_memory_is_found() -> None:
    """Next to no rate: one sequence, which passes the weights of both stages one after the other."""
    least_s = (2 * (LAYERS * MATRICES + HEAD) + 131_072 * 1050.5) / BYTES_PER_S
    cells = {**ROW, "role": "decode"}
    (found,) = ratios(work(), [cells], [predicted("decode", out_tok_per_s=1e-6, tpot_ms=500 * least_s)])

    assert found.of["step"] == pytest.approx(2.0, rel=1e-4)


def test_a_first_token_before_the_prompt_is_computed_is_found() -> None:
    whole = work().prompt_s(np.array([1000.0]), np.array([1000.0]))[0]
    cells = {**ROW, "role": "mixed"}
    (found,) = ratios(work(), [cells], [predicted("mixed", out_tok_per_s=1.0, ttft_ms=1e3 * whole / 4)])

    assert found.of["prompt"] == pytest.approx(2.0)


def test_designs_are_drawn_the_same_each_time_and_counted() -> None:
    assert drawn(np.random.default_rng(4), 5) == drawn(np.random.default_rng(4), 5)
    found, left = measured(np.random.default_rng(4), 60)
    table = report([replace(found[0], of={"compute": 1.25}), *found[1:]], left, 4)

    assert len(found) == 60
    assert "60 designs, seed 4:" in table
    assert ",1.25,," in table

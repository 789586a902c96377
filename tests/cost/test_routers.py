"""Routers in 32 bits: which engines' versions multiply them without tensor cores, and what that takes."""

import pytest

from benchmarks.routers import MEASURED, said_us
from model_zoo.catalog import find
from planner.cost.routers import router_precision


@pytest.mark.parametrize(
    ("model", "engine", "version", "found"),
    [
        ("minimax-m2.5", "vllm", "0.19.0", "fp32"),
        ("minimax-m2.5", "vllm", "v0.16.1", "fp32"),
        ("minimax-m2.5", "vllm", "0.26.0", "bf16"),
        ("minimax-m2.5", "vllm", "", "bf16"),
        ("minimax-m2.5", "sglang", "0.5.9", "fp32"),
        ("minimax-m2.5", "trtllm", "1.2.0", "bf16"),
        ("gpt-oss-120b", "vllm", "0.19.0", "bf16"),
        ("llama-3.1-70b", "vllm", "0.19.0", "bf16"),
    ],
)
def test_a_router_is_multiplied_as_the_engines_version_does(model, engine, version, found):
    assert router_precision(find(model)[0], engine, version) == found


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_published_times_are_met_for_many_rows_and_within_a_factor_of_two_for_few(precision):
    for rows, us in MEASURED[precision].items():
        ratio = said_us(precision, rows) / us

        assert 0.5 < ratio < 1.75
        if rows >= 32:
            assert ratio == pytest.approx(1, abs=0.12)

"""Routers in 32 bits: which engines' versions multiply them without tensor cores, and what that takes."""

import pytest

from benchmarks.routers import MEASURED, said_us
from model_zoo.catalog import find
from planner.cost.routers import without_tensor_cores
from planner.designs.precision import precisions, served


@pytest.mark.parametrize(
    ("model", "engine", "version", "slow"),
    [
        ("minimax-m2.5", "vllm", "0.19.0", True),
        ("minimax-m2.5", "vllm", "v0.16.1", True),
        ("minimax-m2.5", "vllm", "0.26.0", False),
        ("minimax-m2.5", "vllm", "", False),
        ("minimax-m2.5", "sglang", "0.5.9", True),
        ("minimax-m2.5", "trtllm", "1.2.0", False),
        ("glm-4.6", "vllm", "0.26.0", True),
        ("glm-4.6", "sglang", "0.5.9", False),
        ("glm-4.6", "sglang", "0.5.12", True),
        ("glm-4.6", "trtllm", "1.2.0", False),
        ("nemotron-3-super-120b-a12b-fp8", "vllm", "0.17.0", True),
        ("nemotron-3-super-120b-a12b-fp8", "sglang", "0.5.9", False),
        ("step-3.5-flash", "sglang", "0.5.8", True),
        ("gpt-oss-120b", "vllm", "0.19.0", False),
        ("llama-3.1-70b", "vllm", "0.19.0", False),
    ],
)
def test_a_router_is_multiplied_as_the_engines_version_does(model, engine, version, slow):
    assert without_tensor_cores(find(model)[0], engine, version) is slow


def test_a_card_of_ones_own_that_holds_its_router_in_32_bits_is_as_minimax():
    own = find("minimax-m2.5")[0].model_copy(update={"architecture": None})

    assert [without_tensor_cores(own, "vllm", v) for v in ("0.19.0", "0.26.0")] == [True, False]
    assert not without_tensor_cores(own, "trtllm", "1.2.0")


@pytest.mark.parametrize(
    ("model", "router"), [("minimax-m2.5", "tf32"), ("minimax-m2.5-nvfp4", "tf32"), ("gpt-oss-120b", "bf16")]
)
def test_servers_of_today_multiply_what_they_hold_in_32_bits_on_tensor_cores(model, router):
    card = find(model)[0]

    assert precisions(card).router == router
    assert served(card, "fp8", "fp8", "bf16").router == router


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_published_times_are_met_for_many_rows_and_within_a_factor_of_two_for_few(precision):
    for rows, us in MEASURED[precision].items():
        ratio = said_us(precision, rows) / us

        assert 0.5 < ratio < 1.75
        if rows >= 32:
            assert ratio == pytest.approx(1, abs=0.12)

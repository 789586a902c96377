"""Memory counted for as many sequences as the cache then holds."""

from __future__ import annotations

import numpy as np
import pytest

from model_zoo.catalog import find
from planner import api
from planner.cost.activations import sampling_bytes
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.operating.room import counted, held_tokens, planned_sequences, unfilled_tokens
from planner.predict.predictions import usual_node

CARD = find("llama-3.1-8b")[0]
BUDGET, ONE, TP4 = 2048, like(1, 1), like(1, 4)


def model(device: str, engine: str = "vllm") -> CostModel:
    return CostModel(CARD, usual_node(device), engine, precisions(CARD))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(
    ("device", "context"),
    [("h100-sxm", 20.0), ("h100-sxm", 200.0), ("h100-sxm", 4000.0), ("rtx-4090", 2000.0)],
)
def test_memory_is_counted_for_as_many_sequences_as_it_then_holds(device, engine, context):
    m = model(device, engine)
    for designs in (ONE, TP4):
        memory = counted(m, designs, BUDGET, context)
        held = memory.kv_bytes / m.cache_bytes(designs, np.array([context]), memory.stage)[:, 0]

        assert held == pytest.approx(planned_sequences(m, designs, BUDGET, context), rel=0.03)


def test_many_short_sequences_leave_less_cache_and_few_long_ones_more():
    many, few = (counted(model("h100-sxm"), TP4, BUDGET, context) for context in (200.0, 100_000.0))
    usual = model("h100-sxm").memory(TP4, BUDGET, 200.0)
    lost = sampling_bytes(CARD, "vllm", planned_sequences(model("h100-sxm"), TP4, BUDGET, 200.0))

    assert many.kv_bytes < usual.kv_bytes < few.kv_bytes
    assert many.activation_bytes == pytest.approx(lost)


def test_a_design_without_room_has_memory_for_one_sequence():
    card = find("llama-3.1-70b")[0]
    large = CostModel(card, usual_node("l4"), "vllm", precisions(card))

    assert planned_sequences(large, ONE, BUDGET, 1000.0).tolist() == [1.0]


@pytest.mark.parametrize(("gpus", "told"), [("2xA100", 8192), ("2xH100", None)])
def test_engines_are_told_the_tokens_of_a_step_that_they_would_not_take_by_themselves(gpus, told):
    """vLLM takes 2,048 on an A100 of 80 GB, by its name, and 8,192 on an H100."""
    made = api.plan(None, "llama-3.1-8b", gpus=gpus, engine="vllm")

    assert {r.max_batched_tokens for r in made.replicas} == {told}


def test_a_sequence_holds_its_prompt_half_of_its_answer_and_half_of_a_block():
    """TensorRT-LLM, which lets nobody in without room for the whole answer, holds all of it."""
    own, osl = np.array([100.0]), np.array([40.0])

    assert held_tokens("vllm", own, osl) == pytest.approx(100 + 15 / 2 + 20)
    assert held_tokens("sglang", own, osl) == pytest.approx(100 + 20)
    assert held_tokens("trtllm", own, osl) == pytest.approx(100 + unfilled_tokens("trtllm") + 40)
    assert held_tokens("trtllm", own, osl, np.array([90.0])) == pytest.approx(
        100 + unfilled_tokens("trtllm") + 90
    )
    assert held_tokens("vllm", own, osl, np.array([90.0])) == held_tokens("vllm", own, osl)

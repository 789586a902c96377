"""What rows ask of a server: waits of attention-dp ranks, and memory shared as each engine means it."""

import pytest

from planner.predict.loads import Places, Rows
from planner.predict.predictions import looked_up
from planner.predict.rows import parse

ROW = {"model": "llama-3.1-8b", "device": "h100-sxm", "tp": "1", "isl": "2048", "osl": "256"}
DP = {"model": "deepseek-v3", "device": "h200", "engine": "trtllm", "tp": "1", "attn_dp": "8", "ep": "8"}


@pytest.mark.parametrize(
    ("concurrency", "cells", "steps"),
    [
        ("64", {}, 30.0),  # 8 a rank end one in 115 steps, so half of the 60 at most are waited
        ("64", {"balance_steps": "20"}, 10.0),
        ("64", {"balance_steps": "0"}, 0.0),
        ("64", {"start": "steady"}, 0.0),
        ("2048", {}, 0.5 * 922 / 256 * sum(1 / i for i in range(1, 9))),
    ],
)
def test_attention_dp_ranks_wait_until_each_has_a_prompt(concurrency, cells, steps):
    asked = DP | {"osl": "922", "concurrency": concurrency} | cells
    group, row = looked_up(parse(asked))

    assert Rows.of(group, [row]).waits == pytest.approx([steps])


@pytest.mark.parametrize(
    ("engine", "share", "kept"),
    [("vllm", "0.5", 0.5), ("sglang", "0.5", 0.5), ("trtllm", "0.5", 0.5 / 0.9)],
)
def test_memory_is_shared_as_each_engine_means_it(engine, share, kept):
    """By hand: of all memory less weights and activations (vLLM), of weights and cache together (SGLang), of
    what is free (TensorRT-LLM)."""
    sizes = []
    for cells in ({}, {"memory_share": share}):
        group, row = looked_up(parse(ROW | {"engine": engine} | cells))
        cost, load = group.cost(), Rows.of(group, [row])
        sizes.append(Places.of(cost, load, group.token_budget).memory)
    usual, told = sizes
    room = 0.99 * 1e9 * group.node_class.device.memory_gb
    if engine == "trtllm":
        assert told.kv_bytes == pytest.approx(kept * usual.kv_bytes, rel=1e-6)
    elif engine == "vllm":
        assert usual.kv_bytes - told.kv_bytes == pytest.approx((0.92 - 0.5) * room, rel=0.05)
    else:
        assert told.kv_bytes + told.weights_bytes == pytest.approx(0.5 * room, rel=0.05)


def test_a_share_of_memory_counts_in_pipelines_of_unlike_devices_and_beside_a_drafter():
    """By hand: 80 GB cards hold less cache by 0.42 of what vLLM may use, as alone."""
    unlike = {"device": "", "tp": "", "stages": "h100-sxm:tp1:16+a100-sxm-80gb:tp1:16"}
    drafted = {
        "model": "deepseek-v3",
        "device": "h200-sxm",
        "tp": "16",
        "draft_tokens": "1",
        "accepted_tokens": "0.8",
    }
    for cells in (unlike, drafted):
        held = []
        for share in ("", "0.5"):
            told = {k: v for k, v in (ROW | cells | {"memory_share": share}).items() if v}
            group, row = looked_up(parse(told))
            cost, load = group.cost(), Rows.of(group, [row])
            held.append(Places.of(cost, load, group.token_budget).memory.kv_bytes)
        whole = 0.99e9 * min(
            n.device.memory_gb for n in (group.pipeline.classes if group.pipeline else (group.node_class,))
        )
        assert held[0] - held[1] == pytest.approx(0.42 * whole, rel=0.06), cells

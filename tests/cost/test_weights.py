"""Weights on each GPU and layers on each stage: by hand, and for any model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo import catalog
from model_zoo.derive import mtp_params, weight_bytes
from model_zoo.schema import Attention, ModelCard, MoeFfn
from planner.cost.memory import kv_bytes_per_seq, room_by_stage, stage_layers
from planner.designs.precision import precisions
from planner.rules.designs import valid_designs
from tests.cost.memory_cases import (
    ENGINES,
    GIB,
    SMALL,
    SMALL_LAYER_BYTES,
    SMALL_TABLE_BYTES,
    cards,
    changed,
    designs,
    per_replica,
    room,
    vllm,
)

SPLITS = Path(__file__).resolve().parents[3] / "shared" / "engines" / "pp_splits.json"


# Weights: what is divided and what is repeated


def test_embedding_is_on_the_first_stage_and_the_head_on_the_last():
    by_stage = room_by_stage(SMALL, 16 * GIB, designs((1, 3)), precisions(SMALL), "vllm", 2048)

    ends = 2 * SMALL_LAYER_BYTES + SMALL_TABLE_BYTES
    assert by_stage.weights_bytes[0] == pytest.approx([ends, 2 * SMALL_LAYER_BYTES, ends])


def test_a_tied_embedding_is_held_once_on_one_stage_and_twice_on_more():
    tied = changed(SMALL, {"tied_embeddings": True})

    by_stage = room_by_stage(tied, 16 * GIB, designs((1, 1), (1, 2)), precisions(tied), "vllm", 2048)

    half = 3 * SMALL_LAYER_BYTES + SMALL_TABLE_BYTES
    assert by_stage.weights_bytes[0] == pytest.approx([6 * SMALL_LAYER_BYTES + SMALL_TABLE_BYTES, 0])
    assert by_stage.weights_bytes[1] == pytest.approx([half, half])


def test_kv_heads_fewer_than_ranks_are_repeated_in_weights_and_cache():
    gqa = changed(SMALL, {"mixers": {"a": Attention(heads=8, kv_heads=2, head_dim=32)}})
    d, p = designs((2, 1), (8, 1)), precisions(gqa)

    weights = room(gqa, 16 * GIB, d, p, "vllm", 2048).weights_bytes
    cache = kv_bytes_per_seq(gqa, d, p, "vllm", np.array([100.0]))[:, 0]

    one_head = 2 * 2 * 32 * 256  # K and V of one head in 16 bit
    q_and_o, ffn = 2 * 2 * 256 * 256, 2 * 3 * 256 * 512
    assert weights[1] == pytest.approx(6 * ((q_and_o + ffn) / 8 + one_head) + 2 * SMALL_TABLE_BYTES / 8)
    assert cache[0] == cache[1] == 100 * 6 * 2 * 32 * 2


def test_experts_divide_over_ep_and_moe_tp_and_shared_parts_repeat_on_attention_dp_ranks():
    moe = MoeFfn(experts=16, top_k=2, inner=128, shared_inner=128)
    card = changed(SMALL, {"ffns": {"f": moe}})
    shapes = (4, 1, 1, 4, 1), (4, 1, 1, 1, 4), (1, 1, 4, 1, 4), (1, 1, 4, 2, 2)

    weights = room(card, 16 * GIB, designs(*shapes), precisions(card), "sglang", 2048).weights_bytes

    attention, shared, router = 2 * 4 * 256 * 256, 2 * 3 * 256 * 128, 2 * 16 * 256
    routed = 16 * shared
    divided = 6 * ((attention + shared + routed) / 4 + router) + 2 * SMALL_TABLE_BYTES / 4
    whole = 6 * (attention + shared + routed / 4 + router) + 2 * SMALL_TABLE_BYTES
    assert weights == pytest.approx([divided, divided, whole, whole])


def test_experts_that_do_not_divide_leave_the_fullest_rank_with_one_more():
    card = changed(SMALL, {"ffns": {"f": MoeFfn(experts=16, top_k=2, inner=128)}})

    even, uneven = (
        room(card, 16 * GIB, designs((1, 1, ep, 1, ep)), precisions(card), "vllm", 2048).weights_bytes[0]
        for ep in (4, 3)
    )

    assert uneven - even == pytest.approx(6 * (6 - 4) * 2 * 3 * 256 * 128)


def test_lower_precision_shrinks_what_it_names_and_spares_embedding_and_router():
    card = changed(SMALL, {"ffns": {"f": MoeFfn(experts=16, top_k=2, inner=128)}})

    bf16, fp8 = (
        room(card, 16 * GIB, designs((1, 1)), precisions(card, p), "vllm", 2048).weights_bytes[0]
        for p in (None, "fp8")
    )

    kept = 2 * SMALL_TABLE_BYTES + 6 * 2 * 16 * 256
    assert fp8 - kept == pytest.approx((bf16 - kept) / 2)


def test_a_checkpoint_keeps_its_own_mix_of_precisions():
    """gpt-oss: experts in mxfp4, all else in 16 bit; its size on one GPU is the checkpoint's."""
    card = catalog.find("gpt-oss-120b")[0]

    held = vllm(card, 80 * GIB, (1, 1)).weights_bytes[0]

    assert held == pytest.approx(sum(weight_bytes(card, mtp=True, vision=True).values()), rel=1e-6)


def test_mtp_layers_and_vision_tower_count():
    card = catalog.find("qwen3.5-27b")[0]
    without = changed(card, {"mtp_layers": 0, "vision_params": 0})

    more = vllm(card, 80 * GIB, (1, 1)).weights_bytes - vllm(without, 80 * GIB, (1, 1)).weights_bytes

    assert more[0] == pytest.approx(2 * (mtp_params(card) + card.vision_params))


# Stages


@given(layers=st.integers(1, 150), pp=st.integers(1, 32))
def test_stages_cover_every_layer_once_and_differ_by_one_at_most(layers: int, pp: int):
    ranges = stage_layers(layers, pp)
    sizes = [stop - start for start, stop in ranges]

    assert [layer for start, stop in ranges for layer in range(start, stop)] == list(range(layers))
    assert max(sizes) - min(sizes) <= 1


def test_stages_are_split_as_vllm_does():
    if not SPLITS.exists():
        pytest.skip("shared/engines/pp_splits.json is not beside the repository")

    for case in json.loads(SPLITS.read_text())["cases"]:
        assert [b - a for a, b in stage_layers(case["layers"], case["pp"])] == case["vllm"]


@settings(max_examples=60)
@given(card=cards(), engine=st.sampled_from(ENGINES))
def test_all_gpus_together_hold_at_least_the_checkpoint(card: ModelCard, engine: str):
    d = valid_designs(card, engine, 16, 32)

    weights = per_replica(card, d, precisions(card), engine, 80 * GIB)[0].weights_bytes

    checkpoint = sum(weight_bytes(card, mtp=True, vision=True).values())
    held = weights.sum(axis=1) * d.tp * d.attn_dp
    assert (held >= checkpoint * (1 - 1e-12)).all()
    assert held[d.gpus == 1] == pytest.approx(checkpoint)


@settings(max_examples=60)
@given(tp=st.sampled_from([1, 2, 4, 8]), pp=st.integers(1, 6))
def test_all_gpus_together_hold_exactly_the_checkpoint_where_every_matrix_divides(tp: int, pp: int):
    weights = room_by_stage(SMALL, GIB, designs((tp, pp)), precisions(SMALL), "vllm", 2048).weights_bytes

    assert weights.sum() * tp == pytest.approx(sum(weight_bytes(SMALL).values()))


def test_replacing_a_precision_that_is_the_checkpoints_own_changes_nothing():
    card = catalog.find("deepseek-v3")[0]
    used = precisions(card)

    same = replace(used, gemm=card.weights.attention)

    assert (
        vllm(card, 141e9, (8, 1)).weights_bytes
        == room(card, 141e9, designs((8, 1)), same, "vllm", 8192).weights_bytes
    )

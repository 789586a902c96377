"""Norms, biases, sinks and towers: parameters that are no matrix of a layer, counted by hand."""

from __future__ import annotations

import pytest

from model_zoo.huggingface.keys import Keys
from model_zoo.huggingface.vectors import extra_params, vision_params
from model_zoo.schema import Attention, DenseFfn, Indexer, Layer, LinearAttention, Mamba2, Mla, MoeFfn
from planner.reading.documents import Document

HIDDEN = 64
GQA = Attention(heads=4, kv_heads=2, head_dim=16)
DENSE = DenseFfn(inner=128)
MOE = MoeFfn(experts=8, top_k=2, inner=32)
MLA = Mla(heads=4, q_lora_rank=24, kv_lora_rank=20, qk_nope=8, qk_rope=8, v_head_dim=16)
GDN = LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=8)
V4 = Attention(heads=4, kv_heads=1, head_dim=16, shared_kv=True, q_lora_rank=24, compress=4)


def vectors(mixer=GQA, ffn=DENSE, layers=1, **told):
    """Of one layer, without its two norms and the last norm of the model."""
    parts = (mixer is not None) + (ffn is not None)
    found = extra_params(Keys(Document(told, "c.json")), [Layer(mixer, ffn)] * layers, HIDDEN)
    return found - HIDDEN - layers * parts * HIDDEN


def test_a_plain_model_has_a_norm_before_each_part_and_one_at_the_end():
    told = Keys(Document({"model_type": "llama"}, "config.json"))

    assert (
        extra_params(told, [Layer(GQA, DENSE), Layer(GQA, None), Layer(None, None)], 64) == (2 + 1 + 1) * 64
    )


def test_gemma_has_norms_before_and_after():
    assert vectors(model_type="gemma2") == 2 * HIDDEN


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ({}, 0),
        ({"attention_bias": True}, 8 * 16),  # of 4 + 2 + 2 heads
        ({"attention_bias": False}, 0),
        ({"model_type": "qwen2"}, 8 * 16),
        ({"model_type": "qwen3"}, 2 * 16),  # norms of Q and K, one head wide
        ({"use_qk_norm": True}, 2 * 16),
        ({"model_type": "gpt_oss"}, 64 + 4),  # bias of the output, a sink a head
    ],
)
def test_biases_norms_and_sinks_of_attention(told, count):
    assert vectors(**told) == count


@pytest.mark.parametrize(
    ("mixer", "count"),
    [
        (MLA, 24 + 20),
        (MLA.model_copy(update={"q_lora_rank": None}), 20),
        (MLA.model_copy(update={"indexer": Indexer(heads=2, head_dim=8, top_k=16)}), 24 + 20 + 2 * 8),
        # convolution of 4 over 2 x 16 key and 32 value channels, two numbers a value head, one norm
        (GDN, 4 * 64 + 2 * 4 + 8),
        (GDN.model_copy(update={"decay_rank": 3}), 4 * 64 + 4 + 16 + 8),
        # convolution of 4 with bias over 64 + 2 x 2 x 8 channels; A, D, dt of 4 heads; a norm of 64
        (Mamba2(heads=4, head_dim=16, groups=2, state=8), 5 * 96 + 3 * 4 + 64),
        # latent of Q, KV and sinks; positions of 4 entries, twice as they overlap; the compressor's norm
        (V4, 24 + 16 + 4 + 2 * 4 * 16 + 16),
        (V4.model_copy(update={"compress": 128}), 24 + 16 + 4 + 128 * 16 + 16),
        (V4.model_copy(update={"compress": None, "q_lora_rank": None}), 16 + 4),
        (None, 0),
    ],
)  # fmt: skip
def test_vectors_of_other_mixers(mixer, count):
    assert vectors(mixer) == count


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ({}, 0),
        ({"topk_method": "noaux_tc"}, 8),
        ({"use_routing_bias": True}, 8),
        ({"use_moe_router_bias": True}, 8),
        ({"model_type": "gpt_oss"}, 8 * (1 + 2 * 32 + 64)),  # the router's; gate, up and down of each expert
        ({"shared_expert_intermediate_size": 32}, 64),
    ],
)
def test_biases_of_routers_and_experts(told, count):
    assert vectors(None, MOE, **told) == count
    assert vectors(None, DENSE, **told) == 0


def test_residual_streams_are_mixed_before_both_parts_of_every_layer():
    """Two streams: (2 + 2) x 2 mixes, each from 2 x 64 values, as many biases, three scales."""
    assert vectors(layers=5, hc_mult=2) == 5 * 2 * (8 * 2 * 64 + 8 + 3)


TOWER = {"hidden_size": 32, "depth": 3, "intermediate_size": 96, "patch_size": 4}


def tower(**told):
    return vision_params(Keys(Document({"vision_config": TOWER | told}, "c.json")), HIDDEN)


def test_a_tower_is_its_blocks_its_patches_and_its_projector():
    blocks, patches = 3 * (4 * 32 * 32 + 2 * 32 * 96), 3 * 16 * 32
    merged = 4 * 32  # 2 x 2 patches

    assert tower() == blocks + patches + merged * merged + merged * HIDDEN
    assert vision_params(Keys(Document({}, "c.json")), HIDDEN) == 0
    assert vision_params(Keys(Document({"vision_config": {"depth": 3}}, "c.json")), HIDDEN) == 0


@pytest.mark.parametrize(
    ("told", "more"),
    [
        ({"model_type": "pixtral"}, 3 * 32 * 96),  # a third matrix a block
        ({"temporal_patch_size": 2}, 3 * 16 * 32),
        ({"num_position_embeddings": 10}, 10 * 32),
        ({"init_pos_emb_height": 3, "init_pos_emb_width": 5}, 15 * 32),
        ({"num_position_embeddings": 10, "init_pos_emb_height": 3, "init_pos_emb_width": 5}, 10 * 32),
        ({"deepstack_visual_indexes": [1, 2]}, 2 * (128 * 128 + 128 * HIDDEN)),
        ({"out_hidden_size": 2 * HIDDEN}, 128 * HIDDEN),
        ({"qkv_hidden_size": 48}, 3 * 4 * 32 * 16),
        ({"spatial_merge_size": 1}, 32 * 32 + 32 * HIDDEN - 128 * 128 - 128 * HIDDEN),
        ({"model_type": "gemma3"}, 32 * HIDDEN - 128 * 128 - 128 * HIDDEN),
    ],
)
def test_what_towers_have_besides(told, more):
    assert tower(**told) - tower() == more


def test_a_tower_that_does_not_say_has_blocks_of_four_widths_and_patches_of_fourteen():
    bare = {"hidden_size": 32, "depth": 3, "intermediate_size": None, "patch_size": None}

    assert tower(**bare) - tower() == 3 * 2 * 32 * 32 + 3 * (14 * 14 - 16) * 32

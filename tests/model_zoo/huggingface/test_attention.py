"""Which mixer every layer of a Hugging Face config has."""

from __future__ import annotations

import pytest

from model_zoo.huggingface.attention import compressed, full, indexer, layer_kinds, linear, mamba, mixers
from model_zoo.huggingface.keys import Keys
from model_zoo.schema import Attention, Mla
from planner.errors import InputError
from planner.reading.documents import Document


def keys(**told):
    return Keys(Document(told, "config.json"))


PLAIN = {"num_attention_heads": 8, "num_key_value_heads": 2}


def kinds(layers, **told):
    return "".join(kind[0] for kind in layer_kinds(keys(**told), layers))


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({}, "ffff"),
        ({"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 8}, "fwfw"),
        ({"layer_types": ["sliding_attention"] * 4}, "ffff"),  # no window is told
        ({"layer_types": ["linear_attention", "mamba2", "attention", "mamba"]}, "lmfm"),
        ({"hybrid_layer_pattern": [0, 1, 1, 0]}, "fwwf"),
        ({"linear_attn_config": {"full_attn_layers": [2, 4]}}, "lflf"),  # numbers from 1
        ({"linear_num_value_heads": 4, "full_attention_interval": 2}, "lflf"),
        ({"linear_num_value_heads": 4}, "lllf"),
        ({"attention_chunk_size": 8}, "wwwf"),
        ({"attention_chunk_size": 8, "no_rope_layers": [1, 0, 1, 0]}, "wfwf"),  # 0: no rotary embedding
        ({"sliding_window": 8}, "wwww"),
        ({"sliding_window": 8, "use_sliding_window": False}, "ffff"),
        ({"sliding_window": 8, "sliding_window_pattern": 2}, "wfwf"),
        ({"sliding_window": 8, "model_type": "gemma2"}, "wfwf"),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 3}, "fffw"),
    ],
)
def test_the_pattern_of_layers_is_found_under_whichever_key_says_it(told, found):
    assert kinds(4, **told) == found


def test_entries_beyond_the_layers_belong_to_mtp_and_fewer_are_refused():
    four = ["full_attention"] * 3 + ["linear_attention"]

    assert kinds(3, layer_types=four) == "fff"
    with pytest.raises(InputError, match=r"an entry a layer \(5\), found 4"):
        kinds(5, layer_types=four)


def test_a_kind_of_layer_that_is_not_known_is_named():
    with pytest.raises(InputError, match="one of full_attention") as caught:
        kinds(1, layer_types=["retention"])
    assert caught.value.where == "config.json, layer_types[0]"


def test_a_state_space_model_without_a_pattern_is_refused():
    with pytest.raises(InputError, match="pattern is not known"):
        kinds(2, ssm_cfg={"a": 1})


def test_heads_have_their_defaults():
    alone = full(keys(num_attention_heads=8), 128, 0)
    shared = full(keys(n_head=8, multi_query=True), 128, 0)
    told = full(keys(**PLAIN, head_dim=32, v_head_dim=32, attn_output_gate=True), 128, 0)

    assert alone == Attention(heads=8, kv_heads=8, head_dim=16)
    assert shared == Attention(heads=8, kv_heads=1, head_dim=16)
    assert told == Attention(heads=8, kv_heads=2, head_dim=32, output_gate=True)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match="8 attention heads do not divide into 3 KV heads"):
        full(keys(num_attention_heads=8, num_key_value_heads=3), 128, 0)


@pytest.mark.parametrize(("kind", "joint"), [("per_layer", True), ("per_head", False)])
def test_queries_normalised_over_all_heads_are_told_from_those_by_head(kind, joint):
    assert full(keys(**PLAIN, use_qk_norm=True, qk_norm_type=kind), 128, 0).joint_norm == joint
    assert not full(keys(**PLAIN, use_qk_norm=False, qk_norm_type=kind), 128, 0).joint_norm


def test_windows_may_have_heads_of_their_own():
    told = PLAIN | {"sliding_window": 64, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 1}
    (window,) = mixers(keys(**told, swa_head_dim=8), 128, 1)

    assert window == Attention(heads=4, kv_heads=1, head_dim=8, window=64)


def test_windows_may_have_a_section_of_their_own_and_kv_heads_be_called_groups():
    """Step 3.5: 64 query heads in full attention, 96 in windows, eight KV heads in both."""
    told = {"num_attention_heads": 8, "num_attention_groups": 2, "head_dim": 16, "sliding_window": 64}
    other = {"attention_type": "sliding_attention", "num_attention_heads": 12, "num_attention_groups": 4}
    kinds = {"layer_types": ["full_attention", "sliding_attention"]}
    everywhere, window = mixers(keys(**told, **kinds, attention_other_setting=other), 128, 2)

    assert everywhere == Attention(heads=8, kv_heads=2, head_dim=16)
    assert window == Attention(heads=12, kv_heads=4, head_dim=16, window=64)


LATENT = {
    **{"num_attention_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4},
    "v_head_dim": 10,
}


def test_a_latent_takes_its_own_widths_and_not_head_dim():
    assert full(keys(**LATENT, head_dim=999), 64, 0) == Mla(
        heads=4, kv_lora_rank=16, qk_nope=12, qk_rope=4, v_head_dim=10
    )


def test_the_scorer_of_a_layer_may_be_anothers_or_none():
    deepseek = keys(index_topk=64, index_n_heads=2, index_head_dim=8, indexer_types=["own", "shared"])
    sparse = {"sparse_num_index_heads": 2, "sparse_index_dim": 8, "sparse_topk_blocks": 4}
    minimax = keys(
        sparse_attention_config=sparse | {"sparse_block_size": 16, "sparse_attention_freq": [0, 1]}
    )

    assert [indexer(deepseek, at).shared for at in (0, 1, 2)] == [False, True, False]
    assert indexer(minimax, 0) is None
    assert indexer(minimax, 1).top_k == 4 * 16
    assert indexer(keys(sparse_attention_config={"use_sparse_attention": False}), 0) is None


def test_compressed_layers_have_a_window_and_the_finest_an_indexer():
    told = keys(
        **{
            "num_attention_heads": 8,
            "head_dim": 16,
            "sliding_window": 128,
            "q_lora_rank": 4,
            "o_lora_rank": 2,
        },
        **{"index_topk": 64, "index_n_heads": 2, "index_head_dim": 8},
    )

    assert [compressed(told, r).compress for r in (0, 4, 128)] == [None, 4, 128]
    assert [compressed(told, r).indexer is None for r in (0, 4, 128)] == [True, False, True]
    with pytest.raises(InputError, match="at least 0"):
        compressed(told, -1)


def test_linear_layers_are_read_under_either_familys_names():
    section = {"num_heads": 4, "head_dim": 8, "use_full_rank_gate": True}
    kimi = linear(keys(linear_attn_config=section), 64, 0)
    gdn = linear(
        keys(
            linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=16
        ),
        64,
        0,
    )

    assert (kimi.key_heads, kimi.value_heads, kimi.decay_rank, kimi.gate_rank) == (4, 4, 8, None)
    assert (gdn.key_heads, gdn.value_heads, gdn.value_dim, gdn.conv) == (2, 4, 16, 4)


def test_mamba_layers_are_read_under_either_familys_names():
    nemotron = keys(mamba_num_heads=4, mamba_head_dim=8, n_groups=2, ssm_state_size=16)
    bamba = keys(mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=16)

    assert mamba(nemotron, 64, 0) == mamba(bamba, 64, 0)

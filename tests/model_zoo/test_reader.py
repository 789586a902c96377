"""The traps in key names, one test each, and errors that say what was expected where."""

import re

import pytest

from model_zoo.huggingface import from_config
from model_zoo.schema import Attention, DenseFfn, LinearAttention, Mamba2, MoeFfn
from planner.errors import InputError

from .configs import COMPRESSED, DEEPSEEK_V3, HYBRID, LLAMA_8B, NEMOTRON, SLIDING, read, write

MOE = LLAMA_8B | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}


def windows(card):
    return [layer.mixer.window for layer in card.stack]


def sparse(card):
    return [isinstance(layer.ffn, MoeFfn) for layer in card.stack]


def test_head_dim_is_hidden_over_heads_unless_it_is_given(tmp_path):
    assert read(tmp_path, LLAMA_8B).stack[0].mixer == Attention(heads=32, kv_heads=8, head_dim=128)
    assert read(tmp_path, LLAMA_8B, head_dim=64).stack[0].mixer.head_dim == 64


def test_text_settings_may_be_nested_and_tying_may_stand_outside(tmp_path):
    nested = {k: v for k, v in LLAMA_8B.items() if k != "tie_word_embeddings"}
    card = read(tmp_path, {"text_config": nested, "tie_word_embeddings": True, "hidden_size": 1})

    assert card.hidden == 4096
    assert card.tied_embeddings


def test_first_dense_layers_come_first(tmp_path):
    assert sparse(read(tmp_path, DEEPSEEK_V3)) == [False] * 3 + [True] * 58


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [True] * 4),
        ({"decoder_sparse_step": 2}, [False, True, False, True]),
        ({"interleave_moe_layer_step": 2}, [False, True, False, True]),
        ({"mlp_only_layers": [0, 2]}, [False, True, False, True]),
        ({"moe_layer_freq": [0, 1, 1, 0]}, [False, True, True, False]),
        ({"moe_layer_freq": 2}, [True, False, True, False]),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]}, [False, True, True, False]),
        ({"num_experts": None}, [False] * 4),
        ({"enable_moe_block": False}, [False] * 4),
    ],
)
def test_which_layers_have_experts(tmp_path, changes, expected):
    assert sparse(read(tmp_path, MOE | {"num_hidden_layers": 4}, **changes)) == expected


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({}, 0),
        ({"n_shared_experts": 2}, 1024),
        ({"num_shared_experts": 3}, 1536),
        ({"shared_expert_intermediate_size": 700}, 700),
        ({"shared_expert_intermediate_size": 0}, 0),
        ({"share_expert_dim": 900}, 900),
        ({"n_shared_experts": 1, "shared_intermediate_size": 600}, 600),
        ({"model_type": "llama4"}, 512),
    ],
)
def test_width_of_the_shared_experts(tmp_path, changes, shared):
    assert read(tmp_path, MOE, **changes).ffns["moe"].shared_inner == shared


def test_expert_width_may_be_the_plain_one(tmp_path):
    card = read(tmp_path, MOE | {"moe_intermediate_size": None, "intermediate_size": 2048})

    assert card.ffns["moe"].inner == 2048


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sliding_window": 64, "use_sliding_window": False}, [None] * 4),
        ({"sliding_window": 64}, [64] * 4),
        ({"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}, [None] * 3 + [64]),
        ({"sliding_window": 64, "sliding_window_pattern": 2}, [64, None, 64, None]),
        ({"sliding_window": 64, "model_type": "gemma2"}, [64, None, 64, None]),
        ({"attention_chunk_size": 64}, [64, 64, 64, None]),
        ({"attention_chunk_size": 64, "no_rope_layers": [0, 1, 1, 1]}, [None, 64, 64, 64]),
        ({"sliding_window": 64, "hybrid_layer_pattern": [0, 1, 1, 0]}, [None, 64, 64, None]),
    ],
)
def test_which_layers_slide(tmp_path, changes, expected):
    assert windows(read(tmp_path, LLAMA_8B | {"num_hidden_layers": 4}, **changes)) == expected


def test_sliding_layers_may_have_heads_of_their_own(tmp_path):
    card = read(tmp_path, SLIDING, swa_num_key_value_heads=4, v_head_dim=96, global_head_dim=512)

    assert card.stack[0].mixer == Attention(heads=32, kv_heads=4, head_dim=128, v_head_dim=96, window=1024)
    assert card.stack[3].mixer == Attention(heads=32, kv_heads=8, head_dim=512, v_head_dim=96)


def test_linear_layers_alternate_with_gated_attention(tmp_path):
    card = read(tmp_path, HYBRID)
    gdn = LinearAttention(key_heads=16, value_heads=32, key_dim=128, value_dim=128)

    assert [layer.mixer for layer in card.stack[:3]] == [gdn] * 3
    assert card.stack[3].mixer == Attention(heads=32, kv_heads=8, head_dim=256, output_gate=True)
    assert [run.times for run in card.layers] == [8]


def test_kimi_counts_layers_from_one(tmp_path):
    linear = {"full_attn_layers": [2], "num_heads": 4, "head_dim": 64, "short_conv_kernel_size": 4}
    card = read(tmp_path, LLAMA_8B | {"num_hidden_layers": 3, "linear_attn_config": linear})

    assert [layer.mixer.kind for layer in card.stack] == ["linear", "attention", "linear"]
    assert card.stack[0].mixer.gate_rank == 64


def test_a_layer_of_nemotron_is_a_mixer_or_an_ffn(tmp_path):
    card = read(tmp_path, NEMOTRON)

    assert [type(m) for m, _ in card.stack] == [Mamba2, type(None), Attention, type(None)]
    assert [type(f) for _, f in card.stack] == [type(None), MoeFfn, type(None), DenseFfn]
    assert card.stack[1].ffn.matrices == 2


def test_the_entry_past_the_last_layer_shapes_the_mtp_layer(tmp_path):
    card = read(tmp_path, COMPRESSED)

    assert [layer.mixer.compress for layer in card.stack] == [None, 4, 128]
    assert card.mtp_layer == "window/moe"


def test_searched_blocks_have_their_own_sizes(tmp_path):
    blocks = [
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 2.625, "no_op": False}},
        {"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": True}},
    ]
    config = {**LLAMA_8B, "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 3}
    card = read(tmp_path, config, block_configs=blocks, intermediate_size=None)

    attention = Attention(heads=64, kv_heads=8, head_dim=128)
    assert [m for m, _ in card.stack] == [attention, None, attention]
    assert [f.inner if f else None for _, f in card.stack] == [28672, 14336, None]


def test_vision_towers_are_counted_beside_the_text(tmp_path):
    """By hand: Qwen3-VL's tower, 27 layers of 1152 and four projectors, has 576 million parameters."""
    tower = {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "patch_size": 16,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
        "num_position_embeddings": 2304,
        "out_hidden_size": 4096,
        "deepstack_visual_indexes": [8, 16, 24],
    }
    card = read(tmp_path, {"text_config": LLAMA_8B, "vision_config": tower})

    assert card.vision_params / 1e6 == pytest.approx(576, rel=0.005)


def test_an_unknown_architecture_with_llama_keys_is_read_as_one(tmp_path):
    strange = read(tmp_path, LLAMA_8B, model_type="brand_new", architectures=["BrandNewForCausalLM"])

    assert strange.stack == read(tmp_path, LLAMA_8B).stack


def test_old_key_names_are_understood(tmp_path):
    card = read(
        tmp_path,
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "vocab_size": 50257,
            "n_positions": 1024,
        },
    )

    assert card.ffns["dense"] == DenseFfn(inner=3072, matrices=2)
    assert card.tied_embeddings


def test_the_name_comes_from_the_path(tmp_path):
    cached = tmp_path / "models--org--some-model" / "snapshots" / "abc"
    cached.mkdir(parents=True)
    write(cached, LLAMA_8B)

    assert from_config(cached).hf_id == "org/some-model"
    assert from_config(write(tmp_path, LLAMA_8B, "org--other.json")).hf_id == "org/other"
    assert from_config(write(tmp_path, LLAMA_8B)).name == tmp_path.name


def test_the_architecture_is_that_of_the_whole_not_of_its_text_part(tmp_path):
    """Kimi-K2.5's text part is a DeepSeek-V3, which engines know by another class."""
    text = LLAMA_8B | {"architectures": ["LlamaForCausalLM"]}
    whole = {"architectures": ["LlavaForConditionalGeneration"], "text_config": text}

    assert from_config(write(tmp_path, text, "org--plain.json")).architecture == "LlamaForCausalLM"
    assert from_config(write(tmp_path, whole, "org--both.json")).architecture == whole["architectures"][0]
    bare = {key: value for key, value in LLAMA_8B.items() if key != "architectures"}
    assert from_config(write(tmp_path, bare, "org--bare.json")).architecture is None


@pytest.mark.parametrize(
    ("changes", "where", "said"),
    [
        ({"hidden_size": None}, "config.json", "missing `hidden_size`"),
        (
            {"hidden_size": "big"},
            "config.json, hidden_size",
            "expected an integer of at least 1, found 'big'",
        ),
        ({"hidden_size": True}, "config.json, hidden_size", "found true"),
        ({"num_hidden_layers": 0}, "config.json, num_hidden_layers", "at least 1, found 0"),
        ({"num_hidden_layers": 10**9}, "config.json, num_hidden_layers", "at most 1000 layers"),
        ({"num_key_value_heads": 7}, "config.json, num_key_value_heads", "do not divide"),
        ({"layer_types": ["full_attention"]}, "config.json, layer_types", "an entry a layer (32), found 1"),
        ({"layer_types": ["odd"] * 32}, "config.json, layer_types[0]", "found 'odd'"),
        ({"mamba_d_state": 16}, "config.json, architectures", "state-space"),
        ({"is_encoder_decoder": True}, "config.json, is_encoder_decoder", "encoder-decoder"),
        ({"num_experts": 4, "num_experts_per_tok": 5}, "config.json, num_experts_per_tok", "5 of 4 experts"),
        ({"vision_config": 3}, "config.json, vision_config", "an object, found 3"),
        (COMPRESSED | {"compress_ratios": [10**30] * 99}, "config.json, compress", "must be at most"),
    ],
)
def test_errors_say_file_key_and_what_was_expected(tmp_path, changes, where, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, LLAMA_8B, **changes)

    assert said in error.value.message
    assert re.sub(r":1:\d+", "", str(error.value.where)).endswith(where)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b"null", b"[" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}"]
)
def test_files_that_are_no_json_object_are_bad_input(tmp_path, content):
    file = tmp_path / "config.json"
    file.write_bytes(content)

    with pytest.raises(InputError):
        from_config(file)


def test_a_missing_file_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="no such model config"):
        from_config(tmp_path)

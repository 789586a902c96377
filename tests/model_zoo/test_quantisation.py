"""Each common way of saying how a checkpoint is quantised."""

import re

import pytest

from model_zoo.huggingface import from_config
from model_zoo.huggingface.quantisation import pattern
from planner.errors import InputError

from .configs import COMPRESSED, DEEPSEEK_V3, LLAMA_8B, read, write

MOE = LLAMA_8B | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}
LINEAR = ["Linear"]


def compressed(bits: int, kind: str, **more: object) -> dict[str, object]:
    weights = {"num_bits": bits, "type": kind, **more}
    groups = {"group_0": {"targets": LINEAR, "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4_wo"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4_wo"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        (compressed(4, "int", group_size=32), "int4_wo"),
        (compressed(4, "float", group_size=16), "nvfp4"),
        (compressed(4, "float", group_size=32), "mxfp4"),
        (compressed(8, "float", strategy="block"), "fp8_block"),
        (compressed(8, "float", strategy="channel"), "fp8"),
        (compressed(8, "int"), "int8"),
    ],
)
def test_the_precision_of_all_linear_layers(tmp_path, config, expected):
    weights = read(tmp_path, LLAMA_8B, quantization_config=config).weights

    assert (weights.attention, weights.dense) == (expected, expected)
    assert (weights.embedding, weights.lm_head) == ("bf16", None)


@pytest.mark.parametrize(
    "ignore",
    [
        "*.self_attn*",
        "re:.*self_attn.*",
        r"re:model\.layers\.\d+\.self_attn.*",
        "model.layers.*.self_attn",
        "self_attn",
    ],
)
def test_ignored_modules_stay_in_16_bits(tmp_path, ignore):
    config = compressed(4, "float", group_size=16) | {"ignore": [ignore]}
    weights = read(tmp_path, LLAMA_8B, quantization_config=config).weights

    assert (weights.attention, weights.dense) == ("bf16", "nvfp4")


def test_ignoring_one_layer_names_it_apart(tmp_path):
    config = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn.o_proj", "gate"]}
    card = read(tmp_path, LLAMA_8B, quantization_config=config)

    assert card.stack[0].mixer.precision == {"o": "bf16"}
    assert all(not layer.mixer.precision for layer in card.stack[1:])


def test_mixed_checkpoints_name_each_module(tmp_path):
    layers = {
        "model.language_model.layers.0.mlp.experts": {"quant_algo": "NVFP4"},
        "model.language_model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.language_model.layers.0.self_attn.o_proj": {"quant_algo": "FP8"},
        "lm_head": {"quant_algo": "NVFP4"},
    }
    config = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    weights = read(tmp_path, MOE | {"num_hidden_layers": 1}, quantization_config=config).weights

    assert (weights.attention, weights.experts, weights.lm_head) == ("fp8", "nvfp4", "nvfp4")


def test_fp4_experts_in_an_fp8_checkpoint(tmp_path):
    weights = read(tmp_path, COMPRESSED).weights

    assert (weights.attention, weights.dense, weights.experts) == ("fp8_block", "fp8_block", "mxfp4")


@pytest.mark.parametrize("names", [("config.json", "hf_quant_config.json"), ("m.json", "m.hf_quant.json")])
def test_the_side_file_beside_a_config_counts(tmp_path, names):
    side = {
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    file = write(tmp_path, LLAMA_8B, names[0])
    write(tmp_path, side, names[1])

    assert from_config(file).weights.attention == "fp8"
    assert from_config(file).weights.kv == "fp8"


def test_a_scheme_of_the_kv_cache_is_read(tmp_path):
    config = {"quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}

    assert read(tmp_path, LLAMA_8B, quantization_config=config).weights.kv == "fp8"


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"quant_method": "gguf-ish"}, "quantization_config.quant_method"),
        ({"quant_algo": "FP3"}, "quantization_config.quant_algo"),
        ({"quant_algo": "MIXED_PRECISION"}, "quantization_config"),
        ({"quant_method": "awq", "bits": 3}, "quantization_config.bits"),
        (compressed(2, "int"), "quantization_config.config_groups.group_0.weights.num_bits"),
        (
            {"quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 3}},
            "quantization_config.kv_cache_scheme.num_bits",
        ),
        (7, "quantization_config"),
    ],
)
def test_unknown_quantisation_is_bad_input_with_its_place(tmp_path, config, where):
    with pytest.raises(InputError) as error:
        read(tmp_path, DEEPSEEK_V3, quantization_config=config)

    assert re.sub(r":1:\d+", "", str(error.value.where)).endswith(f"config.json, {where}")


def test_plain_names_match_whole_parts_only():
    assert pattern("mlp.gate").search("layers.3.mlp.gate")
    assert not pattern("mlp.gate").search("layers.3.mlp.gate_proj")
    assert not pattern("model.layers.1*").search("layers.2.mlp.gate")

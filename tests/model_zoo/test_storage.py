"""Bytes of weights: precisions with their scales, and matrices that a checkpoint leaves in 16 bits."""

import pytest

from model_zoo import derive
from model_zoo.schema import WEIGHT_BYTES

from .configs import DEEPSEEK_V3, LLAMA_8B, read


def test_bf16_takes_two_bytes_a_parameter(tmp_path):
    card = read(tmp_path, LLAMA_8B)

    assert derive.weight_bytes(card) == {"bf16": 2.0 * 8_030_261_248}


def test_fp8_blocks_keep_embedding_head_and_router_in_16_bits(tmp_path):
    card = read(tmp_path, DEEPSEEK_V3)
    counts = derive.params_by_precision(card)

    assert counts["bf16"] == 2 * 129280 * 7168 + 58 * 256 * 7168 + card.extra_params
    assert sum(counts.values()) == derive.total_params(card)


def test_layers_mtp_and_vision_add_up(tmp_path):
    card = read(tmp_path, DEEPSEEK_V3).model_copy(update={"vision_params": 1000})
    text = sum(derive.weight_bytes(card).values())

    assert sum(derive.weight_bytes(card, vision=True).values()) == text + 2000
    assert sum(derive.weight_bytes(card, mtp=True).values()) == text + derive.mtp_weight_bytes(card)
    counts = [derive.layer_precisions(layer, card.hidden, card.weights) for layer in card.stack]
    layers = sum(n * derive.precision_bytes(p, card.weights) for own in counts for p, n in own.items())
    assert text == pytest.approx(layers + 2 * 2 * 129280 * 7168 + 2 * card.extra_params)


def test_an_mtp_layer_is_a_layer_and_a_projection_of_two_streams_in_16_bits(tmp_path):
    """By hand: DeepSeek-V3's is its last layer, with 2 x 7,168 to 7,168 before it."""
    one = read(tmp_path, DEEPSEEK_V3)
    two = one.model_copy(update={"mtp_layers": 2})
    last = derive.layer_precisions(one.stack[-1], one.hidden, one.weights)
    plain = derive.params_by_precision(one)

    for card in (one, two):
        found = derive.params_by_precision(card, mtp=True)
        assert found["fp8_block"] - plain["fp8_block"] == card.mtp_layers * last["fp8_block"]
        assert found["bf16"] - plain["bf16"] == card.mtp_layers * (last["bf16"] + 2 * 7168 * 7168)
    assert derive.mtp_weight_bytes(two) == pytest.approx(2 * derive.mtp_weight_bytes(one))


def test_scales_are_counted():
    """By hand: nvfp4 has an 8-bit scale for 16 values, mxfp4 for 32, fp8_block 32 bits for 128 x 128."""
    assert WEIGHT_BYTES["nvfp4"] == (16 * 4 + 8) / 16 / 8
    assert WEIGHT_BYTES["mxfp4"] == (32 * 4 + 8) / 32 / 8
    assert WEIGHT_BYTES["fp8_block"] == pytest.approx((128 * 128 * 8 + 32) / (128 * 128) / 8)


def test_int4_groups_of_32_weigh_more_than_groups_of_128(tmp_path):
    def quantised(group: int) -> float:
        method = {"quant_method": "awq", "bits": 4, "group_size": group}
        return derive.weight_bytes(read(tmp_path, LLAMA_8B, quantization_config=method))["int4_wo"]

    assert quantised(32) / quantised(128) == pytest.approx((0.5 + 2 / 32) / (0.5 + 2 / 128))

"""Precisions of a model's matrices: as stored, as asked for, and what people call them."""

import pytest

from model_zoo.catalog import find
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Gemm
from planner.designs.precision import ALSO, MatrixPrecision, precision_named, precisions
from planner.errors import InputError

PLAIN, BLOCKS, FOUR_BITS = (find(name)[0] for name in ("llama-3.1-8b", "deepseek-v3", "gpt-oss-120b"))


@pytest.mark.parametrize(
    ("asked", "own"),
    [
        ("BF16", "bf16"),
        ("fp-8", "fp8"),
        ("Q4_K_M", "int4_wo"),
        ("W8A8", "int8"),
        ("half", "bf16"),
        ("q9", "q9"),
    ],
)
def test_a_precision_is_known_by_its_other_names(asked, own):
    assert precision_named(asked) == own


def test_every_other_name_is_of_a_precision_that_there_is():
    assert set(ALSO.values()) <= set(WEIGHT_BYTES)
    assert all(precision_named(name) == own for name, own in ALSO.items() if name not in WEIGHT_BYTES)


def test_a_name_that_the_cache_has_no_precision_for_stays_as_it_was():
    assert "int4_wo" not in KV_BYTES
    assert precision_named("awq", tuple(KV_BYTES)) == "awq"


def test_unasked_a_checkpoint_is_used_as_it_is_stored():
    p = precisions(FOUR_BITS)

    assert (p.gemm, p.experts) == (FOUR_BITS.weights.attention, FOUR_BITS.weights.experts)
    assert p.gemm != p.experts
    assert (p.embedding, p.kv) == (FOUR_BITS.weights.embedding, FOUR_BITS.weights.kv)


def test_asked_weights_leave_the_embedding_as_it_is_stored():
    p = precisions(BLOCKS, "nvfp4", "fp8")

    assert (p.gemm, p.experts, p.kv) == ("nvfp4", "nvfp4", "fp8")
    assert p.embedding == BLOCKS.weights.embedding


@pytest.mark.parametrize(
    ("weights", "kv", "option"), [("fp7", None, "--precision"), (None, "int3", "--kv-precision")]
)
def test_one_that_does_not_exist_is_refused_with_the_nearest(weights, kv, option):
    with pytest.raises(InputError) as error:
        precisions(PLAIN, weights, kv)
    assert error.value.where == option
    assert "did you mean `" in (error.value.hint or "")
    assert (weights or kv) in error.value.message


def test_routers_stay_in_16_bits_whatever_is_asked():
    router = Gemm("router", 256, 7168, "none")
    layer = BLOCKS.stack[10]
    for weights in (None, "nvfp4"):
        used = MatrixPrecision(BLOCKS, precisions(BLOCKS, weights))
        assert used.dense(layer, router) == "bf16"


def test_matrices_are_held_as_stored_or_all_as_asked():
    layer, o = BLOCKS.stack[10], Gemm("o", 7168, 16384, "in")
    stored = MatrixPrecision(BLOCKS, precisions(BLOCKS))
    asked = MatrixPrecision(BLOCKS, precisions(BLOCKS, "nvfp4"))

    assert stored.attention(layer, o) == stored.expert(layer, o) == "fp8_block"
    assert asked.attention(layer, o) == asked.expert(layer, o) == asked.dense(layer, o) == "nvfp4"
    assert asked.lm_head == stored.lm_head


def test_scales_count_as_bytes_of_a_weight():
    """By hand: one byte, and a float of four for each block of 128 x 128."""
    used = MatrixPrecision(BLOCKS, precisions(BLOCKS))

    assert used.bytes("bf16") == 2
    assert used.bytes("fp8_block") == pytest.approx(1 + 4 / 128**2)

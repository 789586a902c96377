"""Precisions by their many names, the checkpoint's own and its exceptions, and what was asked for instead."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Gemm, ModelCard
from planner.designs.precision import ALSO, MatrixPrecision, precision_named, precisions
from planner.designs.shape import Precisions
from planner.errors import InputError

MIXED = ModelCard(
    name="mixed",
    source="made up: every kind of weight in a precision of its own, and one exception in each part",
    hidden=8,
    vocab=16,
    max_context=64,
    mixers={"a": {"kind": "attention", "heads": 2, "kv_heads": 1, "head_dim": 4, "precision": {"q": "int8"}}},
    ffns={
        "moe": {"kind": "moe", "experts": 4, "top_k": 1, "inner": 8, "precision": {"down": "fp8_block"}},
        "none": {"kind": "dense", "inner": 8},
    },
    layers=[{"times": 1, "of": ["a/moe", "a/none", "-/none", "a/-"]}],
    weights={
        "attention": "fp8",
        "dense": "int4_wo",
        "experts": "nvfp4",
        "embedding": "bf16",
        "lm_head": "int8",
        "kv": "fp8",
    },
)
MOE, DENSE, BARE, ALONE = MIXED.stack
STORED = precisions(MIXED)


def gemm(name: str) -> Gemm:
    return Gemm(name, 8, 8, "out")


@pytest.mark.parametrize(
    ("spelt", "ours"),
    [
        (None, None),
        ("fp8", "fp8"),
        ("FP8", "fp8"),
        ("fp8-block", "fp8_block"),
        ("Q4_K_M", "int4_wo"),
        ("q8_0", "int8"),
        ("W8A8", "int8"),
        ("float16", "bf16"),
        ("NVFP4", "nvfp4"),
        ("MXFP4", "mxfp4"),
        ("e4m3", "fp8"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_precision_is_known_however_it_is_spelt(spelt, ours):
    assert precision_named(spelt) == ours


@pytest.mark.parametrize("name", sorted(ALSO))
def test_every_other_name_stands_for_one_of_ours(name):
    assert precision_named(name.upper()) == ALSO[name] in WEIGHT_BYTES


@pytest.mark.parametrize("name", ["int8", "Q4_K_M", "mxfp4"])
def test_a_name_for_weights_that_no_cache_has_stays_as_it_was(name):
    assert precision_named(name, tuple(KV_BYTES)) == name


@given(st.sampled_from(sorted(WEIGHT_BYTES)), st.sampled_from(sorted(KV_BYTES)))
def test_what_is_asked_holds_for_matrices_and_cache_but_never_for_the_embedding(weights, kv):
    used = precisions(MIXED, weights, kv)

    assert used == Precisions(gemm=weights, experts=weights, embedding="bf16", kv=kv)


def test_what_is_not_asked_is_the_checkpoints():
    assert Precisions(gemm="fp8", experts="nvfp4", embedding="bf16", kv="fp8") == STORED
    assert precisions(MIXED, kv="bf16") == Precisions("fp8", "nvfp4", "bf16", "bf16")


@pytest.mark.parametrize(
    ("asked", "where", "near"),
    [
        ({"weights": "fp9"}, "--precision", "`fp8`"),
        ({"weights": "int4_w"}, "--precision", "`int4_wo`"),
        ({"kv": "fp9"}, "--kv-precision", "`fp8`"),
        ({"kv": "int8"}, "--kv-precision", "one of: bf16, fp8, nvfp4"),
        ({"weights": "x" * 500}, "--precision", "one of: bf16"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_is_near(asked, where, near):
    with pytest.raises(InputError) as error:
        precisions(MIXED, **asked)

    assert error.value.where == where
    assert near in error.value.hint
    assert len(error.value.message) < 100


@pytest.mark.parametrize(
    ("part", "layer", "matrix", "stored", "bf16_asked"),
    [
        ("attention", MOE, "q", "int8", "bf16"),  # the exception of the mixer
        ("attention", MOE, "o", "fp8", "bf16"),  # as `Weights` says of attention
        ("attention", BARE, "o", "fp8", "bf16"),  # no mixer, so no exception
        ("dense", MOE, "down", "fp8_block", "bf16"),  # a shared expert is in the FFN's exceptions
        ("dense", DENSE, "down", "int4_wo", "bf16"),
        ("dense", ALONE, "up", "int4_wo", "bf16"),  # no FFN, so no exception
        ("dense", MOE, "router", "bf16", "bf16"),
        ("expert", MOE, "down", "fp8_block", "bf16"),
        ("expert", MOE, "up", "nvfp4", "bf16"),
        ("expert", ALONE, "up", "nvfp4", "bf16"),
    ],
)
def test_exceptions_hold_where_the_checkpoint_is_used_as_it_is(part, layer, matrix, stored, bf16_asked):
    as_stored, asked = MatrixPrecision(MIXED, STORED), MatrixPrecision(MIXED, precisions(MIXED, "bf16"))

    assert getattr(as_stored, part)(layer, gemm(matrix)) == stored
    assert getattr(asked, part)(layer, gemm(matrix)) == bf16_asked


def test_a_router_stays_in_16_bits_whatever_is_asked():
    asked = MatrixPrecision(MIXED, precisions(MIXED, "nvfp4"))

    assert asked.dense(MOE, gemm("router")) == "bf16"
    assert asked.dense(MOE, gemm("up")) == "nvfp4"


def test_a_router_in_32_bits_is_read_as_such_with_tensor_cores_or_without():
    for name, held in (("bf16", 2.0), ("tf32", 4.0), ("fp32", 4.0)):
        used = MatrixPrecision(MIXED, replace(STORED, router=name))

        assert used.dense(MOE, gemm("router")) == name
        assert used.bytes(name) == held
        assert used.dense(MOE, gemm("up")) == "int4_wo"


def test_the_lm_head_is_the_embeddings_where_the_card_says_nothing_of_it():
    weights = MIXED.weights.model_copy(update={"lm_head": None})
    plain = MIXED.model_copy(update={"weights": weights})
    other = Precisions("fp8", "nvfp4", "fp8", "fp8")

    assert MatrixPrecision(MIXED, STORED).lm_head == "int8"
    assert MatrixPrecision(plain, STORED).lm_head == "bf16"
    assert MatrixPrecision(MIXED, other).lm_head == "fp8"  # another embedding was chosen: the head's too


@pytest.mark.parametrize(
    ("precision", "group", "each"),
    [
        ("bf16", 128, 2.0),
        ("int4_wo", 128, 0.5 + 2 / 128),  # half a byte, and a 16-bit scale for 128 weights
        ("int4_wo", 32, 0.5 + 2 / 32),
        ("fp8_block", 32, 1 + 4 / 16384),  # an fp32 for 128 x 128 weights
        ("mxfp4", 32, 0.5 + 1 / 32),
    ],
)
def test_bytes_of_a_weight_have_its_scales(precision, group, each):
    weights = MIXED.weights.model_copy(update={"int4_group": group})
    card = MIXED.model_copy(update={"weights": weights})

    assert MatrixPrecision(card, STORED).bytes(precision) == pytest.approx(each, rel=1e-12)

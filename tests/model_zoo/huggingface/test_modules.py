"""Precisions of matrices by the names that checkpoints give them."""

from __future__ import annotations

import re

import pytest

from model_zoo.huggingface.modules import (
    FFN_LEAVES,
    MIXER_LEAVES,
    ffn_modules,
    mixer_modules,
    own_precisions,
    stored,
    weights,
)
from model_zoo.huggingface.quantisation import Scheme
from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms
from model_zoo.schema import Attention, DenseFfn, Gemm, Indexer, Layer, LinearAttention, Mamba2, Mla, MoeFfn

HIDDEN = 64
GQA = Attention(heads=4, kv_heads=2, head_dim=16)
DENSE = DenseFfn(inner=128)
MOE = MoeFfn(experts=8, top_k=2, inner=32, shared_inner=32)
INDEXER = Indexer(heads=2, head_dim=8, top_k=16)
MIXERS = [
    GQA,
    Attention(heads=4, kv_heads=1, head_dim=16, shared_kv=True, q_lora_rank=8, o_lora_rank=4, o_groups=2,
              compress=4, indexer=INDEXER),
    Mla(heads=4, q_lora_rank=8, kv_lora_rank=16, qk_nope=8, qk_rope=8, v_head_dim=16, output_gate=True),
    Mla(heads=4, kv_lora_rank=16, qk_nope=8, qk_rope=8, v_head_dim=16, indexer=INDEXER),
    LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=8),
    LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=8, decay_rank=4, gate_rank=4),
    Mamba2(heads=4, head_dim=16, groups=2, state=8),
]  # fmt: skip
FFNS = [DENSE, DenseFfn(inner=128, matrices=2), MOE, MOE.model_copy(update={"latent": 16})]


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda m: m.kind)
def test_every_matrix_of_every_mixer_has_a_name_in_checkpoints(mixer):
    for gemm in mixer_gemms(mixer, HIDDEN):
        names = mixer_modules(3, Layer(mixer, None), gemm)

        assert names
        assert all(name.startswith("layers.3.") for name in names)


@pytest.mark.parametrize("ffn", FFNS, ids=lambda f: f.kind)
@pytest.mark.parametrize("beside", [False, True])
def test_every_matrix_of_every_ffn_has_a_name_in_checkpoints(ffn, beside):
    for gemm in [*ffn_gemms(ffn, HIDDEN), *expert_gemms(ffn, HIDDEN)]:
        if gemm.name != "router":
            assert all(name.startswith("layers.0.") for name in ffn_modules(0, gemm, beside))


def test_names_of_one_matrix_are_not_those_of_another_of_the_same_layer():
    """Else a precision stated for one would be read for both; GDN's decay and beta may be one matrix."""
    for mixer in MIXERS:
        gemms = [g.name for g in mixer_gemms(mixer, HIDDEN)]
        for a, b in [(a, b) for a in gemms for b in gemms if a < b and (a, b) != ("beta", "decay")]:
            assert not {*MIXER_LEAVES[a]} & {*MIXER_LEAVES[b]}, (a, b)
    assert not {*FFN_LEAVES["up"]} & {*FFN_LEAVES["down"]}


def test_routed_experts_and_the_dense_mlp_beside_them_are_told_apart():
    expert, shared = Gemm("expert_up", 32, 64, "out"), Gemm("shared_up", 32, 64, "out")

    assert "layers.1.mlp.experts.0.up_proj" in ffn_modules(1, expert, beside=False)
    assert "layers.1.experts.0.up_proj" in ffn_modules(1, expert, beside=True)  # Gemma 4: beside `mlp`
    assert "layers.1.mlp.shared_experts.up_proj" in ffn_modules(1, shared, beside=False)
    assert "layers.1.mlp.up_proj" in ffn_modules(1, shared, beside=True)
    assert "layers.1.mlp.up_proj" not in ffn_modules(1, shared, beside=False)


def test_linear_layers_have_parents_of_their_own():
    qkv = Gemm("qkv", 1, 1, "out")

    assert "layers.0.linear_attn.in_proj_qkvz" in mixer_modules(0, Layer(MIXERS[4], None), qkv)
    assert not any("linear_attn" in name for name in mixer_modules(0, Layer(GQA, None), qkv))


def test_a_module_named_apart_has_its_precision_and_routers_none():
    scheme = Scheme("fp8", named={"layers.1.self_attn.o_proj": "bf16"})
    first, second = stored(scheme, [Layer(GQA, MOE)] * 2, HIDDEN, beside=False)

    assert first.mixer == {"qkv": "fp8", "o": "fp8"}
    assert second.mixer == {"qkv": "fp8", "o": "bf16"}
    assert {*first.ffn} == {"shared_up", "shared_down", "expert_up", "expert_down"}
    assert {*first.ffn.values()} == {"fp8"}


def test_the_usual_precision_is_that_of_most_parameters_not_of_most_matrices():
    """By hand: qkv has 2 x 64 x 64 parameters, o has 64 x 64: three small `o` against two large `qkv`."""
    scheme = Scheme("fp8", rules=[(re.compile("o_proj"), "bf16")])
    scheme.named = {"layers.2.self_attn.q_proj": "bf16"}
    layers = [Layer(GQA, DENSE)] * 3
    usual = weights(scheme, layers, stored(scheme, layers, HIDDEN, beside=False), HIDDEN)

    assert [g.params for g in mixer_gemms(GQA, HIDDEN)] == [128 * 64, 64 * 64]
    assert usual.attention == "bf16"  # 3 x 4,096 of o and 8,192 of one qkv, against 16,384
    assert usual.dense == "fp8"


def test_experts_count_for_themselves_and_the_head_where_it_is_named():
    scheme = Scheme("fp8", named={"lm_head": "fp8"}, rules=[(re.compile("experts"), "int4_wo")])
    scheme.int4_group = 32
    layers = [Layer(GQA, MOE)]
    usual = weights(scheme, layers, stored(scheme, layers, HIDDEN, beside=False), HIDDEN)

    assert (usual.attention, usual.experts, usual.lm_head, usual.int4_group) == ("fp8", "int4_wo", "fp8", 32)
    plain = weights(Scheme(), layers, stored(Scheme(), layers, HIDDEN, beside=False), HIDDEN)
    assert (plain.lm_head, plain.int4_group) == (None, 128)


def test_only_what_differs_from_the_usual_is_written_into_a_layer():
    scheme = Scheme("fp8", named={"layers.1.mlp.down_proj": "bf16", "layers.1.self_attn.o_proj": "bf16"})
    layers = [Layer(GQA, DENSE)] * 4
    found = stored(scheme, layers, HIDDEN, beside=False)
    usual = weights(scheme, layers, found, HIDDEN)

    assert own_precisions(layers[0], found[0], usual) == layers[0]
    mixer, ffn = own_precisions(layers[1], found[1], usual)
    assert (mixer.precision, ffn.precision) == ({"o": "bf16"}, {"down": "bf16"})


def test_experts_are_compared_with_experts_and_what_lies_beside_them_with_dense_layers():
    scheme = Scheme("fp8", rules=[(re.compile(r"\.experts"), "nvfp4")])
    layers = [Layer(None, DENSE), Layer(None, MOE)]
    found = stored(scheme, layers, HIDDEN, beside=False)
    usual = weights(scheme, layers, found, HIDDEN)

    assert (usual.dense, usual.experts) == ("fp8", "nvfp4")
    assert own_precisions(layers[1], found[1], usual).ffn.precision == {}

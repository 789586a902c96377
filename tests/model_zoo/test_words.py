"""A card in a few words."""

import pytest

from model_zoo.schema import (
    Attention,
    DenseFfn,
    Indexer,
    LinearAttention,
    Mamba2,
    Mla,
    ModelCard,
    MoeFfn,
    Run,
    Weights,
)
from model_zoo.writing import attention_kinds, weights_precision

GQA = Attention(heads=8, kv_heads=2, head_dim=16)
INDEXER = Indexer(heads=2, head_dim=8, top_k=16)
MLA = Mla(heads=8, kv_lora_rank=16, qk_nope=8, qk_rope=8, v_head_dim=16)
GDN = LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=8)


def card(*mixers, ffn=None, weights=None):
    """A layer a mixer."""
    return ModelCard(
        name="sample",
        source="made up",
        hidden=64,
        vocab=100,
        max_context=1000,
        mixers={f"m{i}": mixer for i, mixer in enumerate(mixers)},
        ffns={"f": ffn or DenseFfn(inner=128)},
        layers=[Run(times=1, of=[f"m{i}/f" for i in range(len(mixers))])],
        weights=weights or Weights(),
    )


@pytest.mark.parametrize(
    ("mixer", "said"),
    [
        (GQA, "GQA"),
        (GQA.model_copy(update={"kv_heads": 8}), "MHA"),
        (GQA.model_copy(update={"kv_heads": 1}), "MQA"),
        (GQA.model_copy(update={"window": 128}), "window 128"),
        (GQA.model_copy(update={"window": 128, "compress": 4}), "1-in-4"),
        (GQA.model_copy(update={"indexer": INDEXER}), "sparse GQA"),
        (GQA.model_copy(update={"compress": 4, "indexer": INDEXER}), "sparse 1-in-4"),
        (MLA, "MLA"),
        (MLA.model_copy(update={"indexer": INDEXER}), "sparse MLA"),
        (GDN, "GDN"),
        (GDN.model_copy(update={"decay_rank": 4}), "KDA"),
        (Mamba2(heads=4, head_dim=16, groups=2, state=8), "Mamba-2"),
    ],
)
def test_each_kind_of_attention_has_its_usual_name(mixer, said):
    assert attention_kinds(card(mixer)) == said


def test_kinds_are_told_once_in_the_order_of_layers():
    assert attention_kinds(card(GDN, GQA, GDN, MLA)) == "GDN + GQA + MLA"


@pytest.mark.parametrize(
    ("ffn", "weights", "said"),
    [
        (DenseFfn(inner=8), Weights(dense="fp8", attention="fp8", experts="nvfp4"), "fp8"),
        (DenseFfn(inner=8), Weights(dense="fp8", attention="bf16"), "fp8 + bf16"),
        (
            MoeFfn(experts=4, top_k=1, inner=8),
            Weights(dense="fp8", attention="bf16", experts="mxfp4"),
            "mxfp4 + bf16",
        ),
        (MoeFfn(experts=4, top_k=1, inner=8), Weights(dense="bf16", attention="fp8", experts="fp8"), "fp8"),
    ],
)
def test_most_weights_are_those_of_experts_where_there_are_any(ffn, weights, said):
    assert weights_precision(card(GQA, ffn=ffn, weights=weights)) == said

"""What checkpoints call each matrix, to read its precision from a quantisation scheme."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..matrices import expert_gemms, ffn_gemms, mixer_gemms
from ..schema import Gemm, Layer, LinearAttention, Precision, Weights
from .quantisation import Scheme

MIXER_PARENTS = ("self_attn", "attn", "attention", "mixer")
LINEAR_PARENTS = ("linear_attn", "self_attn")
FFN_PARENTS = ("mlp", "block_sparse_moe", "ffn", "feed_forward", "mixer")
SHARED = ("shared_experts", "shared_expert", "share_expert", "shared_mlp")

MIXER_LEAVES = {
    "qkv": (
        "q_proj",
        "k_proj",
        "v_proj",
        "qkv_proj",
        "in_proj_qkv",
        "in_proj_qkvz",
        "c_attn",
        "query_key_value",
    ),
    "q": ("q_proj",),
    "q_a": ("q_a_proj", "wq_a", "fused_qkv_a_proj_with_mqa"),
    "q_b": ("q_b_proj", "wq_b"),
    "kv": ("wkv",),
    "kv_a": ("kv_a_proj_with_mqa",),
    "kv_b": ("kv_b_proj",),
    "o": ("o_proj", "out_proj", "wo", "dense"),
    "o_a": ("wo_a",),
    "o_b": ("wo_b",),
    "gate": ("in_proj_z", "g_proj", "gate_proj"),
    "gate_a": ("g_a_proj",),
    "gate_b": ("g_b_proj",),
    "beta": ("in_proj_b", "b_proj", "in_proj_ba"),
    "decay": ("in_proj_a", "in_proj_ba"),
    "decay_a": ("f_a_proj",),
    "decay_b": ("f_b_proj",),
    "in": ("in_proj",),
    "compress": ("compressor.wkv", "compressor.wgate"),
    "index_q": ("indexer.wq_b", "index_q_proj"),
    "index_k": ("indexer.wk", "index_k_proj", "indexer.compressor.wkv"),
    "index_weights": ("indexer.weights_proj",),
}
FFN_LEAVES = {
    "up": ("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "c_fc", "fc1", "dense_h_to_4h"),
    "down": ("down_proj", "w2", "c_proj", "fc2", "dense_4h_to_h"),
    "latent_in": ("fc1_latent_proj", "routed_expert_down_proj"),
    "latent_out": ("fc2_latent_proj", "routed_expert_up_proj"),
}

Named = dict[str, Precision]


def mixer_modules(at: int, layer: Layer, gemm: Gemm) -> list[str]:
    """Names that a mixer's matrix in layer `at` may have."""
    parents = LINEAR_PARENTS if isinstance(layer.mixer, LinearAttention) else MIXER_PARENTS
    return [f"layers.{at}.{parent}.{leaf}" for parent in parents for leaf in MIXER_LEAVES[gemm.name]]


def ffn_modules(at: int, gemm: Gemm, beside: bool) -> list[str]:
    """Names that an FFN's matrix may have; `beside`: a dense MLP runs beside the experts (Gemma 4)."""
    kind, _, leaf = gemm.name.rpartition("_") if gemm.name not in FFN_LEAVES else ("", "", gemm.name)
    leaves = FFN_LEAVES[leaf]
    if kind == "expert":
        parents = ("",) if beside else tuple(f"{parent}." for parent in FFN_PARENTS)
        each = ["experts", *(f"experts.0.{name}" for name in leaves)]
        return [f"layers.{at}.{parent}{name}" for parent in parents for name in each]
    if kind == "shared" and not beside:
        return [f"layers.{at}.{p}.{s}.{name}" for p in FFN_PARENTS for s in SHARED for name in leaves]
    return [f"layers.{at}.{parent}.{name}" for parent in FFN_PARENTS for name in leaves]


@dataclass
class Stored:
    """Precisions of one layer's matrices by name, of its mixer and of its FFN."""

    mixer: Named
    ffn: Named


def stored(scheme: Scheme, layers: list[Layer], hidden: int, beside: bool) -> list[Stored]:
    """Precision of every matrix of every layer; routers are never quantised."""
    found: list[Stored] = []
    for at, layer in enumerate(layers):
        mixer = {g.name: scheme.of(mixer_modules(at, layer, g)) for g in mixer_gemms(layer.mixer, hidden)}
        gemms = [g for g in ffn_gemms(layer.ffn, hidden) if g.name != "router"] + expert_gemms(
            layer.ffn, hidden
        )
        found.append(Stored(mixer, {g.name: scheme.of(ffn_modules(at, g, beside)) for g in gemms}))
    return found


def weights(scheme: Scheme, layers: list[Layer], found: list[Stored], hidden: int) -> Weights:
    """The usual precision of each kind of weight: the one that holds most parameters."""
    counts: dict[str, Counter[Precision]] = {"attention": Counter(), "dense": Counter(), "experts": Counter()}
    for layer, one in zip(layers, found, strict=True):
        for g in mixer_gemms(layer.mixer, hidden):
            counts["attention"][one.mixer[g.name]] += g.params
        for g in ffn_gemms(layer.ffn, hidden):
            if g.name != "router":
                counts["dense"][one.ffn[g.name]] += g.params
        for g in expert_gemms(layer.ffn, hidden):
            counts["experts"][one.ffn[g.name]] += g.params
    usual = {kind: count.most_common(1)[0][0] for kind, count in counts.items() if count}
    head = scheme.named.get("lm_head", "bf16")
    return Weights.model_validate(
        {
            **usual,
            "kv": scheme.kv,
            "lm_head": head if head != "bf16" else None,
            "int4_group": scheme.int4_group if "int4_wo" in usual.values() else 128,
        }
    )


def own_precisions(layer: Layer, one: Stored, usual: Weights) -> Layer:
    """`layer` with the precisions that differ from the usual written into its parts."""
    mixer, ffn = layer
    if mixer is not None:
        odd = {name: p for name, p in one.mixer.items() if p != usual.attention}
        mixer = mixer.model_copy(update={"precision": odd}) if odd else mixer
    if ffn is not None:
        odd = {
            n: p
            for n, p in one.ffn.items()
            if p != (usual.experts if n.startswith("expert_") else usual.dense)
        }
        ffn = ffn.model_copy(update={"precision": odd}) if odd else ffn
    return Layer(mixer, ffn)

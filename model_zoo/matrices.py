"""The weight matrices of each layer kind: parameters, bytes and FLOPs all follow from these lists.

Names are those that engines run as one kernel (`qkv`, `up` = gate and up). Norms, biases and convolutions
are not listed (`ModelCard.extra_params`). Shapes: (outputs n, inputs k), whole model; `split` says which
side tp divides.
"""

from __future__ import annotations

from functools import singledispatch

from .schema import Attention, DenseFfn, Gemm, Indexer, LinearAttention, Mamba2, Mla, MoeFfn


def v_dim(mixer: Attention) -> int:
    """Width of one value head."""
    return mixer.head_dim if mixer.v_head_dim is None else mixer.v_head_dim


@singledispatch
def mixer_gemms(mixer: object, hidden: int) -> list[Gemm]:
    """All weight matrices of one mixer in a model of width `hidden`; none for a layer without one.

    >>> sum(g.params for g in mixer_gemms(Attention(heads=32, kv_heads=8, head_dim=128), 4096)) == 41_943_040
    True
    """
    if mixer is None:
        return []
    raise TypeError(f"not a mixer: {mixer!r}")


@mixer_gemms.register
def _attention(mixer: Attention, hidden: int) -> list[Gemm]:
    """GQA; in DeepSeek-V4 with low-rank Q, and an output projection of `o_groups` diagonal blocks."""
    q = mixer.heads * mixer.head_dim * (2 if mixer.output_gate else 1)
    one_projection = mixer.k_is_v or mixer.shared_kv
    kv = mixer.kv_heads * (mixer.head_dim + (0 if one_projection else v_dim(mixer)))
    if mixer.q_lora_rank is None:
        gemms = [Gemm("qkv", q + kv, hidden, "out")]
    else:
        gemms = [Gemm("q_a", mixer.q_lora_rank, hidden, "none"), Gemm("q_b", q, mixer.q_lora_rank, "out")]
        gemms += [Gemm("kv", kv, hidden, "none")]
    out = mixer.heads * v_dim(mixer)
    if mixer.o_lora_rank is None:
        gemms += [Gemm("o", hidden, out, "in")]
    else:
        latent = mixer.o_groups * mixer.o_lora_rank
        gemms += [Gemm("o_a", latent, out // mixer.o_groups, "out"), Gemm("o_b", hidden, latent, "in")]
    if mixer.compress is not None:
        gemms += [Gemm("compress", 2 * _overlap(mixer.compress) * mixer.head_dim, hidden, "none")]
    return gemms + _indexer_gemms(mixer.indexer, hidden, mixer.q_lora_rank, mixer.compress)


@mixer_gemms.register
def _mla(mixer: Mla, hidden: int) -> list[Gemm]:
    """Low-rank Q and joint KV latent (arXiv:2405.04434): the `a` halves are whole on every rank."""
    q = mixer.heads * (mixer.qk_nope + mixer.qk_rope)
    out = mixer.heads * mixer.v_head_dim
    if mixer.q_lora_rank is None:
        gemms = [Gemm("q", q, hidden, "out")]
    else:
        gemms = [Gemm("q_a", mixer.q_lora_rank, hidden, "none"), Gemm("q_b", q, mixer.q_lora_rank, "out")]
    gemms += [
        Gemm("kv_a", mixer.kv_lora_rank + mixer.qk_rope, hidden, "none"),
        Gemm("kv_b", mixer.heads * mixer.qk_nope + out, mixer.kv_lora_rank, "out"),
        Gemm("o", hidden, out, "in"),
    ]
    if mixer.output_gate:
        gemms += [Gemm("gate", out, hidden, "out")]
    return gemms + _indexer_gemms(mixer.indexer, hidden, mixer.q_lora_rank, None)


@mixer_gemms.register
def _linear(mixer: LinearAttention, hidden: int) -> list[Gemm]:
    """Gated delta rule: Q, K, V, output gate, write strength `beta` and decay (Qwen3.5 GDN, Kimi KDA)."""
    keys, values = mixer.key_heads * mixer.key_dim, mixer.value_heads * mixer.value_dim
    gemms = [Gemm("qkv", 2 * keys + values, hidden, "out")]
    if mixer.gate_rank is None:
        gemms += [Gemm("gate", values, hidden, "out")]
    else:
        gemms += [
            Gemm("gate_a", mixer.gate_rank, hidden, "none"),
            Gemm("gate_b", values, mixer.gate_rank, "out"),
        ]
    gemms += [Gemm("beta", mixer.value_heads, hidden, "out")]
    if mixer.decay_rank is None:
        gemms += [Gemm("decay", mixer.value_heads, hidden, "out")]
    else:
        gemms += [
            Gemm("decay_a", mixer.decay_rank, hidden, "none"),
            Gemm("decay_b", keys, mixer.decay_rank, "out"),
        ]
    return [*gemms, Gemm("o", hidden, values, "in")]


@mixer_gemms.register
def _mamba2(mixer: Mamba2, hidden: int) -> list[Gemm]:
    """Mamba-2 (arXiv:2405.21060): one projection in, to z, x, B, C and the time steps, and one out."""
    inner = mixer.heads * mixer.head_dim
    into = 2 * inner + 2 * mixer.groups * mixer.state + mixer.heads
    return [Gemm("in", into, hidden, "out"), Gemm("o", hidden, inner, "in")]


def _indexer_gemms(
    indexer: Indexer | None, hidden: int, q_rank: int | None, compress: int | None
) -> list[Gemm]:
    """The scorer's queries (from Q's latent if there is one), keys, head weights; whole on every rank."""
    if indexer is None or indexer.shared:
        return []
    keys = indexer.head_dim if compress is None else 2 * _overlap(compress) * indexer.head_dim
    return [
        Gemm("index_q", indexer.heads * indexer.head_dim, q_rank or hidden, "none"),
        Gemm("index_k", keys, hidden, "none"),
        Gemm("index_weights", indexer.heads, hidden, "none"),
    ]


def _overlap(compress: int) -> int:
    """DeepSeek-V4's finest compression (4) pools overlapping windows, so it projects twice."""
    return 2 if compress == 4 else 1


@singledispatch
def ffn_gemms(ffn: object, hidden: int) -> list[Gemm]:
    """Matrices of one FFN that every token passes: dense, router, shared experts, latent projections.

    Routed experts are not among them: see `expert_gemms` (one expert) and `expert_params` (one expert).

    >>> [g.name for g in ffn_gemms(MoeFfn(experts=8, top_k=2, inner=64, shared_inner=64), 128)]
    ['router', 'shared_up', 'shared_down']
    """
    if ffn is None:
        return []
    raise TypeError(f"not an FFN: {ffn!r}")


@ffn_gemms.register
def _dense(ffn: DenseFfn, hidden: int) -> list[Gemm]:
    return _up_down("", ffn.inner, hidden, ffn.matrices)


@ffn_gemms.register
def _moe(ffn: MoeFfn, hidden: int) -> list[Gemm]:
    gemms = [Gemm("router", ffn.experts, hidden, "none")]
    if ffn.shared_inner:
        gemms += _up_down("shared_", ffn.shared_inner, hidden, ffn.matrices)
    if ffn.latent is not None:
        gemms += [
            Gemm("latent_in", ffn.latent, hidden, "none"),
            Gemm("latent_out", hidden, ffn.latent, "none"),
        ]
    return gemms


def expert_gemms(ffn: object, hidden: int) -> list[Gemm]:
    """Matrices of ONE routed expert (`split`: how moe_tp divides them); none for other FFNs."""
    if not isinstance(ffn, MoeFfn):
        return []
    return _up_down("expert_", ffn.inner, ffn.latent or hidden, ffn.matrices)


def expert_params(ffn: object, hidden: int) -> int:
    """Parameters of ONE routed expert of one layer.

    >>> expert_params(MoeFfn(experts=256, top_k=8, inner=2048), 7168)  # DeepSeek-V3
    44040192
    """
    return sum(g.params for g in expert_gemms(ffn, hidden))


def _up_down(prefix: str, inner: int, hidden: int, matrices: int) -> list[Gemm]:
    """`up` holds gate and up together where the FFN is gated (3 matrices)."""
    up = Gemm(f"{prefix}up", (matrices - 1) * inner, hidden, "out")
    return [up, Gemm(f"{prefix}down", hidden, inner, "in")]

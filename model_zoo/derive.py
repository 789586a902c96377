"""All that follows from a model card: parameters, bytes of weights, what a sequence keeps on the GPU.

Sizes are whole-model, before tp and ep; the matrices that they follow from are in `matrices`.

A layer's KV at context L is  growing * L + windowed * min(L, window)  elements, plus its index keys * L,
plus its state bytes. Elements count both K and V. Only DeepSeek-V4's layers have both first terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from .matrices import expert_gemms, expert_params, ffn_gemms, mixer_gemms, v_dim
from .schema import (
    KV_BYTES,
    WEIGHT_BYTES,
    Attention,
    Gemm,
    Layer,
    LinearAttention,
    Mamba2,
    Mla,
    ModelCard,
    MoeFfn,
    Weights,
)


def experts(layer: Layer) -> int:
    """Routed experts of a layer; 0 without."""
    return layer.ffn.experts if isinstance(layer.ffn, MoeFfn) else 0


def common_params(layer: Layer, hidden: int) -> int:
    """Parameters of a layer that every token passes: all but the routed experts."""
    return sum(g.params for g in mixer_gemms(layer.mixer, hidden) + ffn_gemms(layer.ffn, hidden))


def layer_params(layer: Layer, hidden: int) -> int:
    """All matrix parameters of one layer."""
    return common_params(layer, hidden) + experts(layer) * expert_params(layer.ffn, hidden)


def layer_active_params(layer: Layer, hidden: int) -> int:
    """Matrix parameters of one layer that one token uses."""
    top_k = layer.ffn.top_k if isinstance(layer.ffn, MoeFfn) else 0
    return common_params(layer, hidden) + top_k * expert_params(layer.ffn, hidden)


def embedding_params(card: ModelCard) -> int:
    """Input embedding."""
    return card.vocab * card.hidden


def lm_head_params(card: ModelCard) -> int:
    """Output projection as stored: 0 when it is the embedding."""
    return 0 if card.tied_embeddings else card.vocab * card.hidden


def total_params(card: ModelCard) -> int:
    """Parameters of the text model, without MTP layers and vision tower."""
    layers = sum(layer_params(layer, card.hidden) for layer in card.stack)
    return layers + embedding_params(card) + lm_head_params(card) + card.extra_params


def active_params(card: ModelCard, embedding: bool = True) -> int:
    """Parameters read for one token; `embedding` False leaves out the input embedding (a look-up, not a
    product) unless it is tied, as then it is the LM head."""
    layers = sum(layer_active_params(layer, card.hidden) for layer in card.stack)
    looked_up = embedding_params(card) if embedding or card.tied_embeddings else 0
    return layers + looked_up + lm_head_params(card) + card.extra_params


def mtp_layer(card: ModelCard) -> Layer:
    """The shape of one multi-token-prediction layer."""
    return card.layer(card.mtp_layer) if card.mtp_layer else card.stack[-1]


def mtp_params(card: ModelCard) -> int:
    """Parameters of all MTP layers: a layer and the projection of (hidden state, embedding) to `hidden` each.

    Embedding and LM head are the main model's (DeepSeek-V3, arXiv:2412.19437, section 2.2).
    """
    if not card.mtp_layers:
        return 0
    return card.mtp_layers * (layer_params(mtp_layer(card), card.hidden) + 2 * card.hidden**2)


def vision_params(card: ModelCard) -> int:
    """Parameters of the vision tower and its projector."""
    return card.vision_params


def params_by_part(card: ModelCard) -> dict[str, int]:
    """Parameters by part of the checkpoint; the first six add up to `total_params`."""
    parts = dict.fromkeys(("embedding", "lm_head", "attention", "dense", "experts", "other"), 0)
    parts.update(embedding=embedding_params(card), lm_head=lm_head_params(card), other=card.extra_params)
    for layer in card.stack:
        parts["attention"] += sum(g.params for g in mixer_gemms(layer.mixer, card.hidden))
        parts["dense"] += sum(g.params for g in ffn_gemms(layer.ffn, card.hidden))
        parts["experts"] += experts(layer) * expert_params(layer.ffn, card.hidden)
    return {**parts, "mtp": mtp_params(card), "vision": vision_params(card)}


def precision_bytes(precision: str, weights: Weights) -> float:
    """Bytes a weight, scales included.

    >>> precision_bytes("int4_wo", Weights(int4_group=32))
    0.5625
    """
    return 0.5 + 2 / weights.int4_group if precision == "int4_wo" else WEIGHT_BYTES[precision]


def layer_precisions(layer: Layer, hidden: int, weights: Weights) -> Counter[str]:
    """Parameters of one layer by the precision they are stored in. Routers stay in 16 bits."""
    counts: Counter[str] = Counter()
    if layer.mixer is not None:
        _count(counts, mixer_gemms(layer.mixer, hidden), weights.attention, layer.mixer.precision)
    if layer.ffn is not None:
        own, total = layer.ffn.precision, experts(layer)
        _count(counts, ffn_gemms(layer.ffn, hidden), weights.dense, own)
        _count(counts, expert_gemms(layer.ffn, hidden), weights.experts, own, total)
    return counts


def _count(
    counts: Counter[str], gemms: Iterable[Gemm], usual: str, own: Mapping[str, str], times: int = 1
) -> None:
    """Add `times` of each matrix to the precision it is stored in."""
    for g in gemms:
        counts["bf16" if g.name == "router" else own.get(g.name, usual)] += g.params * times


def params_by_precision(card: ModelCard, mtp: bool = False, vision: bool = False) -> dict[str, int]:
    """Parameters by stored precision; with `mtp` / `vision`, those of MTP layers and vision tower too."""
    counts: Counter[str] = Counter({card.weights.embedding: embedding_params(card)})
    counts[card.weights.lm_head or card.weights.embedding] += lm_head_params(card)
    counts["bf16"] += card.extra_params + (card.vision_params if vision else 0)
    for layer in card.stack:
        counts.update(layer_precisions(layer, card.hidden, card.weights))
    if mtp and card.mtp_layers:
        one = layer_precisions(mtp_layer(card), card.hidden, card.weights)
        counts.update({precision: n * card.mtp_layers for precision, n in one.items()})
        counts["bf16"] += card.mtp_layers * 2 * card.hidden**2
    return {precision: n for precision, n in counts.items() if n}


def weight_bytes(card: ModelCard, mtp: bool = False, vision: bool = False) -> dict[str, float]:
    """Bytes of the checkpoint by precision, scales included."""
    counts = params_by_precision(card, mtp, vision)
    return {precision: n * precision_bytes(precision, card.weights) for precision, n in counts.items()}


def mtp_weight_bytes(card: ModelCard) -> float:
    """Bytes that loading the MTP layers adds."""
    return sum(weight_bytes(card, mtp=True).values()) - sum(weight_bytes(card).values())


STATE_BYTES = 4
"""Bytes of a recurrent state value: engines keep it in fp32."""

CONV_BYTES = 2
"""Bytes of a value that the short convolution still needs."""


def window(mixer: object) -> int | None:
    """Sliding window or attention chunk in tokens; None: all of the context (or no attention)."""
    return mixer.window if isinstance(mixer, Attention | Mla) else None


def kv_elements_per_token(mixer: object) -> int:
    """Elements that one token writes to the cache of one layer: growing, or windowed where `window(mixer)`
    is set.

    >>> kv_elements_per_token(Attention(heads=32, kv_heads=8, head_dim=128))
    2048
    >>> kv_elements_per_token(Mla(heads=128, kv_lora_rank=512, qk_nope=128, qk_rope=64, v_head_dim=128))
    576
    """
    if isinstance(mixer, Attention):
        return mixer.kv_heads * (mixer.head_dim + (0 if mixer.shared_kv else v_dim(mixer)))
    if isinstance(mixer, Mla):
        return mixer.kv_lora_rank + mixer.qk_rope
    return 0


def growing_elements_per_token(mixer: object) -> float:
    """Elements a token of context adds for good: all of full attention's, or 1/compress of them."""
    if isinstance(mixer, Attention) and mixer.compress is not None:
        return kv_elements_per_token(mixer) / mixer.compress
    return 0.0 if window(mixer) is not None else float(kv_elements_per_token(mixer))


def windowed_elements_per_token(mixer: object) -> int:
    """Elements a token adds as long as it is inside the window."""
    return kv_elements_per_token(mixer) if window(mixer) is not None else 0


def index_elements_per_token(mixer: object) -> float:
    """Cached index keys of sparse attention, in elements per token of context."""
    indexer = mixer.indexer if isinstance(mixer, Attention | Mla) else None
    if indexer is None or indexer.shared:
        return 0.0
    compress = mixer.compress if isinstance(mixer, Attention) else None
    return indexer.head_dim / (compress or 1)


def state_bytes_per_seq(mixer: object) -> int:
    """Recurrent state (fp32) and convolution state (16 bit) of one sequence in one layer."""
    if isinstance(mixer, LinearAttention):
        recurrent = mixer.value_heads * mixer.key_dim * mixer.value_dim
        channels = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
    elif isinstance(mixer, Mamba2):
        recurrent = mixer.heads * mixer.head_dim * mixer.state
        channels = mixer.heads * mixer.head_dim + 2 * mixer.groups * mixer.state
    else:
        return 0
    return STATE_BYTES * recurrent + CONV_BYTES * channels * (mixer.conv - 1)


def kv_shards(mixer: object) -> int:
    """How many tp ranks can hold distinct parts of the cache or state; beyond, it is repeated."""
    if isinstance(mixer, Attention):
        return mixer.kv_heads
    if isinstance(mixer, LinearAttention):
        return mixer.value_heads
    return mixer.heads if isinstance(mixer, Mamba2) else 1


def kv_bytes_per_token_full(card: ModelCard, kv_precision: str = "bf16") -> float:
    """Bytes that every token of context adds over all layers, index keys apart."""
    return KV_BYTES[kv_precision] * sum(growing_elements_per_token(layer.mixer) for layer in card.stack)


def kv_bytes_per_token_window(card: ModelCard, kv_precision: str = "bf16") -> float:
    """Bytes that a token adds over all layers while it is inside their windows."""
    return KV_BYTES[kv_precision] * sum(windowed_elements_per_token(layer.mixer) for layer in card.stack)


def index_bytes_per_token(card: ModelCard, kv_precision: str = "bf16") -> float:
    """Bytes of index keys that every token of context adds over all layers."""
    return KV_BYTES[kv_precision] * sum(index_elements_per_token(layer.mixer) for layer in card.stack)


def state_bytes(card: ModelCard) -> int:
    """Bytes of recurrent and convolution state of one sequence, over all layers."""
    return sum(state_bytes_per_seq(layer.mixer) for layer in card.stack)


def kv_bytes_per_seq(card: ModelCard, context: float, kv_precision: str = "bf16") -> float:
    """Bytes that one sequence of `context` tokens keeps, over all layers, before tp."""
    windowed = sum(
        windowed_elements_per_token(layer.mixer) * min(context, window(layer.mixer) or 0)
        for layer in card.stack
    )
    growing = kv_bytes_per_token_full(card, kv_precision) + index_bytes_per_token(card, kv_precision)
    return growing * context + KV_BYTES[kv_precision] * windowed + state_bytes(card)

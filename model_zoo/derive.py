"""What follows from a model card: parameters and weight bytes. Matrices and cache formulas are re-exported here."""

from __future__ import annotations

from collections import Counter

from .cache import (
    entries_read,
    growing_elements_per_token,
    index_bytes_per_token,
    index_elements_per_token,
    kv_bytes_per_seq,
    kv_bytes_per_token_full,
    kv_bytes_per_token_window,
    kv_elements_per_token,
    kv_shards,
    state_bytes,
    state_bytes_per_seq,
    window,
    windowed_elements_per_token,
)
from .matrices import expert_gemms, expert_params, ffn_gemms, mixer_gemms
from .schema import WEIGHT_BYTES, DenseFfn, Gemm, Layer, ModelCard, MoeFfn, Weights

__all__ = [
    "active_params",
    "embedding_params",
    "entries_read",
    "expert_gemms",
    "expert_params",
    "ffn_gemms",
    "growing_elements_per_token",
    "index_bytes_per_token",
    "index_elements_per_token",
    "kv_bytes_per_seq",
    "kv_bytes_per_token_full",
    "kv_bytes_per_token_window",
    "kv_elements_per_token",
    "kv_shards",
    "layer_active_params",
    "layer_params",
    "layer_weight_bytes",
    "lm_head_params",
    "mixer_gemms",
    "mtp_layer",
    "mtp_params",
    "mtp_weight_bytes",
    "params_by_part",
    "params_by_precision",
    "precision_bytes",
    "state_bytes",
    "state_bytes_per_seq",
    "total_params",
    "vision_params",
    "weight_bytes",
    "window",
    "windowed_elements_per_token",
]


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
    """Parameters read for one token; `embedding` False leaves out the input embedding (a look-up, not a product)
    unless it is tied, as then it is the LM head."""
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
    """Parameters of one layer by the precision that the checkpoint stores them in. Routers stay in 16 bits."""
    counts: Counter[str] = Counter()

    def count(gemms: list[Gemm], usual: str, own: dict[str, str], times: int = 1) -> None:
        for g in gemms:
            counts["bf16" if g.name == "router" else own.get(g.name, usual)] += g.params * times

    if layer.mixer is not None:
        count(mixer_gemms(layer.mixer, hidden), weights.attention, {**layer.mixer.precision})
    if isinstance(layer.ffn, DenseFfn | MoeFfn):
        own = {**layer.ffn.precision}
        count(ffn_gemms(layer.ffn, hidden), weights.dense, own)
        count(expert_gemms(layer.ffn, hidden), weights.experts, own, experts(layer))
    return counts


def layer_weight_bytes(layer: Layer, hidden: int, weights: Weights) -> float:
    """Bytes of one layer's weights, scales included."""
    return _bytes(layer_precisions(layer, hidden, weights), weights)


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
    """Bytes of the checkpoint by precision, scales included; `sum(...values())` is what all GPUs hold together."""
    counts = params_by_precision(card, mtp, vision)
    return {precision: n * precision_bytes(precision, card.weights) for precision, n in counts.items()}


def mtp_weight_bytes(card: ModelCard) -> float:
    """Bytes that loading the MTP layers adds."""
    return sum(weight_bytes(card, mtp=True).values()) - sum(weight_bytes(card).values())


def _bytes(counts: Counter[str], weights: Weights) -> float:
    return sum(n * precision_bytes(precision, weights) for precision, n in counts.items())

"""What the weights of a checkpoint weigh, matrix by matrix as it stores them, scales included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from .matrices import expert_gemms, ffn_gemms, mixer_gemms
from .parameters import embedding_params, experts, lm_head_params, mtp_layer
from .schema import WEIGHT_BYTES, Gemm, Layer, ModelCard, Weights


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

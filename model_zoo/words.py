"""A card in a few words: its kinds of attention, its precisions."""

from __future__ import annotations

from .schema import Attention, LinearAttention, Mamba2, Mla, ModelCard


def attention_kinds(card: ModelCard) -> str:
    """The kinds of mixer in order of appearance, as "GQA + window 128" or "GDN + GQA"."""
    kinds = [_kind(layer.mixer) for layer in card.stack if layer.mixer is not None]
    return " + ".join(dict.fromkeys(kinds))


def _kind(mixer: Attention | Mla | LinearAttention | Mamba2) -> str:
    if isinstance(mixer, LinearAttention):
        return "GDN" if mixer.decay_rank is None else "KDA"
    if isinstance(mixer, Mamba2):
        return "Mamba-2"
    sparse = "sparse " if mixer.indexer is not None else ""
    if isinstance(mixer, Mla):
        return f"{sparse}MLA"
    if mixer.compress is not None:
        return f"{sparse}1-in-{mixer.compress}"
    if mixer.window is not None:
        return f"window {mixer.window}"
    names = {mixer.heads: "MHA", 1: "MQA"}
    return sparse + names.get(mixer.kv_heads, "GQA")


def weights_precision(card: ModelCard) -> str:
    """Precision of most weights: of the experts where there are any, with that of attention where it
    differs."""
    kinds = [card.weights.experts if any(f.kind == "moe" for f in card.ffns.values()) else card.weights.dense]
    if card.mixers and card.weights.attention not in kinds:
        kinds.append(card.weights.attention)
    return " + ".join(kinds)

"""How many parameters a model has: per layer, in all, for one token, in MTP layers and vision tower."""

from __future__ import annotations

from .matrices import expert_params, ffn_gemms, mixer_gemms
from .schema import Layer, ModelCard, MoeFfn


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

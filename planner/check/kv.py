"""Bytes of KV cache and recurrent state, counted anew from the card: always the least an engine can hold; and
what drafts beside a replica, as layers: of MTP and EAGLE one like the model's, of a draft model all."""

from __future__ import annotations

import json
from functools import lru_cache

from pydantic import ValidationError

from model_zoo.schema import KV_BYTES, Attention, Layer, LinearAttention, Mamba2, Mla, ModelCard
from planner.check.weights import counted
from planner.plans.schema import Draft, Replica, Stage

STATE_BYTES = 4.0  # engines keep recurrent states in fp32


def sequence_bytes(
    card: ModelCard, replica: Replica, stage: Stage, context: float, windows: bool = True
) -> float:
    """Bytes on one GPU of `stage` for one sequence of `context` tokens; KV heads fewer than ranks are
    copied. The last stage's drafter has a cache, too. Without `windows`: the most, where an engine keeps what
    lies beyond them."""
    layers = card.stack[stage.layers[0] : stage.layers[1]]
    if stage.layers[1] == len(card.stack):
        layers += drafter_of(card, replica)[1]
    element = KV_BYTES[replica.precision.kv]
    each = context / replica.cp
    return sum(n * _layer_bytes(layer, each, stage.tp, element, windows) for layer, n in counted(layers))


def prompt_bytes(card: ModelCard, kv_precision: str, tokens: float) -> float:
    """Bytes of one prompt's cache in the whole model: what a prefill replica must send to a decode replica.

    A Llama-3.1-8B prompt of 1,000 tokens: 32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a token.
    """
    element = KV_BYTES[kv_precision]
    return sum(n * _layer_bytes(layer, tokens, 1, element) for layer, n in counted(card.stack))


def read_bytes(card: ModelCard, replica: Replica, stage: Stage, context: float) -> float:
    """Bytes one decode step reads for one sequence on one GPU: what it stores, of it `top_k` entries where
    attention is sparse."""
    element = KV_BYTES[replica.precision.kv]

    def of(layer: Layer) -> float:
        share = seen(layer, context) / max(stored(layer, context), 1.0)
        whole = _layer_bytes(layer, context / replica.cp, stage.tp, element)
        return whole * min(share, 1.0) if isinstance(layer.mixer, Attention | Mla) else whole

    return sum(n * of(layer) for layer, n in counted(card.stack[stage.layers[0] : stage.layers[1]]))


def stored(layer: Layer, context: float, windows: bool = True) -> float:
    """Cache entries of one sequence in one layer: all tokens, a window of them, or a window and one a
    `compress` tokens."""
    mixer = layer.mixer
    if not isinstance(mixer, Attention | Mla):
        return 0.0
    compress = mixer.compress if isinstance(mixer, Attention) else None
    inside = 0.0 if compress and not mixer.window else context
    if mixer.window and windows:
        inside = min(context, mixer.window)
    return inside + (context / compress if compress else 0.0)


def seen(layer: Layer, context: float) -> float:
    """Cache entries that one query at `context` attends to: as stored, or the indexer's `top_k` where that
    is less."""
    mixer = layer.mixer
    entries = stored(layer, context)
    if isinstance(mixer, Attention | Mla) and mixer.indexer:
        return min(entries, float(mixer.indexer.top_k))
    return entries


def _layer_bytes(layer: Layer, context: float, tp: int, element: float, windows: bool = True) -> float:
    """Bytes on one of `tp` ranks of a sequence of `context` tokens in one layer."""
    mixer = layer.mixer
    index = _index_bytes(layer, context, element)
    if isinstance(mixer, Attention):
        width = mixer.head_dim + (0 if mixer.shared_kv else mixer.v_head_dim or mixer.head_dim)
        return stored(layer, context, windows) * max(mixer.kv_heads / tp, 1.0) * width * element + index
    if isinstance(mixer, Mla):
        return stored(layer, context, windows) * (mixer.kv_lora_rank + mixer.qk_rope) * element + index
    if isinstance(mixer, LinearAttention):
        return mixer.value_heads * mixer.value_dim * mixer.key_dim * STATE_BYTES / tp
    if isinstance(mixer, Mamba2):
        return mixer.heads * mixer.head_dim * mixer.state * STATE_BYTES / tp
    return 0.0


def _index_bytes(layer: Layer, context: float, element: float) -> float:
    """Index keys of sparse attention, whole on every rank; one byte an element where engines choose."""
    mixer = layer.mixer
    if not isinstance(mixer, Attention | Mla) or mixer.indexer is None or mixer.indexer.shared:
        return 0.0
    compress = mixer.compress if isinstance(mixer, Attention) else None
    return context / (compress or 1) * mixer.indexer.head_dim * min(element, 1.0)


def drafter_of(card: ModelCard, replica: Replica) -> tuple[ModelCard, tuple[Layer, ...]]:
    """The drafter's card (of a head the model's) and its layers; none of n-grams, of no drafter, and of a
    card that makes no sense."""
    draft = replica.draft
    if draft is None or draft.kind == "ngram":
        return card, ()
    if draft.kind == "draft":
        model = model_of(draft)
        return (model, model.stack) if model else (card, ())
    if draft.kind == "mtp":
        return card, (card.layer(card.mtp_layer) if card.mtp_layer else card.stack[-1],)
    last = next((x.mixer for x in reversed(card.stack) if isinstance(x.mixer, Attention | Mla)), None)
    return card, (Layer(last, None),)


def model_of(draft: Draft) -> ModelCard | None:
    """The card of a draft model, None where it makes no sense."""
    return _parsed(json.dumps(draft.model))


@lru_cache(maxsize=16)
def _parsed(text: str) -> ModelCard | None:
    try:
        return ModelCard.model_validate_json(text)
    except ValidationError:
        return None


def beside_bytes(replica: Replica) -> float:
    """Stated bytes of a drafter on a GPU that are not the model's own."""
    return replica.draft.weights_bytes if replica.draft and replica.draft.kind != "mtp" else 0.0

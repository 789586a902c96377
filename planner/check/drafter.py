"""What drafts beside a replica, as layers: of MTP and EAGLE one like the model's, of a draft model all."""

from __future__ import annotations

import json
from functools import lru_cache

from pydantic import ValidationError

from model_zoo.schema import Attention, Layer, Mla, ModelCard
from planner.plans.schema import Draft, Replica


def of(card: ModelCard, replica: Replica) -> tuple[ModelCard, tuple[Layer, ...]]:
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

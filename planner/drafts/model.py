"""DraftedModel: the cost model of a server that drafts. What a drafter adds to a step and takes of memory.

A drafter is a model, too: it runs k times a step, first over all tokens of the step (those that the model
has just verified, and prompts), then over one of each sequence, and its LM head picks a token each time. Its
weights lie on the same GPUs, split by tp and repeated on attention-dp ranks (MTP layers as the model's own;
`planner.cost.weights` counts them already), its cache grows with the model's. A sequence holds a slot for
every drafted token. n-grams take time of the host alone.

Designs have one stage and no context parallelism (planner/variants/drafts.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cluster_configs.schema import NodeClass
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.experts import AS_ASSUMED
from planner.cost.layers import Layers
from planner.cost.memory import Memory, kv_bytes_per_seq
from planner.cost.model import CostModel
from planner.cost.reserve import Sequences
from planner.cost.told import AS_USUAL, Told
from planner.cost.weights import layer_bytes, weights_bytes
from planner.designs.precision import MatrixPrecision, precisions
from planner.designs.shape import Designs, Floats, Ints, Precisions, like
from planner.designs.stages import stages_of
from planner.drafts.kinds import Draft

NGRAM_S = 2e-5
"""Seconds in which the host looks up one sequence's last tokens: an assumption, not measured."""


def draft_of(model: CostModel) -> Draft | None:
    """What the servers of a cost model draft with."""
    return model.draft if isinstance(model, DraftedModel) else None


def handed(model: CostModel) -> str:
    """The drafter whose cache of a prompt goes along from prefill to decode, which both are started with; "":
    none."""
    draft = draft_of(model)
    return draft.name if draft and draft.card else ""


class DraftedModel(CostModel):
    """What one model takes with a drafter beside it."""

    def __init__(
        self,
        card: ModelCard,
        node_class: NodeClass,
        engine: str,
        used: Precisions,
        draft: Draft,
        calibration: Calibration | None = None,
        told: Told = AS_USUAL,
    ) -> None:
        super().__init__(card, node_class, engine, used, calibration, told)
        self.draft, self.draft_tokens, self.emitted = draft, draft.tokens, 1 + draft.accepted
        self.own = used if draft.kind == "mtp" else replace(precisions(draft.card or card), kv=used.kv)
        popularity = self.calibration.popularity if draft.kind == "mtp" else AS_ASSUMED
        parts = (self.chip, self.fits, self.links, self.own, popularity)
        self.drafter = Layers(draft.card, *parts) if draft.card else None

    def drafting_s(self, load: Load, designs: Designs) -> Floats:
        """Seconds of drafting the next tokens of every sequence of a micro-batch, shape (n,)."""
        if self.drafter is None:
            return NGRAM_S * load.sequences
        return self.drafter.draft_s(load, self.draft.tokens, self._beside(designs))

    def drafter_bytes(self, designs: Designs) -> Floats:
        """Bytes of the drafter's weights on one GPU, shape (n,); MTP layers are counted with the model's."""
        card = self.draft.card
        if card is None:
            return np.zeros(len(designs))
        beside = self._beside(designs)
        if self.draft.kind == "mtp":
            return layer_bytes(card.stack[0], card.hidden, beside, MatrixPrecision(card, self.own))
        return np.asarray(weights_bytes(card, beside, self.own, stages_of(card, beside, None))[:, 0])

    def drafter_cache_bytes(self, designs: Designs, tokens: Floats) -> Floats:
        """Bytes of the drafter's cache of one sequence of `tokens`, (w,) or (n, w), on one GPU: (n, w)."""
        if self.draft.card is None:
            return np.zeros((len(designs), np.shape(tokens)[-1]))
        return kv_bytes_per_seq(self.draft.card, self._beside(designs), self.own, self.engine, tokens)

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """With the drafter's weights in place of room for cache."""
        return self._with_drafter(super().memory_by_stage(designs, tokens_per_step, sequences), designs)

    def cache_bytes(self, designs: Designs, tokens: Floats, stage: Ints) -> Floats:
        """With the drafter's cache, and slots of the tokens that are drafted."""
        held = tokens + self.draft.tokens
        own = super().cache_bytes(designs, held, stage)
        return np.asarray(own + self.drafter_cache_bytes(designs, held))

    def transfer_bytes(self, isl: Floats) -> Floats:
        """With the drafter's cache of prompts."""
        return np.asarray(super().transfer_bytes(isl) + self.drafter_cache_bytes(like(1, 1), isl)[0])

    def handed_bytes(self, designs: Designs, isl: Floats) -> tuple[Floats, Floats]:
        """With the drafter's cache of prompts."""
        held, copies = super().handed_bytes(designs, isl)
        return np.asarray(held + self.drafter_cache_bytes(designs, isl)), copies

    def _beside(self, designs: Designs) -> Designs:
        """The designs as the drafter sees them: experts of another model are divided over all GPUs."""
        if self.draft.kind == "mtp":
            return designs
        one = np.ones_like(designs.tp)
        return replace(designs, moe_tp=designs.tp * designs.groups, ep=one, redundant=0 * one)

    def _with_drafter(self, memory: Memory, designs: Designs) -> Memory:
        if self.draft.kind == "mtp":
            return memory
        more = self.drafter_bytes(designs).reshape((-1,) + (1,) * (memory.kv_bytes.ndim - 1))
        weights, left = memory.weights_bytes + more, memory.kv_bytes - more
        return replace(memory, weights_bytes=weights, kv_bytes=left)

"""Speculative decoding: a setup's designs with a drafter beside the model, for each way to draft.

Offered of designs with one stage and without context parallelism (vLLM drafts in no pipeline), that keep no
idle cache, on one class. A drafter with a cache of its own drafts for both servers of a pair; a draft model
only where one server does both phases, as no engine hands its cache over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from cluster_configs.schema import NodeClass
from planner.candidates.ask import Ask
from planner.candidates.setup import Role, Setup
from planner.drafts.kinds import Kind
from planner.drafts.model import DraftedModel, draft_of
from planner.engines import named

ROLES: Final[Mapping[Kind, Sequence[Role]]] = {
    "mtp": ("mixed", "prefill", "decode"),
    "eagle": ("mixed", "prefill", "decode"),
    "ngram": ("mixed", "decode"),
    "draft": ("mixed",),
}


def of(s: Setup, node: NodeClass, engine: str, ask: Ask) -> Iterator[Setup]:
    """The setup with each of the drafts that are asked for and that the engine has."""
    if ask.offload or s.mix.steps == 0:
        return
    for draft in ask.drafts:
        d = s.designs
        able = (d.pp == 1) & (d.cp == 1)
        if engine == "sglang" and draft.kind == "ngram":
            able &= (d.attn_dp == 1) & (node.device.vendor == "nvidia")
        some = np.flatnonzero(able)
        if draft.kind in named(engine).drafts and len(some):
            model = DraftedModel(ask.card, node, engine, ask.precisions, draft, ask.calibration)
            yield ask.setup(model, d.take(some), [node])


def name(s: Setup) -> str:
    """Of its draft, "" without."""
    draft = draft_of(s.model)
    return draft.name if draft else ""


def roles(s: Setup) -> Sequence[Role]:
    """That servers of the setup may have."""
    draft = draft_of(s.model)
    return ROLES[draft.kind] if draft else ("mixed", "prefill", "decode")

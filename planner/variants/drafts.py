"""Speculative decoding: a setup's designs with a drafter beside the model, for each way to draft.

Offered of designs with one stage and without context parallelism (vLLM drafts in no pipeline), that keep no
idle cache, on one class. A drafter with a cache of its own drafts for both servers of a pair; a draft model
only where one server does both phases, as no engine hands its cache over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from planner.candidates.ask import Ask
from planner.candidates.setup import Made, Role
from planner.drafts.kinds import Kind
from planner.drafts.model import DraftedModel
from planner.engines import named

ROLES: Final[Mapping[Kind, Sequence[Role]]] = {
    "mtp": ("mixed", "prefill", "decode"),
    "eagle": ("mixed", "prefill", "decode"),
    "ngram": ("mixed", "decode"),
    "draft": ("mixed",),
}


def drafted(made: Made, ask: Ask) -> Iterator[Made]:
    """The setup without drafts, and with each of those that are asked for and that the engine has."""
    yield made
    s, node, engine = made.setup, made.node, made.key.engine
    if node is None or not made.plain or s.model.stagings or s.mix.steps == 0:
        return
    for draft in ask.drafts:
        d = s.designs
        able = (d.pp == 1) & (d.cp == 1)
        if engine == "sglang" and draft.kind == "ngram":
            able &= (d.attn_dp == 1) & (node.device.vendor == "nvidia")
        some = np.flatnonzero(able)
        if draft.kind in named(engine).drafts and len(some):
            model = DraftedModel(ask.card, node, engine, ask.precisions, draft, ask.calibration)
            own, key = ask.setup(model, d.take(some), [node]), replace(made.key, draft=draft.name)
            yield Made.of(key, own, node, ROLES[draft.kind]).only(made.roles)

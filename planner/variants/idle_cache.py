"""Idle KV cache kept between requests: a setup's designs at each level of keeping it
(`candidates/idle_cache.py`), in the engine's own chunks and without drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from planner.candidates.ask import Ask
from planner.candidates.setup import Made, Role

ROLES: Final[tuple[Role, ...]] = ("mixed", "prefill")
"""Roles in which idle cache is of use: those that compute prompts."""


def keeping(made: Made, ask: Ask) -> Iterator[Made]:
    """The setup without idle cache, and at every level; these serve only on one class of nodes."""
    yield made
    if made.node is None or not made.plain:
        return
    for level in ask.keeping(made.node, made.key.engine):
        assert level.keep is not None
        s = level.setup(made.setup.model, made.setup.designs, [made.node])
        key = replace(made.key, level=level.keep.number)
        yield replace(Made.of(key, s, made.node, ROLES), considered=0)

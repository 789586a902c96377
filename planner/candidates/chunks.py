"""Chunks of long prompts: how many tokens of a step the engine is told, by design.

Small chunks fill a pipeline, large ones make the keys and values of a context-parallel ring pass less often;
both must leave room beside their activations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from planner.candidates.ask import CHUNKS, LONG, Ask
from planner.candidates.points import batched
from planner.candidates.setup import Role, Setup
from planner.cost.shape import Floats, Ints
from planner.operating.room import counted


def chunked(
    s: Setup, engine: str, ask: Ask, roles: Sequence[Role]
) -> Iterator[tuple[int, Setup, Ints, Sequence[Role]]]:
    """What is offered of a setup in `roles`: tokens of a step that the engine is told (0: its default),
    setup, designs, roles. Each design computes prompts in the chunks that have one's first token out first.

    Replicas that only decode take none, so all are offered for that with the engine's own.
    """
    fits = s.fitting
    if ask.offload or ask.workload.longest < LONG or engine == "llama.cpp" or not len(fits):
        yield 0, s, fits, roles
        return
    tried = {0: s} | {chunk: _told(s, chunk) for chunk in CHUNKS if chunk != s.token_budget}
    seconds = np.full((len(tried), len(s.designs)), np.inf)
    for row, own in zip(seconds, tried.values(), strict=True):
        row[fits] = first_token_s(own, fits)
    best = seconds.argmin(axis=0)
    at_home = best[fits] == 0
    yield 0, s, fits[at_home], roles
    yield 0, s, fits[~at_home], [role for role in roles if role == "decode"]
    for i, (chunk, own) in enumerate(tried.items()):
        better = np.flatnonzero(best == i).astype(np.int64)
        if i > 0 and len(better):
            taken = replace(own, designs=own.designs.take(better), memory=own.memory.take(better))
            yield chunk, taken, np.arange(len(better)), [role for role in roles if role != "decode"]


def first_token_s(s: Setup, index: Ints) -> Floats:
    """With one request in the server, the slowest bucket's, (n,); infinite where a prompt has no room."""
    role: Role = "mixed" if s.mix.steps else "prefill"
    points = batched(s, index, np.ones(len(index)), role)
    return np.where(s.holds["prefill"][index].all(axis=1), points.ttft_s.max(axis=1), np.inf)


def _told(s: Setup, chunk: int) -> Setup:
    """The setup with steps of `chunk` tokens."""
    memory = counted(s.model, s.designs, chunk, max(s.mix.context, 1.0))
    return replace(s, memory=memory, token_budget=chunk)

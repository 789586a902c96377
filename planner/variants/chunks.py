"""Chunks of long prompts: how many tokens of a step the engine is told, by design.

Small chunks fill a pipeline, large ones make the keys and values of a context-parallel ring pass less often;
both must leave room beside their activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planner.candidates.ask import CHUNKS, LONG, Ask
from planner.candidates.points import batched
from planner.candidates.setup import Made, Role, Setup
from planner.designs.shape import Floats, Ints
from planner.operating.room import counted


def chunked(made: Made, ask: Ask) -> Iterator[Made]:
    """The setup with the designs that compute prompts best in the engine's own chunks, and others with those
    that have one's first token out first in chunks that the engine is told.

    Replicas that only decode take none, so all are offered for that with the engine's own.
    """
    s, fits = made.setup, made.setup.fitting
    if not _told(made, ask) or not len(fits):
        yield made
        return
    tried = {0: s} | {chunk: in_chunks(s, chunk) for chunk in CHUNKS if chunk != s.token_budget}
    seconds = np.full((len(tried), len(s.designs)), np.inf)
    for row, own in zip(seconds, tried.values(), strict=True):
        row[fits] = first_token_s(own, fits)
    best, roles = seconds.argmin(axis=0), made.roles
    home, away = fits[best[fits] == 0], fits[best[fits] != 0]
    computing = [role for role in roles if role != "decode"]
    yield replace(made, parts=((home, roles), (away, [role for role in roles if role == "decode"])))
    for i, (chunk, own) in enumerate(tried.items()):
        better = np.flatnonzero(best == i).astype(np.int64)
        if i > 0 and len(better):
            key = replace(made.key, chunk=chunk)
            yield replace(Made.of(key, own.only(better), made.node, computing), considered=0)


def _told(made: Made, ask: Ask) -> bool:
    """Whether the engine is told how many prompt tokens a step has: for long prompts, on one class of nodes
    and with nothing in host memory, where no idle cache is kept."""
    long = ask.workload.longest >= LONG and made.key.engine != "llama.cpp"
    return long and made.node is not None and not made.key.level and not made.setup.model.stagings


def first_token_s(s: Setup, index: Ints) -> Floats:
    """With one request in the server, the slowest bucket's, (n,); infinite where a prompt has no room."""
    role: Role = "mixed" if s.mix.steps else "prefill"
    points = batched(s, index, np.ones(len(index)), role)
    return np.where(s.holds["prefill"][index].all(axis=1), points.ttft_s.max(axis=1), np.inf)


def in_chunks(s: Setup, chunk: int) -> Setup:
    """The setup with steps of `chunk` tokens."""
    memory = counted(s.model, s.designs, chunk, max(s.mix.context, 1.0))
    return replace(s, memory=memory, token_budget=chunk)

"""Room in the KV cache: for how many sequences, and what one takes, by how its engine gives it out."""

from __future__ import annotations

import numpy as np

from planner.cost.memory import Memory
from planner.cost.model import CostModel
from planner.cost.reserve import DEFAULT_SEQUENCES
from planner.designs.shape import Designs, Floats
from planner.engines import named


def unfilled_tokens(engine: str) -> float:
    """Tokens that the last block of a sequence leaves empty on average.

    >>> unfilled_tokens("vllm"), unfilled_tokens("sglang")
    (7.5, 0.0)
    """
    return (named(engine).block_tokens - 1) / 2


def held_tokens(engine: str, own: Floats, osl: Floats, longest: Floats | None = None) -> Floats:
    """Tokens that a decoding sequence holds on average: its `own` prompt (what others hold for it, too, is
    not), half of its answer, or where the engine reserves the `longest` it may give (its own, unless told),
    and what its last block leaves empty."""
    answer = osl / 2
    if named(engine).admits_whole:
        answer = osl if longest is None else longest
    return own + unfilled_tokens(engine) + answer


CHORDS = 2
"""Chords by which that number is found: within 3 %, or low where sampling takes more than the cache."""


def planned_sequences(
    model: CostModel, designs: Designs, token_budget: int, context: Floats | float
) -> Floats:
    """Sequences of `context` tokens on one server, (n,), for which its memory is counted: as many as it then
    holds, at least one. Sampling and captured graphs take memory by that number: engines set it aside for all
    sequences that they are told to serve (vLLM's `--max-num-seqs`).

    Where memory is counted for S sequences it holds h(S), fewer the larger S, by a line and then by a steeper
    one. S = h(S) is read off chords of h to what vLLM's default number holds: each from nearer below."""

    def held(sequences: Floats) -> Floats:
        memory = model.memory(designs, token_budget, context, sequences)
        tokens = np.asarray(context, dtype=np.float64).reshape(-1, 1)
        each = model.cache_bytes(designs, tokens, memory.stage)[:, 0]
        return np.asarray(memory.kv_bytes / np.maximum(each, 1.0))  # below 0: so many too many

    low = np.full(len(designs), float(DEFAULT_SEQUENCES))
    room = held(low)
    high = np.maximum(room, 1.0)
    most = held(high)
    for more in range(CHORDS):
        room = held(low) if more else room
        lost = np.maximum((room - most) / np.where(high == low, 1.0, high - low), 0.0)
        low = np.maximum((room + lost * low) / (1 + lost), 1.0)
    return low


def counted(model: CostModel, designs: Designs, token_budget: int, context: Floats | float) -> Memory:
    """Memory of designs (n,) whose engines are told to serve their `planned_sequences`."""
    sequences = planned_sequences(model, designs, token_budget, context)
    return model.memory(designs, token_budget, context, sequences)

"""Room in the KV cache that one sequence takes, by how its engine gives it out."""

from __future__ import annotations

from planner.cost.reserve import BLOCK_TOKENS
from planner.cost.shape import Floats

RESERVING = ("trtllm",)
"""Engines that hold KV room for a request's longest output from its start (TensorRT-LLM: guaranteed no
evict)."""


def unfilled_tokens(engine: str) -> float:
    """Tokens that the last block of a sequence leaves empty on average.

    >>> unfilled_tokens("vllm"), unfilled_tokens("sglang")
    (7.5, 0.0)
    """
    return (BLOCK_TOKENS[engine] - 1) / 2


def held_tokens(engine: str, own: Floats, osl: Floats, longest: Floats | None = None) -> Floats:
    """Tokens that a decoding sequence holds on average: its `own` prompt (what others hold for it, too, is
    not), half of its answer, or where the engine reserves the `longest` it may give (its own, unless told),
    and what its last block leaves empty."""
    answer = osl / 2
    if engine in RESERVING:
        answer = osl if longest is None else longest
    return own + unfilled_tokens(engine) + answer

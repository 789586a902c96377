"""One long prompt by itself on an idle replica: the quickest design that holds it, and its line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.candidates.points import alone
from planner.candidates.setup import Setup
from planner.cost.model import CostModel
from planner.designs.shape import Ints
from planner.plans.schema import LongPrompt
from planner.why.infeasible import layout


@dataclass(frozen=True)
class Lone:
    """The quickest design of some for one prompt: seconds, tokens of cache it holds, design in words."""

    seconds: float
    kv_tokens: float
    words: str
    engine: str


def line(what: str, lone: Lone, started_by: str | None, why: str = "") -> LongPrompt:
    return LongPrompt(
        what=f"{what}: {lone.words}",
        ttft_ms=1e3 * lone.seconds,
        kv_tokens=lone.kv_tokens,
        started_by=started_by,
        why=why,
    )


def quickest(s: Setup, index: Ints, where: str, model: CostModel | None = None) -> list[Lone]:
    """The design of `index` that has the first token first and holds the prompt; none where none does. By
    another `model` than the setup's where one is given."""
    index = index[(s.memory.kv_bytes[index] > 0) & (s.designs.gpus[index] <= s.model.most_gpus)]
    if not len(index):
        return []
    seconds, tokens = alone(s, index, model)
    seconds = np.where(tokens >= float(s.mix.isl.max()), seconds, np.inf)
    i = int(np.argmin(seconds))
    if not np.isfinite(seconds[i]):
        return []
    words = f"{layout(s, int(index[i]), where)}, {chunks(s)}"
    return [Lone(float(seconds[i]), float(tokens[i]), words, s.model.engine)]


def chunks(s: Setup) -> str:
    """Tokens of a step, in words."""
    return f"chunks of {s.token_budget:,}"

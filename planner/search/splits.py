"""When prefill and decode stay together although a fleet with a split is predicted to be better.

Public comparisons of a split with servers that do both, on the same GPUs, from 2024 to 2026: where links are
fast, splitting only for a predicted gain above `SURE` brings the most; between GPUs that do not read each
other's memory two sources with five runs gained nothing (vLLM on L40S at three rates, SGLang on A10 with RDMA
at two loads).
`python -m benchmarks.choice splits` has those that are public.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster_configs.schema import NodeClass
from planner.objectives import Objective
from planner.plans.found import Found
from planner.search.find import restricted
from planner.search.question import Question
from solvers.linear import Limits

SURE = 1.1
"""Predicted gain above which splits pay when measured: of 88 comparisons, the rule "above 1.1" gains 0.273 in
the mean log against never splitting, "above 1" 0.235, perfect foresight 0.290."""

APART = ("watts", "latency")
"""What an objective may spend that comparisons of tokens a GPU say nothing of."""


def without_peers(classes: Iterable[NodeClass]) -> set[str]:
    """Classes whose GPUs do not read each other's memory."""
    return {node.id for node in classes if not node.peer_to_peer}


def gain_of(objective: Objective, split: float, unsplit: float) -> float:
    """How many times better the first of two objectives is."""
    return split / unsplit if objective.more else unsplit / split


def unsplit(question: Question, best: Found, limits: Limits) -> Found | None:
    """The best fleet without a split, where that of `best` gains too little or is between GPUs without
    peer-to-peer. None where `best` has no split, may keep it, or nothing else keeps the limits. Raises
    OutOfTime."""
    split = [c for c in (best.candidates[c] for c, _ in best.solution.flows) if c.role != "mixed"]
    value = best.solution.objective
    if not split or not value or question.objective.spends in APART:
        return None
    found = restricted(question, best, lambda c: c.role == "mixed", limits)
    theirs = found.solution.objective if found else None
    if found is None or not theirs:
        return None
    little = gain_of(question.objective, value, theirs) <= SURE
    slow = without_peers(question.cluster.classes)
    return found if little or all(c.home[0] in slow for c in split) else None

"""What ways that no stock engine starts would have given: solved like any fleet, shown beside the plan, never
chosen.

Different tp in the stages of one replica (vLLM and SGLang have one for all: vLLM issue 27239 asks for more),
and unlike GPUs in one tensor-parallel group, each with its own share of the heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.asked import Asked
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Candidate
from planner.cost.uneven_tp import Shard
from planner.errors import Infeasible
from planner.explain.alternatives import describe
from planner.plans.found import Found, groups
from planner.plans.schema import Alternative
from planner.posed import pose
from planner.search import find
from solvers.linear import Limits

MOST_GPUS, MOST_CLASSES = 32, 3
"""Larger clusters gain little from unlike GPUs in one replica, and the space takes seconds."""

WORTH = 0.02
"""What such a way must gain to be shown."""


def beyond(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """Ways that serve more (or cost less) than the plan, and that no engine starts as it comes."""
    classes = asked.cluster.classes
    if not 2 <= len(classes) <= MOST_CLASSES or sum(c.gpus for c in classes) > MOST_GPUS:
        return []
    try:
        _, pool, question = pose(replace(asked, freedom=Freedom(shares=True)))
    except Infeasible:
        return []
    made = list[Alternative]()
    for what, why, own in WAYS:
        kept = tuple(c for c in pool.candidates if plain(c) or own(c))
        if any(own(c) for c in kept):
            made += _shown(what, why, best, find(question, replace(pool, candidates=kept), limits))
    return made


def plain(c: Candidate) -> bool:
    """Whether an engine starts it as it comes."""
    return not any(isinstance(s, Shard) for s in c.design.stages) and len({s.tp for s in c.design.stages}) < 2


def _shards(c: Candidate) -> bool:
    return any(isinstance(s, Shard) for s in c.design.stages)


def _sizes(c: Candidate) -> bool:
    return len({s.tp for s in c.design.stages}) > 1


WAYS = (
    ("different tp in one replica", "no engine starts stages with different tp as it comes", _sizes),
    ("unlike GPUs in one tp group", "no engine gives GPUs unequal shares of the heads as it comes", _shards),
)


def _shown(what: str, why: str, best: Found, rival: Found) -> Iterator[Alternative]:
    """The rival, where it is worth it."""
    ours, theirs = best.solution.objective, rival.solution.objective
    if not ours or theirs is None:
        return
    gain = (theirs - ours if best.objective == "throughput" else ours - theirs) / abs(ours)
    if gain >= WORTH:
        told = f"{gain:.0%} better, but {why}"
        yield Alternative(what=f"{what}: {describe(groups(rival))}", objective=theirs, loss=0.0, why=told)

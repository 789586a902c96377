"""Replicas of unlike GPUs that no stock engine starts: solved like any fleet, shown beside the plan, never
chosen.

Different tp in the stages of one replica (vLLM and SGLang have one for all: vLLM issue 27239 asks for more),
unlike GPUs in one tensor-parallel group, each with its own share of the heads, and attention and FFNs on
different GPUs (docs/afd.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from planner.beside.planned import Planned
from planner.beside.rivals import Rival, gains, told
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Candidate
from planner.plans.schema import Alternative
from planner.question.posed import pooled
from planner.search.find import find

MOST_GPUS, MOST_CLASSES = 32, 3
"""Larger clusters gain little from unlike GPUs in one replica, and the space takes seconds."""

NODES = 200
"""Branch-and-bound nodes, so that the clock decides nothing and no way takes longer than the plan."""


def unlike(planned: Planned) -> Iterator[Alternative]:
    """Each form where a fleet with it beats all without; stages of different tp and shares of heads where the
    plan mixes classes in a replica or leaves GPUs idle that it could use; with the plan's engines."""
    asked, plan, limits = planned.asked, planned.fleet, planned.limits
    gpus = sum(c.gpus for c in asked.cluster.classes)
    if asked.offload or not 2 <= len(asked.cluster.classes) <= MOST_CLASSES or gpus > MOST_GPUS:
        return
    idle = asked.objective.more and sum(plan.kinds.values()) < gpus
    mixed = idle or any(g.candidate.design.stages for g in plan.made)
    engines = tuple(sorted({g.candidate.engine for g in plan.made}))
    free = Freedom(tp=mixed, shares=mixed, apart=True, engines=engines)
    pool, question = pooled(replace(asked, freedom=free), planned.found.pool)
    few = limits if limits.work is None else replace(limits, work=min(limits.work, NODES))
    for what, why, own in FORMS:
        among = tuple(c for c in pool.candidates if own(c) or not any(form(c) for _, _, form in FORMS))
        if not any(own(c) for c in among):
            continue
        rival = Rival.of(partial(find, question, replace(pool, candidates=among), few))
        made = rival.fleet.made if rival.fleet and gains(plan, rival.fleet.objective) else []
        if any(own(g.candidate) for g in made):
            yield told(plan, rival, what, remark=why)


Form = tuple[str, str, Callable[[Candidate], bool]]
"""A name, why it is not the plan, and whether a candidate is one."""

FORMS: tuple[Form, ...] = (
    (
        "different tp in one replica",
        "no engine starts stages with different tp as it comes",
        lambda c: c.key.kind == "unlike stages" and len({s.tp for s in c.design.stages}) > 1,
    ),
    (
        "unlike GPUs in one tp group",
        "no engine gives GPUs unequal shares of the heads as it comes",
        lambda c: c.key.kind == "uneven heads",
    ),
    (
        "attention and FFNs on different GPUs",
        "no engine release runs that as it comes",
        lambda c: c.key.kind == "attention apart",
    ),
)

"""Long prompts: what dividing each by its tokens over GPUs (context parallelism) gives, or gives up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.beside.planned import Planned
from planner.beside.rivals import Rival, told
from planner.candidates.ask import CONTEXTS, LONG
from planner.errors import Infeasible
from planner.plans.schema import Alternative
from planner.question.posed import pose
from planner.search.find import find

WHY = "every chunk of a prompt makes its keys and values so far pass all groups of ranks"

NEVER = "no fleet of such replicas keeps the limits"


def other_contexts(planned: Planned) -> list[Alternative]:
    """The best fleet with context parallelism in every replica where the plan has none, or without."""
    asked, best = planned.asked, planned.found
    if asked.workload.longest < LONG or asked.options.engine not in ("any", "vllm") or asked.offload:
        return []
    used = any(best.candidates[c].design.cp > 1 for c in best.solution.replicas)
    what = "no context parallelism" if used else "context parallelism"
    other = replace(asked, contexts=(1,) if used else CONTEXTS[1:], defaulted=[])
    try:
        _, pool, question = pose(other)
    except Infeasible as error:
        return [told(planned.fleet, Rival("infeasible"), what, error.message)]
    if not used:
        pool = replace(pool, candidates=tuple(c for c in pool.candidates if c.design.cp > 1))
    rival = Rival.of(partial(find, question, pool, planned.limits))
    return [told(planned.fleet, rival, what, NEVER, "" if used else WHY)]

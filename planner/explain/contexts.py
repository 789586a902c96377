"""Long prompts: what dividing each by its tokens over GPUs (context parallelism) gives, or gives up."""

from __future__ import annotations

from dataclasses import replace

from planner.asked import Asked
from planner.candidates.ask import CONTEXTS, LONG
from planner.errors import Infeasible
from planner.explain.alternatives import describe
from planner.plans.found import Found, groups
from planner.plans.schema import Alternative
from planner.posed import pose
from planner.search import find
from solvers.linear import Limits

WHY = "every chunk of a prompt makes its keys and values so far pass all groups of ranks"


def other_contexts(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """The best fleet with context parallelism in every replica where the plan has none, or without."""
    if asked.workload.longest < LONG or asked.options.engine not in ("any", "vllm") or asked.offload:
        return []
    used = any(best.candidates[c].design.cp > 1 for c in best.solution.replicas)
    what = "no context parallelism" if used else "context parallelism"
    other = replace(asked, contexts=(1,) if used else CONTEXTS[1:], defaulted=[])
    try:
        _, pool, question = pose(other)
    except Infeasible as error:
        return [Alternative(what=what, objective=None, loss=None, why=error.message)]
    if not used:
        pool = replace(pool, candidates=tuple(c for c in pool.candidates if c.design.cp > 1))
    rival = find(question, pool, limits)
    theirs, ours = rival.solution.objective, best.solution.objective
    if theirs is None or not ours:
        return []
    worse = ours - theirs if best.objective == "throughput" else theirs - ours
    why = describe(groups(rival)) if used else f"{describe(groups(rival))}; {WHY}"
    return [Alternative(what=what, objective=theirs, loss=max(worse / abs(ours), 0.0), why=why)]

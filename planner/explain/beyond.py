"""What ways that no stock engine starts would have given: solved like any fleet, shown beside the plan, never
chosen.

Today: stages of one replica with different tp. vLLM and SGLang have one tp for all stages (vLLM issue 27239
asks for more).
"""

from __future__ import annotations

from dataclasses import replace

from planner.asked import Asked
from planner.candidates.ask import Freedom
from planner.errors import Infeasible
from planner.explain.alternatives import describe
from planner.plans.found import Found, groups
from planner.plans.schema import Alternative
from planner.posed import pose
from planner.search import find
from solvers.linear import Limits, gap

MOST_GPUS = 64
"""Larger clusters gain little from unlike stages, and their spaces take seconds."""

WORTH = 0.02
"""What such a way must gain to be shown."""


def beyond(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """Ways that serve more (or cost less) than the plan, and that no engine starts as it comes."""
    classes = asked.cluster.classes
    if len(classes) < 2 or sum(c.gpus for c in classes) > MOST_GPUS:
        return []
    try:
        _, pool, question = pose(replace(asked, freedom=Freedom()))
    except Infeasible:
        return []
    rival = find(question, pool, limits)
    ours, theirs = best.solution.objective, rival.solution.objective
    unlike = [g for g in groups(rival) if len({s.tp for s in g.candidate.design.stages}) > 1]
    if ours is None or theirs is None or not unlike:
        return []
    gain = (theirs - ours if best.objective == "throughput" else ours - theirs) / abs(ours)
    if gain < WORTH or gap(ours, theirs) == 0:
        return []
    why = f"{gain:.0%} better, but no engine starts stages with different tp as it comes"
    what = f"different tp in one replica: {describe(groups(rival))}"
    return [Alternative(what=what, objective=theirs, loss=0.0, why=why)]

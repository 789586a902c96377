"""A fleet that was solved becomes a Plan: explained, assembled, launched, and checked."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

from planner.beside.planned import Line, Planned
from planner.beside.rivals import told_once
from planner.beside.ways import WAYS
from planner.candidates.deadline import deadline
from planner.errors import OutOfTime
from planner.fleet.solve import Solved, interrupted
from planner.inputs.options import Survive
from planner.launch import launched
from planner.plans import schema
from planner.plans.assemble import assemble, proof
from planner.plans.experts import experts_of
from planner.plans.found import Found
from planner.plans.insured import Insured
from planner.plans.meant import Meant, sized
from planner.plans.schema import Alternative, Assumption, LongPrompt, Price
from planner.plans.space import space_of
from planner.plans.strain import SLACK
from planner.plans.verified import verified
from planner.question.asked import Asked, problem_of
from planner.search.find import find
from planner.search.question import Question
from solvers.linear import Limits

LINES = {"alternatives": Alternative, "assumptions": Assumption, "long_prompts": LongPrompt, "prices": Price}
"""Lists of a plan, and the lines that stand in them."""


def finish(fleets: Solved, began: float, until: float = inf, meant: Meant | None = None) -> schema.Plan:
    """The plan of a solved fleet: explained within its `extra` limits each, none begun after `until`
    (`time.perf_counter`), assembled and checked. Ctrl-C while explaining ends that: the plan is there
    already. Raises Unsound."""
    posed, simple, extra = fleets.posed, fleets.simple, fleets.extra
    asked, question = posed.asked, posed.question
    found, lines = simple.chosen, list[Line]()
    planned, safe = Planned(asked, question, found, extra, simple.best.solution.bound), None
    if asked.options.survive is not None:
        safe = insured(asked.options.survive, question, found, extra, explain=time.perf_counter() <= until)
    try:
        for way in WAYS:
            if found.solution.status != "interrupted" and time.perf_counter() <= until:
                with deadline(until), suppress(OutOfTime):
                    lines += way(planned)
    except KeyboardInterrupt:
        simple = replace(simple, best=interrupted(simple.best))
    warnings = [*asked.warnings, *unkept(asked, found), *undrafted(asked)]
    extras: dict[str, Any] = {"warnings": warnings, "insured": safe}
    for name, said in LINES.items():
        extras[name] = [line for line in lines if isinstance(line, said)]
    extras["alternatives"] = told_once(extras["alternatives"])
    extras["experts"] = experts_of(planned.made, extra)
    seconds, space = time.perf_counter() - began, space_of(asked, simple.best)
    made = planned.made
    if meant is not None:
        space = sized(space, asked.workload)
        found, made, sized_for = meant.fleet(found, made)
        extras |= {"replayed": meant.replayed, "sized_for": sized_for}
        asked = replace(asked, workload=meant.workload)
    proven = proof(simple.best, simple.chosen, simple.by_kinds, seconds, extra.seed, space)
    result = assemble(found, problem_of(asked), made, proven, extras)
    result = launched(result)
    verified(result)
    return result


def insured(survive: Survive, question: Question, found: Found, extra: Limits, explain: bool) -> Insured:
    """What is left of a fleet after each loss; where that is to be explained, beside the best that need not
    survive: of no more kinds, so that what is given up for few is no price of surviving."""
    own = Insured.of(found, survive, replace(extra, gap=SLACK))
    if not explain:
        return own
    try:
        free = replace(question, survive=None, most_kinds=found.space.most_kinds)
        without = find(free, found.pool, extra).solution
    except KeyboardInterrupt:
        return own
    return replace(own, without=without)


def unkept(asked: Asked, found: Found) -> list[schema.PlanWarning]:
    """Reuse that no replica makes use of."""
    if not (asked.workload.reuse or asked.workload.idle):
        return []
    if any(found.candidates[c].level for c in found.solution.replicas):
        return []
    why = (
        "weights in host memory leave no engine that keeps it"
        if asked.offload
        else "none has room for it, or none would serve more by it"
    )
    message = f"no replica keeps KV cache between requests: {why}"
    return [schema.PlanWarning(code="reuse_unused", message=message)]


def undrafted(asked: Asked) -> list[schema.PlanWarning]:
    """Drafts that were asked for where no replica can have any."""
    if not (asked.options.speculation and asked.offload):
        return []
    message = "no replica drafts: drafts are not planned for weights in host memory"
    return [schema.PlanWarning(code="drafts_unused", message=message)]

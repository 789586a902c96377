"""A fleet that was solved becomes a Plan: explained, assembled, launched, and checked."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from planner.beside.low_prices import low_prices
from planner.beside.planned import Line, Planned
from planner.beside.rivals import told_once
from planner.beside.unsure_splits import unsure_splits
from planner.beside.ways import BRIEF, WAYS
from planner.candidates.candidate import Candidate
from planner.candidates.deadline import deadline
from planner.errors import OutOfTime
from planner.fleet.solve import Solved
from planner.inputs.options import Survive
from planner.launch import launched
from planner.plans import schema
from planner.plans.assemble import assemble, proof
from planner.plans.experts import experts_of
from planner.plans.found import Found
from planner.plans.insured import Insured
from planner.plans.meant import Meant, sized
from planner.plans.saturated import saturated
from planner.plans.schema import Alternative, Assumption, LongPrompt, Price
from planner.plans.space import space_of
from planner.plans.strain import SLACK
from planner.plans.verified import verified
from planner.question.asked import Asked, problem_of
from planner.search.find import restricted
from planner.search.question import Question
from planner.search.simple import Simple
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits

LINES = {"alternatives": Alternative, "assumptions": Assumption, "long_prompts": LongPrompt, "prices": Price}
"""Lists of a plan, and the lines that stand in them."""


def finish(
    fleets: Solved,
    began: float,
    until: float = inf,
    meant: Meant | None = None,
    brief: bool = False,
) -> schema.Plan:
    """The plan of a solved fleet: explained within its `extra` limits each, none begun after
    `until` (`time.perf_counter`), assembled and checked. Ctrl-C while explaining ends that: the plan is there
    already. Raises Unsound."""
    asked, simple, extra = fleets.posed.asked, fleets.simple, fleets.extra
    planned = Planned(asked, fleets.posed.question, simple.among_all, extra, simple.best.solution.bound)
    simple, safe, lines = explained(planned, simple, until, brief)
    found = simple.chosen
    warnings = [*asked.warnings, *unkept(asked, found), *undrafted(asked), *low_prices(asked, found)]
    extras: dict[str, Any] = {"warnings": warnings, "insured": safe, "brief": brief}
    for name, said in LINES.items():
        extras[name] = [line for line in lines if isinstance(line, said)]
    extras["alternatives"] = told_once(extras["alternatives"])
    extras["warnings"] += [line for line in lines if isinstance(line, schema.PlanWarning)]
    extras["warnings"] += unsure_splits(found, planned.question.objective, extras["alternatives"])
    extras["experts"] = experts_of(planned.made, extra)
    seconds, space = time.perf_counter() - began, space_of(asked, simple.best)
    made = planned.made
    if meant is not None:
        space = sized(space, asked.workload)
        found, made, sized_for = meant.fleet(found, made)
        extras |= {"replayed": meant.replayed, "sized_for": sized_for}
        asked = replace(asked, workload=meant.workload)
    if asked.workload.loop == "open" and asked.workload.rate_rps is None:
        extras["saturated"] = saturated(found, made)
    proven = proof(simple.best, simple.chosen, simple.by_kinds, seconds, extra.seed, space)
    proven = proven.model_copy(update={"unsplit": simple.unsplit, "unpaid": simple.unpaid})
    result = assemble(found, problem_of(asked), made, proven, extras)
    return verified(launched(_with_room(result)))


def _with_room(plan: schema.Plan) -> schema.Plan:
    """The plan without its closed loop where servers started as they are have no room for that many."""
    room = sum(r.count * r.max_batch for r in plan.replicas if r.role != "prefill")
    over = plan.saturated is not None and plan.saturated.in_flight > room
    return plan.model_copy(update={"saturated": None}) if over else plan


def explained(
    planned: Planned, simple: Simple, until: float, brief: bool = False
) -> tuple[Simple, Insured | None, list[Line]]:
    """What is left of the chosen fleet after each loss, and lines of what is beside it, none begun after
    `until` or where the search was broken off. Ctrl-C ends that: then the best fleet says that it did."""
    left, lines = partial(insured, planned.asked.options.survive, planned.found, planned.limits), list[Line]()

    def due() -> bool:
        return planned.found.solution.status != "interrupted" and time.perf_counter() <= until

    safe = None
    try:
        safe = left()
        if safe is not None and due():
            safe = replace(safe, without=uninsured(planned.question, simple, planned.limits))
        for way in BRIEF if brief else WAYS:
            if due():
                with deadline(until), suppress(OutOfTime):
                    lines += way(planned)
    except KeyboardInterrupt:
        simple = replace(simple, best=simple.best.interrupted())
        safe = safe or left()  # no plan is without
    return simple, safe, lines


def insured(survive: Survive | None, found: Found, limits: Limits) -> Insured | None:
    """What is left of a fleet after each loss; None where it need not survive any. Raises
    KeyboardInterrupt."""
    return None if survive is None else Insured.of(found, survive, replace(limits, gap=SLACK))


def uninsured(question: Question, simple: Simple, limits: Limits) -> FleetSolution | None:
    """The best fleet that need not survive, for the same choice as the plan: of no more kinds, and without
    copies of experts or limits of power where the plan does without, so that what is given up for a simple
    fleet is no price of surviving. Among all candidates: fleets that need not survive may have those, too,
    that none near the best of the others has. Raises KeyboardInterrupt."""
    best, chosen = simple.best, simple.chosen
    copies = any(c.design.redundant for c in chosen.pool.candidates)
    limited = any(c.key.power for c in chosen.pool.candidates)
    every = replace(best, solution=replace(best.solution, least={}))  # which is of fleets that survive
    free = replace(question, survive=None, most_kinds=chosen.space.most_kinds)

    def keep(c: Candidate) -> bool:
        together = simple.unsplit is None or c.role == "mixed"
        return together and (copies or not c.design.redundant) and (limited or not c.key.power)

    with suppress(OutOfTime):
        found = restricted(free, every, keep, limits)
        return found.solution.unbroken() if found is not None else None
    return None


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

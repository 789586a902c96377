"""Among fleets of one price the surer one: the question once more, at smaller risks.

A search for the least cost stops at a fleet that keeps its limits with the chance asked for, 80 %, though
another of the same price may keep them nearly always, if with GPUs of its nodes that would be idle. Where
dollars or GPUs are minimised such fleets are many, as both come in whole nodes and replicas. The fleet taken
has no worse objective and no more kinds of replica; of two that are equally sure the quicker one is taken, of
two that are as quick the one of fewer kinds, then of fewer watts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from planner.candidates.candidate import Candidate
from planner.plans.found import Found, groups
from planner.plans.predicted import chances
from planner.plans.strain import latency_s, watts
from planner.question.asked import Asked
from planner.question.posed import ask_of
from planner.replicas.again import anew
from planner.replicas.alike import ROLES
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.limits import left
from planner.search.question import Question
from planner.search.shortlists import foremost, nearby, unserved
from planner.search.simple import SAME, Simple, by_chance, kinds
from solvers.linear import Limits

RISKS = (0.4, 0.3, 0.2, 0.1, 0.05)
"""Risks at which a surer fleet is looked for, by halves."""

SURE = 0.95
"""Chance beyond which a fleet is sure enough: nothing is looked for."""

SURER = 0.01
"""Chances nearer to each other than this are as good: bands are not known better."""

QUICKER = 0.01
"""Share by which latencies may differ that are as good, for the same reason."""


def surest(asked: Asked, question: Question, simple: Simple, limits: Limits) -> Simple:
    """`simple` with the surest fleet that costs no more than the chosen one. Raises OutOfTime."""
    until, chosen = monotonic() + limits.seconds, simple.chosen
    if question.objective.spends not in ("usd_per_hour", "gpus"):
        return simple
    own = sureness(chosen)
    if own >= SURE:
        return simple
    if asked.offload or any(c.design.stages for c in _run(chosen)):
        return simple  # whose candidates cannot be made anew for another risk
    risks = [risk for risk in RISKS if risk < min(1 - own, asked.options.risk) - SURER]
    low, high = 0, len(risks)
    while low < high and monotonic() < until:
        middle = (low + high) // 2
        found = _at(asked, question, chosen, risks[middle], left(limits, until))
        low, high = (low, middle) if found is None else (middle + 1, high)
        if found is not None and is_better(found, chosen):
            chosen = found
    if chosen is simple.chosen:
        return simple
    chosen = by_chance(simple.best, chosen, limits)
    return replace(simple, chosen=chosen, best=chosen if simple.chosen is simple.best else simple.best)


def sureness(found: Found) -> float:
    """The chance of the limit that the fleet is least sure to keep; 1 without limits."""
    return min((x for x in chances(found, groups(found)) if x is not None), default=1.0)


def is_better(one: Found, other: Found) -> bool:
    """Whether a fleet of the same price is to be taken: the surer, then the quicker, then the one of fewer
    kinds, then of fewer watts."""
    surer = sureness(one) - sureness(other)
    if abs(surer) > SURER:
        return surer > 0
    made, others = groups(one), groups(other)
    mine, theirs = latency_s(one, made), latency_s(other, others)
    if abs(mine - theirs) > QUICKER * theirs:
        return mine < theirs
    if kinds(one) != kinds(other):
        return kinds(one) < kinds(other)
    return watts(one, made) < (1 - SAME) * watts(other, others)


def _at(asked: Asked, question: Question, chosen: Found, risk: float, limits: Limits) -> Found | None:
    """A fleet as cheap as `chosen` that keeps the limits at this risk, in the pool of the question; None
    where none was found."""
    pool, question = _tighter(asked, question, chosen, risk), _as_cheap(question, chosen)
    if not pool.candidates or unserved(question.state(pool, "bound")):
        return None
    found = find(question, pool, limits)
    found.solution.unbroken()
    if found.solution.objective is None:
        return None
    # its columns stand beside those of the question, whose setups have the risk that was asked for
    run = tuple(c for c in found.pool.candidates if c.id in found.solution.replicas)
    if not {c.key for c in run} <= chosen.pool.made.keys():
        return None
    return replace(found, pool=replace(chosen.pool, candidates=(*chosen.pool.candidates, *run)))


def _tighter(asked: Asked, question: Question, chosen: Found, risk: float) -> Pool:
    """Candidates of the best designs at another risk, but of queues, none of them with what `chosen` does
    without; their ids say so, as the question has columns of the same sizes."""
    options, keep = asked.options.model_copy(update={"risk": risk}), _like(chosen)
    near = nearby(question, chosen.pool, chosen.solution.least, worst_of(question, chosen))
    may = [c for c in foremost(near, chosen.solution.least, question.sign).candidates if keep(c)]
    keys = {replace(c.key, level=0, draft="", power=0.0) for c in may}
    among = replace(near, candidates=tuple(may), made={k: m for k, m in near.made.items() if k in keys})
    ask = replace(ask_of(replace(asked, options=options)), queue_z=ask_of(asked).risk_z)
    levels = {c.level for c in may} - {0}
    roles = [role for role in ROLES if any(c.role == role for c in may)]
    pool = anew(among, chosen.cluster.classes, ask, roles, levels, {c.design for c in may})
    sure = f" risk {risk:g}"
    return replace(pool, candidates=tuple(replace(c, id=c.id + sure) for c in pool.candidates if keep(c)))


def _like(chosen: Found) -> Callable[[Candidate], bool]:
    """Whether a candidate has nothing that the replicas of a fleet do without: a split, copies of experts,
    limits of power, drafts."""
    run = _run(chosen)
    roles, drafts = {c.role for c in run}, {c.draft for c in run}
    copies, limited = any(c.design.redundant for c in run), any(c.key.power for c in run)

    def keep(c: Candidate) -> bool:
        return (
            c.role in roles
            and c.draft in drafts
            and (copies or not c.design.redundant)
            and (limited or not c.key.power)
        )

    return keep


def _as_cheap(question: Question, chosen: Found) -> Question:
    """The question of fleets with no worse objective than `chosen` and no more kinds."""
    return replace(question, worst=worst_of(question, chosen), most_kinds=kinds(chosen))


def worst_of(question: Question, chosen: Found) -> float:
    """The worst objective that is as good as that of `chosen`."""
    value = chosen.solution.objective or 0.0
    return value + question.sign * SAME * abs(value)


def _run(found: Found) -> list[Candidate]:
    known = found.candidates
    return [known[c] for c in found.solution.replicas]

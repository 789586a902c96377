"""The best fleet of a question, the one of few kinds that is chosen, and what is left to explain it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from planner.candidates.deadline import deadline
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.fleet.surer import surest
from planner.plans import schema
from planner.plans.found import Found
from planner.plans.verified import Unsound
from planner.question.asked import Asked
from planner.question.posed import unhurried
from planner.replicas.pool import Pool
from planner.replicas.unpaired import not_between
from planner.search.changes import judged
from planner.search.find import find
from planner.search.limits import LEAST_S, left
from planner.search.question import Question
from planner.search.simple import SAME, Simple, by_chance, kinds, simplest
from planner.search.splits import unsplit
from planner.search.together import alone, may, together
from planner.why import shortage
from solvers.linear import Limits

SIMPLE_S = 2.0
"""At least, else half as long as the search took: seconds for fleets of fewer kinds of replica."""

SURER_S = 2.0
"""Seconds at most for fleets of the same price that are surer."""

TRIES = 4
"""Plans that may fail their check, one after the other, before that is an error where the time is over."""

LEFT_OUT = "the bound counts designs whose plans failed their check"
"""Why a gap is left then."""

EXTRA_SHARE = 0.3
"""Share of the time limit for alternatives and prices together."""

LEAST_EXTRA_S = 0.2
"""Where the limit is spent: a plan without any explanation would be a riddle."""

HINTS_S = 1.0
"""At least to look for what would help where there is no plan, beyond the limit if need be."""

EXTRA_NODES = 20
"""Explanations have one in so many of the nodes that limit the search."""

EXTRA_S = 2.0
"""At most: they explain the plan, they don't make it better. Not as long as the search took: on a busy
machine that is longer, and the same question would have another explanation."""

ROUTES_SHARE = 0.7
"""Part of the time of a search for fleets whose routes keep the limits one by one: the rest is for others."""

T = TypeVar("T")


@dataclass(frozen=True)
class Posed:
    """What was asked, as `pose` has it; its candidates, and the question of the fleet; whether a better plan
    was refused."""

    asked: Asked
    pool: Pool
    question: Question
    refused: bool = False


@dataclass(frozen=True)
class Solved:
    """The fleets found for a question, and limits for each of the searches that explain the chosen one."""

    posed: Posed
    simple: Simple
    extra: Limits


def sound(
    posed: Posed, limits: Limits, began: float, made_of: Callable[[Solved], T], hints: bool = True
) -> T:
    """What `made_of` makes of the best fleet whose plan passes its check, by the bound of all of them. Raises
    Infeasible, with `hints` on what would help, OutOfTime, and Unsound where none does of `TRIES` plans, or
    of those that there is time for.

    The first to fail costs its own columns; where another one fails, too, all columns of its kinds of
    replica go with it, as the fault is likely that of a kind.
    """
    bound, unsound, tries = None, None, 0
    while tries < TRIES or time.perf_counter() < began + limits.seconds:
        try:
            fleets = solved(posed, limits, began, bound, hints)
            return made_of(fleets)
        except Unsound as error:
            bound = fleets.simple.best.solution.bound
            posed = without(posed, fleets.simple, error, whole=unsound is not None)
            unsound, tries = error, tries + 1
        except (Infeasible, OutOfTime):
            if unsound is None:
                raise
            break
    assert unsound is not None
    raise unsound


def without(posed: Posed, simple: Simple, error: Unsound, whole: bool = False) -> Posed:
    """The question without the columns of a plan that fails its check, or the `whole` kinds of its
    replicas, and a word on the first such plan."""
    used = {*simple.chosen.solution.replicas, *simple.best.solution.replicas}
    faulty = {c.kind for c in posed.pool.candidates if whole and c.id in used}
    rest = tuple(c for c in posed.pool.candidates if c.id not in used and c.kind not in faulty)
    warnings = posed.asked.warnings
    if all(w.code != "unsound" for w in warnings):
        said = f"a better plan is not shown, as {error.message} (at {error.where}); please report this"
        warnings = [*warnings, schema.PlanWarning(code="unsound", message=said)]
    asked = replace(posed.asked, warnings=warnings)
    return replace(posed, asked=asked, pool=replace(posed.pool, candidates=rest), refused=True)


def ruled_out(error: MeshwrightError, posed: Posed) -> MeshwrightError:
    """Why there is no fleet, with the engines' rules that left out prefill on one class and decode on
    another."""
    reason = not_between(posed.pool, posed.asked.card)
    if not reason:
        return error
    text = f"{error.message}; prefill and decode of one request stay in one class of nodes: {reason}"
    return type(error)(text, where=error.where, hint=error.hint)


def solved(
    posed: Posed, limits: Limits, began: float, bound: float | None = None, hints: bool = True
) -> Solved:
    """The best fleet of the pool, the one of few kinds that is chosen, and limits for what explains it.
    `bound`: of a pool with more in it, where there was one. Raises Infeasible, with `hints` on what would
    help, and OutOfTime."""
    solving = time.perf_counter()
    until = time.monotonic() + (1 - EXTRA_SHARE) * max(began + limits.seconds - solving, LEAST_S)
    with deadline(began + limits.seconds):
        share = ROUTES_SHARE if may(posed.question, posed.pool) else 1.0
        found = over_routes(
            posed, find(posed.question, posed.pool, left(limits, until, share)), limits, until
        )
    if bound is not None:
        found = replace(
            found, solution=judged(replace(found.solution, bound=bound), limits), unclosed=LEFT_OUT
        )
    if found.solution.objective is None:
        if not hints and found.solution.status == "infeasible":
            raise Infeasible("no fleet serves that much")
        until = time.monotonic() + began + limits.seconds - time.perf_counter()
        spare = replace(limits, seconds=max(left(limits, until).seconds, HINTS_S))
        raise ruled_out(shortage.explain(posed.question, posed.pool, found, spare), posed)
    simple = Simple(found, found, ((kinds(found), found.solution.objective),))
    try:
        spent_s = max((time.perf_counter() - solving) / 2, SIMPLE_S)
        spent = replace(limits, seconds=min(left(limits, until).seconds, spent_s))
        with deadline(began + limits.seconds):
            simple = few_kinds(posed, found, spent)
            spare = replace(limits, seconds=min(left(limits, until).seconds, SURER_S))
            simple = surest(posed.asked, posed.question, simple, spare)
    except OutOfTime:
        pass  # the fleet that there is may have fewer kinds: nobody knows
    except KeyboardInterrupt:
        simple = replace(simple, chosen=found.interrupted(), best=found.interrupted())
    spare_s = max(began + limits.seconds - time.perf_counter(), LEAST_EXTRA_S)
    nodes = None if limits.work is None else max(limits.work // EXTRA_NODES, 1)
    extra = replace(limits, seconds=min(spare_s, EXTRA_S) / 2, work=nodes)
    return Solved(posed, simple, extra)


def over_routes(posed: Posed, found: Found, limits: Limits, until: float) -> Found:
    """`found`, or a better fleet that keeps the limits in the mean over its routes, under a bound on all such
    fleets where there is time for one; else the bound is of fleets every route of which keeps them."""
    if found.solution.status == "interrupted" or not may(posed.question, posed.pool):
        return found
    if posed.refused or alone(posed.question, posed.pool):
        return replace(found, apart=False)  # where a plan was refused the bound is the first search's
    try:
        return together(posed.question, found, lambda: unhurried(posed.asked), left(limits, until))
    except OutOfTime:
        if found.solution.objective is not None:
            return found
        return replace(found, solution=replace(found.solution, status="time_limit"))  # others may do it
    except KeyboardInterrupt:
        if found.solution.objective is None:
            raise
        return found.interrupted()


def few_kinds(posed: Posed, found: Found, limits: Limits) -> Simple:
    """The fleet of few kinds that is chosen: without a split of prefill and decode where that of the best one
    is not sure to pay, unless the best itself was asked for. Raises OutOfTime."""
    question, share = posed.question, posed.asked.options.simple
    together = unsplit(question, found, limits) if share > 0 else None
    if together is None:
        return simplest(question, found, share, limits)
    simple = simplest(question, together, share, limits)
    value, theirs = found.solution.objective, simple.best.solution.objective
    if question.objective.loss(value or 0.0, theirs or 0.0) <= SAME:
        return replace(simple, best=by_chance(found, simple.best, limits))
    return replace(simple, best=found, unsplit=theirs)

"""A bound's fleet with as much of its traffic as keeps every limit, as the one model judges it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from planner.plans.carried import as_carried
from planner.plans.found import Found, Group, groups
from planner.plans.losses import least_left
from planner.plans.strain import SLACK, exact_value, scaled, strain
from planner.search.changes import tidied
from planner.search.question import Question
from solvers import fleet
from solvers.fleet.extract import nodes_in_use
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits

TIDY_S = 0.5
"""Seconds for a tidier fleet: these, or as long as the first solve took."""

JUST = 0.02
"""How near to all that it carries a fleet's traffic is taken, as a share of the gap asked for."""


def realised(question: Question, found: Found, limits: Limits, took_s: float) -> Found | None:
    """The bound's fleet as the one model judges it, with as much of its traffic as keeps every limit; None
    where it does not carry a rate that was asked for."""
    s = settled(question, found.problem, found.solution, limits, took_s)
    if s.objective is None or s.rate <= 0:
        return None
    return carrying(question, replace(found, solution=s), limits)


def settled(
    question: Question, problem: FleetProblem, s: FleetSolution, limits: Limits, took_s: float
) -> FleetSolution:
    """A tidier fleet that is as good, looked for as long as the solve took, its traffic spread where it may
    be. Where Ctrl-C ends that, between two solves, what was found stays."""
    try:
        s = tidied(problem, s, replace(limits, seconds=max(TIDY_S, took_s)))
        return fleet.balance(problem, s, limits) if question.spread and s.objective is not None else s
    except KeyboardInterrupt:
        return replace(s, status="interrupted")


def carrying(
    question: Question, found: Found, limits: Limits, made: Sequence[Group] | None = None
) -> Found | None:
    """`found` with the most of its traffic that keeps every limit, and of which the rest serves its share
    where nodes may be lost: where throughput is asked for more or less than it has (of a rate that must be
    served no less), else just that or nothing. Its objective is what the one model says, less at most a
    fiftieth of the gap asked for. `made`: its groups, where known."""
    made, s = made or groups(found), found.solution
    if not made:
        return None
    run = {g.candidate.id: g.count for g in made}
    if len(run) < len(s.replicas):  # one that serves nothing is not run, and costs nothing
        s = replace(s, replicas=run, nodes=nodes_in_use(found.problem, run, s.nodes))
        s = replace(s, objective=found.problem.objective.value(found.problem, s))
        found = replace(found, solution=s)
    if not question.objective.more:
        if not _kept(strain(found, made)) or not _kept(short_of(question, found, limits)):
            return None
        return replace(found, solution=replace(s, objective=exact_value(found, made)))
    carried = as_carried(found, made, nearness(limits))
    if carried is not None and (short := short_of(question, carried, limits)) > 1:
        carried = scaled(carried, 1 / short) if short < inf else None
    least = (found.problem.demand or 0.0) * (1 - SLACK)
    return None if carried is None or carried.solution.rate < least else carried


def short_of(question: Question, found: Found, limits: Limits) -> float:
    """What the rest is to serve after the worst loss, over what it can; 0 where no node may be lost."""
    if question.survive is None:
        return 0.0
    least = least_left(found, question.survive, replace(limits, gap=nearness(limits)))
    return question.survive.share * found.solution.rate / least if least > 0 else inf


def nearness(limits: Limits) -> float:
    """How near to all that it carries a fleet's traffic is taken."""
    return max(SLACK, JUST * limits.gap)


def _kept(worst: float) -> bool:
    return worst <= 1 + SLACK

"""A fleet of several models as the one model of a server judges it, and the sound program's fleet."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.plans.carried import most
from planner.plans.strain import SLACK, Late, broken, strain
from planner.search.changes import eased, tidied
from planner.search.limits import closer, left
from planner.search.traffic import TIDY_S, nearness
from planner.several.joint import Fleets, Joint, apart
from solvers import fleet
from solvers.fleet.extract import nodes_in_use
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.fleet.union import named, part_of, parts_of, with_flows
from solvers.linear import Limits

CUTS = 16
"""Rounds of verify and ease."""


def realised(
    joint: Joint, problem: FleetProblem, s: FleetSolution, limits: Limits, took_s: float
) -> Fleets | None:
    """A solved fleet with as much of its traffic as keeps every limit of every model; None where it does not
    carry what is asked for."""
    return carrying(apart(joint, problem, settled(joint, problem, s, limits, took_s)), limits)


def settled(
    joint: Joint, problem: FleetProblem, s: FleetSolution, limits: Limits, took_s: float
) -> FleetSolution:
    """A tidier fleet that is as good, the traffic of each model spread over its own replicas where no link is
    shared, else of all at once."""
    s = tidied(problem, s, replace(limits, seconds=max(TIDY_S, took_s)))
    if joint.demand is None or s.objective is None:
        return s
    sent = any(problem.columns[c].sent for c in s.replicas) or any(
        problem.pairs[pair].links for pair in s.pair_flows
    )
    if sent:
        return fleet.balance(problem, s, limits)
    parts = parts_of(s, joint.weights)
    return with_flows(
        s,
        [
            fleet.balance(part_of(problem, s, m, w), part, limits)
            for m, (w, part) in enumerate(zip(joint.weights, parts, strict=True))
        ],
    )


def carrying(fleets: Fleets, limits: Limits) -> Fleets | None:
    """The fleets with the same factor of all traffic that keeps every limit, where as much as possible is
    asked for; else just so or nothing. A replica that serves nothing is not run."""
    if not all(fleets.made):
        return None
    joint, s = fleets.joint, _without_idle(fleets)
    worst = strained(fleets)
    if not joint.objective.more:
        return replace(fleets, solution=s) if worst <= 1 + SLACK else None
    factor = most(lambda share: strained(fleets, share), worst, nearness(limits))
    if factor <= 0:
        return None
    again = replace(
        s,
        rate=factor * s.rate,
        objective=factor * s.rate,
        flows={key: factor * x for key, x in s.flows.items()},
        pair_flows={key: factor * x for key, x in s.pair_flows.items()},
    )
    return apart(joint, fleets.problem, again)


def strained(fleets: Fleets, factor: float = 1.0) -> float:
    """The largest share of a limit that any model takes with `factor` of all traffic."""
    return max(strain(f, g, factor) for f, g in zip(fleets.found, fleets.made, strict=True))


def _without_idle(fleets: Fleets) -> FleetSolution:
    """The union's solution without replicas that serve nothing."""
    s, problem = fleets.solution, fleets.problem
    run = {named(m, g.candidate.id): g.count for m, made in enumerate(fleets.made) for g in made}
    return s if len(run) == len(s.replicas) else only(problem, s, run)


def only(problem: FleetProblem, s: FleetSolution, run: Mapping[str, int]) -> FleetSolution:
    """The solution with the replicas `run` alone, the nodes that these need, and its objective then."""
    s = replace(s, replicas=run, nodes=nodes_in_use(problem, run, s.nodes))
    return replace(s, objective=problem.objective.value(problem, s))


def sound_fleets(joint: Joint, problem: FleetProblem, limits: Limits, quick_s: float) -> Fleets | None:
    """The best fleet of the plan's own program: solve, verify at the real mix, load less what broke a
    promise, solve again."""
    until = time.monotonic() + limits.seconds
    for round_ in range(CUTS):
        s = fleet.solve(problem, closer(left(limits, until)))
        if s.objective is None or s.rate <= 0:
            return None
        fleets = apart(joint, problem, settled(joint, problem, s, left(limits, until), quick_s))
        late = lateness(fleets)
        if not late:
            return carrying(fleets, limits)
        problem = eased(problem, late, round_)
    return None


def lateness(fleets: Fleets) -> Sequence[Late]:
    """What answers late in any model, under the union's names; the worst first."""
    late = [
        Late(named(m, bad.candidate), named(m, bad.bucket), bad.share)
        for m, (found, made) in enumerate(zip(fleets.found, fleets.made, strict=True))
        for bad in broken(found, made)
    ]
    return sorted(late, key=lambda bad: bad.share)

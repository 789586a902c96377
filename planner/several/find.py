"""The best fleet of several models on one cluster, and its bound: the search of one model (`search/find.py`)
over the union of all fleet problems.

The optimum of the union of the bounds' problems is the bound of all together. Its fleet is judged model by
model; where that falls short, the union of the sound problems is solved, too, and columns of pairs are split
where the two differ. Both fleets are judged by the one model of a server.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from planner.candidates.deadline import left_s
from planner.errors import OutOfTime
from planner.plans.carried import most
from planner.plans.strain import SLACK, Late, broken, strain
from planner.search.changes import eased, judged, tidied
from planner.search.find import ROUNDS, ROUNDS_OVER, WHOLE, edges_between
from planner.search.limits import closer, left
from planner.search.shortlists import ROUNDED
from planner.search.traffic import TIDY_S, nearness
from planner.several.joint import Fleets, Joint, apart
from solvers import fleet
from solvers.fleet.extract import nodes_in_use
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.fleet.union import named, part_of, parts_of, with_flows
from solvers.linear import Limits, gap

T = TypeVar("T")

FIRST = 0.5
"""Share of the time left that the bound's problem gets, each time it is tried."""

LEAST_S = 1.0
"""Seconds left with which the bound's problem is tried again, among columns of fleets that are better."""

NEARLY = 5e-3
"""Share of the bound's fleet that the one model takes away, below which the sound program brings little."""


def find(joint: Joint, limits: Limits) -> tuple[Fleets | None, FleetSolution]:
    """The best fleets, or None where there are none; and the last solution of the bound's program, which
    tells why there are none. Ctrl-C ends the search: what was found stays, and says so. Raises
    KeyboardInterrupt where nothing was."""
    until, sign = time.monotonic() + limits.seconds, joint.objective.sign
    best, bound, near, eased = None, None, joint, 0.0
    least, stopped, unclosed = dict[str, float](), False, ""
    try:
        for _ in range(ROUNDS):
            began, unclosed = time.monotonic(), ""  # where the loop ends here, time is why
            near = joint if best is None else joint.near(least, best.solution.objective)
            bounding = near.state("bound")
            s = fleet.solve(bounding, closer(left(limits, until, FIRST), eased))
            stopped = s.status == "interrupted"
            took_s, least = time.monotonic() - began, {**least, **s.least}
            if s.bound is not None:
                bound = s.bound if bound is None else sign * max(sign * bound, sign * s.bound)
            if s.objective is None and s.status != "time_limit":
                break
            mine = None
            if s.objective is not None:
                mine = realised(near, bounding, s, left(limits, until), took_s)
                best = _better(sign, best, mine)
            stopped = stopped or _stopped(mine)
            if _enough(best, bound, limits, sign) or stopped:
                break
            spare = until - time.monotonic() > LEAST_S and left_s() > 0
            if mine is not None and spare and s.status == "time_limit" and _whole(mine, s):
                eased = _taken(mine, s)
                continue  # no mend of the model's would help: what is missing is time for this program
            fewer = near if best is None else near.near(least, best.solution.objective)
            sound = partial(sound_fleets, fewer, fewer.state("plan"), left(limits, until), took_s)
            own = _unless_late(best, sound)
            best, stopped = _better(sign, best, own), _stopped(own)
            late = time.monotonic() + 2 * (time.monotonic() - began) > until or not left_s() or stopped
            split = partial(_split, joint, near, bounding, s)
            finer = None if s.objective is None or late else _unless_late(best, split)
            whole = finer is None and s.objective is not None and not late and left_s() > 0
            unclosed = WHOLE if whole and s.status != "time_limit" else ""
            if _enough(best, bound, limits, sign) or late or (finer is None and s.status != "time_limit"):
                break
            joint, unclosed = finer or joint, "" if s.status == "time_limit" else ROUNDS_OVER
    except KeyboardInterrupt:
        if best is None:
            raise
        stopped = True
    if best is None:
        return None, s
    if stopped:
        best = best.interrupted()
    return proven(replace(best, bounding=bounding, unclosed=unclosed), bound, limits), s


def _stopped(fleets: Fleets | None) -> bool:
    """Whether Ctrl-C ended the search for fleets."""
    return fleets is not None and fleets.solution.status == "interrupted"


def _unless_late(best: Fleets | None, made: Callable[[], T]) -> T | None:
    """What `made` makes; None where the time ends before and there is a fleet already. Raises OutOfTime where
    there is none."""
    try:
        return made()
    except OutOfTime:
        if best is None:
            raise
        return None


def _split(joint: Joint, near: Joint, bounding: FleetProblem, s: FleetSolution) -> Joint | None:
    """Columns split where bound and model differ. Raises OutOfTime."""
    return _finer(joint, apart(near, bounding, s))


def proven(best: Fleets, bound: float | None, limits: Limits) -> Fleets:
    """`best` under the bound. One that is better than its bound by more than rounding is left as it is: the
    bound is false, and the check says so."""
    s, sign = best.solution, best.joint.objective.sign
    assert s.objective is not None
    if bound is None:  # no solve ended with one: the relaxation's, or what needs no solver
        space = best.bounding or best.problem
        found = fleet.relaxed(space, limits)
        bound = found if found is not None else (0.0 if sign > 0 else fleet.ceiling(space))
    rounded = 0 < sign * (bound - s.objective) <= ROUNDED * abs(bound)
    return replace(best, solution=judged(replace(s, bound=s.objective if rounded else bound), limits))


def _whole(mine: Fleets, s: FleetSolution) -> bool:
    """Whether the one model leaves a solved fleet all, or nearly all, that its program said."""
    return _taken(mine, s) <= NEARLY


def _taken(mine: Fleets, s: FleetSolution) -> float:
    """Share of what the program of a fleet says that the one model takes away; infinite where that is all."""
    value = mine.solution.objective
    return math.inf if value is None or s.objective is None else gap(value, s.objective)


def _better(sign: float, one: Fleets | None, other: Fleets | None) -> Fleets | None:
    """The one with the better objective; the first of equals."""
    if one is None or other is None or other.solution.objective is None:
        return one or other
    assert one.solution.objective is not None
    return other if sign * (other.solution.objective - one.solution.objective) < 0 else one


def _enough(best: Fleets | None, bound: float | None, limits: Limits, sign: float) -> bool:
    """Whether `best` is proven as well as was asked."""
    value = None if best is None else best.solution.objective
    if value is None or bound is None:
        return False
    return sign * (value - bound) <= 0 or gap(value, bound) <= max(limits.gap, SLACK)


def _finer(joint: Joint, bounds: Fleets) -> Joint | None:
    """The question with columns of pairs at further edges, where the bound's fleet stands; None where no
    model has any, or there is no time."""
    pools, changed = [], False
    for m, found in zip(joint.models, bounds.found, strict=True):
        edges = edges_between(m.question, found)
        try:
            pools.append(m.pool if edges is None else m.question.finer(m.pool, edges))
        except OutOfTime:
            return None
        changed |= edges is not None
    return joint.with_pools(pools) if changed else None


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
    shared, else of all at once. Where Ctrl-C ends that, what was found stays."""
    try:
        s = tidied(problem, s, replace(limits, seconds=max(TIDY_S, took_s)))
        return s if joint.demand is None or s.objective is None else _spread(joint, problem, s, limits)
    except KeyboardInterrupt:
        return replace(s, status="interrupted")


def _spread(joint: Joint, problem: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """The fleet with its traffic spread. Raises KeyboardInterrupt."""
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
    promise, solve again. After Ctrl-C with as much traffic as it keeps its limits with; raises
    KeyboardInterrupt where that is none."""
    until = time.monotonic() + limits.seconds
    for round_ in range(CUTS):
        s = fleet.solve(problem, closer(left(limits, until)))
        if s.objective is None or s.rate <= 0:
            s.unbroken()
            return None
        fleets = apart(joint, problem, settled(joint, problem, s, left(limits, until), quick_s))
        if _stopped(fleets):
            carried = carrying(fleets, limits)
            if carried is None:
                raise KeyboardInterrupt
            return carried
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

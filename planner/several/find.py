"""The best fleet of several models on one cluster, and its bound: the search of one model (`search/find.py`)
over the union of all fleet problems.

The optimum of the union of the bounds' problems is the bound of all together. Its fleet is judged model by
model; where that falls short, the union of the sound problems is solved, too, and columns of pairs are split
where the two differ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from planner.candidates.deadline import left_s
from planner.errors import OutOfTime
from planner.plans.strain import SLACK
from planner.search.changes import judged
from planner.search.find import ROUNDS, edges_between
from planner.search.limits import closer, left
from planner.search.shortlists import ROUNDED
from planner.several.joint import Fleets, Joint, apart
from planner.several.judged import realised, sound_fleets
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution
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
    tells why there are none."""
    until, sign = time.monotonic() + limits.seconds, joint.objective.sign
    best, bound, near, eased = None, None, joint, 0.0
    least = dict[str, float]()
    for _ in range(ROUNDS):
        began = time.monotonic()
        near = joint if best is None else joint.near(least, best.solution.objective)
        bounding = near.state("bound")
        s = fleet.solve(bounding, closer(left(limits, until, FIRST), eased))
        took_s, least = time.monotonic() - began, {**least, **s.least}
        if s.bound is not None:
            bound = s.bound if bound is None else sign * max(sign * bound, sign * s.bound)
        if s.objective is None and s.status != "time_limit":
            break
        mine = None
        if s.objective is not None:
            mine = realised(near, bounding, s, left(limits, until), took_s)
            best = _better(sign, best, mine)
        if _enough(best, bound, limits, sign) or s.status == "interrupted":
            break
        spare = until - time.monotonic() > LEAST_S and left_s() > 0
        if mine is not None and spare and s.status == "time_limit" and _whole(mine, s):
            eased = _taken(mine, s)
            continue  # no mend of the model's would help: what is missing is time for this program
        fewer = near if best is None else near.near(least, best.solution.objective)
        sound = partial(sound_fleets, fewer, fewer.state("plan"), left(limits, until), took_s)
        best = _better(sign, best, _unless_late(best, sound))
        late = time.monotonic() + 2 * (time.monotonic() - began) > until or not left_s()
        split = partial(_split, joint, near, bounding, s)
        finer = None if s.objective is None or late else _unless_late(best, split)
        if _enough(best, bound, limits, sign) or late or (finer is None and s.status != "time_limit"):
            break
        joint = finer or joint
    if best is None:
        return None, s
    return proven(replace(best, bounding=bounding), bound, limits), s


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

"""Fleets of one kind of replica, of a pair of kinds and of other goals, judged by the one model, for
`--objective energy`.

The bound's fleet carries the rate at the least watts by lines under what servers draw. What it draws in truth
may be more than one kind alone does, so the best of these is a fleet that no search may lose to. Lines tell
which are worth a look: those that draw more by their lines than another one in truth are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil, inf

import numpy as np

from planner.candidates.deadline import in_time
from planner.plans.found import Found
from planner.search.intervals import curves_of, may_cut
from planner.search.question import Question
from planner.search.traffic import carrying
from solvers import fleet
from solvers.fleet.costs import highest
from solvers.fleet.goals import COST, GPUS
from solvers.fleet.idle import draw_of
from solvers.fleet.types import FleetProblem, FleetSolution, Pair
from solvers.linear import Limits

MORE = 1
"""Replicas beyond the fewest that carry the rate: yet more draw more at rest than shorter batches save."""

FOREMOST = 4
"""Of each end of a pair, those of the least watts by their lines."""

JUDGED = 24
"""Fleets that the one model judges, those of the least watts by their lines first."""

GOAL_SHARE = 0.1
"""Share of the time left that the search for a fleet of each other goal may take."""


@dataclass(frozen=True)
class Start:
    """Replicas that carry the rate, and the watts that they draw at least."""

    watts: float
    replicas: Mapping[str, int]
    pair: tuple[str, str] | None = field(default=None)


def best_start(question: Question, found: Found, limits: Limits) -> Found | None:
    """The fleet of one kind or of a pair of kinds that draws least and keeps every limit, or one of another
    goal that draws less; None where watts are not what is minimised, or none does. `found`: in the pool and
    the problem of the bound. Raises OutOfTime."""
    rate = question.traffic.rate_rps
    if question.objective.spends != "watts" or rate is None:
        return None
    served = {w: rate * share for w, share in found.problem.share.items()}
    starts = [*_alone(question, found, served)]
    if not may_cut(question):
        starts += _pairs(found, served)
    best: Found | None = None
    for start in sorted(starts, key=lambda one: one.watts)[:JUDGED]:
        if best is not None and start.watts >= _watts(best):
            break
        in_time()
        best = _less(best, carrying(question, _stated(found, start, served), limits))
    if not may_cut(question):
        for other in _of_other_goals(question, found, limits):
            best = _less(best, other)
    return best


def _watts(found: Found) -> float:
    value = found.solution.objective
    return inf if value is None else value


def _less(one: Found | None, other: Found | None) -> Found | None:
    """The one that draws less; the first of equals."""
    if one is None or other is None:
        return one or other
    return other if _watts(other) < _watts(one) else one


def _alone(question: Question, found: Found, served: Mapping[str, float]) -> Iterator[Start]:
    """Replicas of one mixed candidate; where a rate is a load, by its curve."""
    problem = found.problem
    mixed = [c for c in found.pool.candidates if c.role == "mixed" and any(_counts(problem, c.id, served))]
    curves = curves_of(found.pool, mixed) if may_cut(question) else None
    for i, c in enumerate(mixed):
        for count in _counts(problem, c.id, served):
            own = {c.id: count}
            watts = _by_lines(problem, own, served)
            if curves is not None:
                each = sum(served.values()) / count
                watts = max(watts, count * float(np.interp(each, curves[i].rate, curves[i].sure)))
            yield Start(watts + draw_of(problem, own), own)


def _pairs(found: Found, served: Mapping[str, float]) -> Iterator[Start]:
    """Replicas of one candidate that prefill and of one that decode."""
    problem, members = found.problem, found.problem.groups()
    ends = {(p, d) for p, d, _ in problem.pairs if all((p, d, w) in problem.pairs for w in served)}
    best: dict[str, list[tuple[float, str, int]]] = {}
    for group in {name for pair in ends for name in pair}:
        own = [(c, count) for c in members.get(group, []) for count in _counts(problem, c, served)]
        rated = [(_by_lines(problem, {c: count}, served), c, count) for c, count in own]
        best[group] = sorted(rated)[:FOREMOST]
    for p, d in sorted(ends):
        for (first, one, many), (second, other, more) in product(best[p], best[d]):
            replicas = {one: many, other: more}
            yield Start(first + second + draw_of(problem, replicas), replicas, (p, d))


def _by_lines(problem: FleetProblem, replicas: Mapping[str, int], served: Mapping[str, float]) -> float:
    """What replicas of which each candidate serves all draw at least."""
    flows = {(c, w): flow for c in replicas for w, flow in served.items()}
    s = FleetSolution("time_limit", None, None, "", replicas, flows=flows)
    return sum(highest(problem.columns[c], c, s) for c in replicas if problem.columns[c].tangents)


def _stated(found: Found, start: Start, served: Mapping[str, float]) -> Found:
    """The start as a fleet of the problem."""
    flows = {(c, w): flow for c in start.replicas for w, flow in served.items()}
    pairs: dict[Pair, float] = {(*start.pair, w): flow for w, flow in served.items()} if start.pair else {}
    solver, rate = found.solution.solver, sum(served.values())
    alone = FleetSolution(
        "time_limit", start.watts, None, solver, start.replicas, flows=flows, pair_flows=pairs, rate=rate
    )
    return replace(found, solution=alone)


def _of_other_goals(question: Question, found: Found, limits: Limits) -> Iterator[Found | None]:
    """Fleets of the fewest GPUs and, where all have a price, of the fewest dollars, as they draw."""
    priced = all(stock.price is not None for stock in found.problem.stocks.values())
    for goal in (GPUS, COST) if priced else (GPUS,):
        in_time()
        own = replace(limits, seconds=GOAL_SHARE * limits.seconds)
        s = fleet.solve(replace(found.problem, objective=goal), own).unbroken()
        if s.objective is not None and s.rate > 0:
            drawn = replace(s, objective=found.problem.objective.value(found.problem, s), bound=None)
            yield carrying(question, replace(found, solution=drawn), limits)


def _counts(problem: FleetProblem, name: str, served: Mapping[str, float]) -> Iterator[int]:
    """The fewest replicas of a column that have the time for all requests, and `MORE`, as far as they fit;
    none where it does not serve every bucket."""
    column = problem.columns.get(name)
    if column is None or not served.keys() <= column.first.keys():
        return
    fewest = max(ceil(sum(column.first[w] * flow for w, flow in served.items()) - 1e-9), 1)
    yield from range(fewest, min(fewest + MORE, problem.most(column)) + 1)

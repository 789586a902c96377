"""Fleets of one kind of replica, judged by the one model, for `--objective energy`.

The bound's fleet carries the rate at the least watts by lines under what servers draw. What it draws in truth
may be more than one kind alone does, so the best of these is a fleet that no search may lose to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from planner.candidates.deadline import in_time
from planner.plans.found import Found
from planner.plans.operation import operate
from planner.search.question import Question
from planner.search.traffic import carrying
from solvers.fleet.idle import draw_of
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits

MORE = 1
"""Replicas beyond the fewest that carry the rate: yet more draw more at rest than shorter batches save."""

JUDGED = 8
"""Fleets of the least watts, whose limits are looked at one after the other until one keeps them."""


def of_one_kind(question: Question, found: Found, limits: Limits) -> Found | None:
    """The fleet of one mixed candidate of the pool that draws least and keeps every limit; None where watts
    are not what is minimised, or none does. Raises OutOfTime."""
    rate = question.traffic.rate_rps
    if question.objective.spends != "watts" or rate is None:
        return None
    problem, drawn = found.problem, list[tuple[float, int, str]]()
    served = {w: rate * share for w, share in problem.share.items()}
    for c in found.pool.candidates:
        for count in _counts(problem, c.id, served) if c.role == "mixed" else ():
            in_time()
            op = operate(found.pool.setup(c), c, served, count)
            if op.utilisation <= 1:
                drawn.append((count * op.watts + draw_of(problem, {c.id: count}), count, c.id))
    for watts, count, name in sorted(drawn)[:JUDGED]:
        flows = {(name, w): flow for w, flow in served.items()}
        solver = found.solution.solver
        alone = FleetSolution("time_limit", watts, None, solver, {name: count}, flows=flows, rate=rate)
        parts = (found.cluster, found.workload, found.objective, found.pool, problem)
        kept = carrying(question, Found(*parts, alone), limits)
        if kept is not None:
            return kept
    return None


def _counts(problem: FleetProblem, name: str, served: Mapping[str, float]) -> Iterator[int]:
    """The fewest replicas of a column that have the time for all requests, and `MORE`, as far as they fit;
    none where it does not serve every bucket."""
    column = problem.columns.get(name)
    if column is None or not served.keys() <= column.first.keys():
        return
    fewest = max(ceil(sum(column.first[w] * flow for w, flow in served.items()) - 1e-9), 1)
    yield from range(fewest, min(fewest + MORE, problem.most(column)) + 1)

"""The plan's own problem: solved, verified at the real mix, loaded less where it is late, solved again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from planner.plans.found import Found, Group, groups
from planner.plans.strain import SLACK, broken, watts
from planner.replicas.pool import Pool
from planner.search.changes import eased, insured
from planner.search.limits import closer, left
from planner.search.question import Question
from planner.search.traffic import carrying, settled, short_of
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits

CUTS = 16
"""Rounds of verify and ease."""


def sound_fleet(
    question: Question, pool: Pool, problem: FleetProblem, limits: Limits, quick_s: float
) -> Found | None:
    """The best fleet of the plan's own problem: solve, verify at the real mix, load less what broke its
    promise, solve again. After Ctrl-C with as much traffic as it keeps its limits with; raises
    KeyboardInterrupt where that is none."""
    until = time.monotonic() + limits.seconds
    solution = fleet.solve(problem, closer(limits))
    if solution.objective is None and solution.status == "time_limit":
        problem, solution = _plainer(problem, solution, pool, left(limits, until))
    for round_ in range(CUTS):
        solution = settled(question, problem, solution, left(limits, until), quick_s)
        found = Found(question.cluster, question.workload, question.objective, pool, problem, solution)
        stopped = solution.status == "interrupted"
        if solution.objective is None or solution.rate <= 0:
            if stopped:
                raise KeyboardInterrupt
            return None
        made = groups(found)
        heavy = _heavier(found, made)
        if stopped:
            carried = carrying(question, found, limits, made) if heavy is None else None
            if carried is None:
                raise KeyboardInterrupt
            return carried
        late = broken(found, made)
        if not late and heavy is None:
            carried = carrying(question, found, limits, made)
            if carried is not None or question.survive is None:
                return carried
            problem = insured(problem, short_of(question, found, limits))
        else:
            problem = eased(heavy or problem, late, round_)
        solution = fleet.solve(problem, closer(left(limits, until)))
    return None


def _heavier(found: Found, made: Sequence[Group]) -> FleetProblem | None:
    """The problem with what the fleet's replicas draw at their load, where a budget of watts counted them at
    rest and is exceeded."""
    problem, most = found.problem, found.problem.budget.get("watts")
    if most is None or found.objective.spends != "latency" or watts(found, made) <= most * (1 + SLACK):
        return None
    drawn = {g.candidate.id: g.operation.watts for g in made}
    if all(problem.columns[c].watts >= own for c, own in drawn.items()):
        return None
    columns = {c: replace(k, watts=max(k.watts, drawn.get(c, 0.0))) for c, k in problem.columns.items()}
    return replace(problem, columns=columns)


def _plainer(
    problem: FleetProblem, empty: FleetSolution, pool: Pool, limits: Limits
) -> tuple[FleetProblem, FleetSolution]:
    """Out of time without a plan: a fleet of the largest batch of each layout alone, under the bound that was
    reached. Raises KeyboardInterrupt."""
    roomiest: dict[tuple[str, str, str, str], tuple[float, str]] = {}
    for c in pool.candidates:
        if c.id in problem.columns and c.role == "mixed":
            key = c.node_class, c.engine, str(c.design), ",".join(c.ttft_s)
            roomiest[key] = max(roomiest.get(key, (0.0, "")), (c.batch, c.id))
    kept = {i for _, i in roomiest.values()}
    columns = {c: k for c, k in problem.columns.items() if c in kept}
    small = replace(problem, columns=columns, pairs={}, nic={})  # stages of one replica use links, too
    s = fleet.solve(small, replace(limits, gap=max(limits.gap, 0.05))).unbroken()
    if s.objective is None:
        return problem, empty
    bound = empty.bound if empty.bound is not None else fleet.relaxed(problem, limits)
    if bound is None:
        return problem, empty
    return small, replace(s, bound=bound, status="time_limit")

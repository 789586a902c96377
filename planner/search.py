"""From candidates to a solved fleet: state, solve, verify at the real mix, load less what broke its promise, solve again, spread the load.

The bound printed is the first solve's: easing only removes fleets, so it holds for what is left, and says how much honesty cost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster_configs.schema import ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.candidates.generate import Pool
from planner.inputs.options import Budget, Objective
from planner.inputs.workload import Workload
from planner.plans.assemble import Found, Late, broken, groups
from planner.problems import fleet as stated
from solvers import fleet
from solvers.fleet import FleetProblem, FleetSolution
from solvers.fleet_extract import value as fleet_value
from solvers.linear import Limits

CUTS = 16
"""Rounds of verify and ease."""

EASINGS = 8
"""Rounds in which a late column is loaded less before it is cut off from what it answers late."""

TINY = 5e-10
"""How much worse a tidier fleet may be: rounding."""

LEAST_S = 1.0
"""Seconds that every solve gets."""

TIDY_S = 5.0
"""Seconds spent at most on a tidier fleet."""

LIGHTEST = 0.3
"""Share of its traffic below which easing a column is not worth while."""


@dataclass(frozen=True)
class Question:
    """What is solved: cluster, load and goal; the candidates come with each call."""

    cluster: ResolvedCluster
    workload: Workload
    traffic: stated.Traffic
    objective: Objective
    budget: Budget

    def state(self, candidates: Sequence[Candidate]) -> FleetProblem:
        return stated.state(self.cluster, candidates, self.traffic, self.objective, self.budget)


def find(question: Question, pool: Pool, limits: Limits, problem: FleetProblem | None = None) -> Found:
    """The best fleet of the pool's candidates, its traffic spread evenly; `solution.objective` None where there is none."""
    until = time.monotonic() + limits.seconds
    problem = problem or question.state(pool.candidates)
    solution = fleet.solve(problem, limits)
    bound = solution.bound
    for round_ in range(CUTS):
        solution = tidied(problem, solution, left(limits, until))
        if solution.objective is not None and question.traffic.rate_rps is not None:
            solution = fleet.balance(problem, solution, left(limits, until))
        found = Found(question.cluster, question.workload, question.objective, pool, problem, solution)
        if solution.objective is None or solution.rate <= 0:
            return replace(found, solution=replace(solution, objective=None))
        late = broken(found, groups(found))
        if not late:
            break
        problem = eased(problem, late, round_)
        solution = fleet.solve(problem, left(limits, until))
    return replace(found, solution=_bounded(found.solution, bound, limits, question.objective))


def left(limits: Limits, until: float) -> Limits:
    """`limits` with what is left of the time until `until` (on the monotonic clock): never nothing, so that a started answer is finished."""
    return replace(limits, seconds=max(until - time.monotonic(), LEAST_S))


def tidied(problem: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """Of the fleets exactly as good as `s`, one with fewer GPUs and less work on them: a second solve with the first's answer as a row."""
    row = {"cost": "usd_per_hour", "energy": "watts", "gpus": "gpus", "throughput": None}
    if s.objective is None or s.rate <= 0 or problem.objective not in row or s.status == "interrupted":
        return s
    name = row[problem.objective]
    budget = dict(problem.budget) if name is None else {**problem.budget, name: s.objective * (1 + TINY)}
    same = replace(problem, objective="spare", demand=s.rate * (1 - TINY), budget=budget)
    quick = replace(limits, gap=max(limits.gap, 0.005), seconds=min(limits.seconds, TIDY_S))
    best = fleet.solve(same, quick, s.point)
    if best.objective is None:
        return s
    return replace(best, objective=fleet_value(problem, best), bound=s.bound, status=s.status, solver=s.solver)


def _bounded(s: FleetSolution, bound: float | None, limits: Limits, objective: Objective) -> FleetSolution:
    """`s` with the bound of the uncut problem."""
    if s.objective is None or bound is None or s.bound == bound:
        return s
    from solvers.linear import judge

    sign = -1.0 if objective == "throughput" else 1.0
    stopped = "time_limit" if s.status not in ("interrupted",) else s.status
    return replace(s, bound=bound, status=judge(sign * s.objective, sign * bound, limits, stopped))


def eased(problem: FleetProblem, late: Sequence[Late], rounds: int) -> FleetProblem:
    """The problem with each late column charged more for its traffic, or cut off from the bucket where no load is light enough."""
    columns = dict(problem.columns)
    for bad in late:
        if bad.candidate not in columns or bad.bucket not in columns[bad.candidate].buckets:
            continue
        use = columns[bad.candidate].use
        if bad.share > LIGHTEST and rounds < EASINGS:
            use = {j: {w: u / bad.share for w, u in row.items()} for j, row in use.items()}
        else:
            use = {j: {w: u for w, u in row.items() if w != bad.bucket} for j, row in use.items()}
        if next(iter(use.values())):
            columns[bad.candidate] = replace(columns[bad.candidate], use=use)
        else:
            del columns[bad.candidate]
    return replace(problem, columns=columns)


def unserved(problem: FleetProblem) -> list[int]:
    """Buckets that no column and no pair may serve."""
    served = {w for c in problem.columns.values() if c.group is None for w in c.buckets}
    served |= {w for _, _, w in problem.pairs}
    return sorted(int(w) for w in problem.share if w not in served)

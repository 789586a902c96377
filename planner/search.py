"""From candidates to a solved fleet: state, solve, verify at the real mix, cut what broke its promise, solve again, spread the load.

The bound printed is the first solve's: cuts only remove fleets, so it holds for what is left, and says how much honesty cost.
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
from planner.plans.assemble import Found, broken, groups
from planner.problems import fleet as stated
from solvers import fleet
from solvers.fleet import FleetProblem, FleetSolution
from solvers.linear import Limits

CUTS = 8
"""Rounds of verify and cut."""


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
    began = time.monotonic()
    problem = problem or question.state(pool.candidates)
    solution = fleet.solve(problem, limits)
    bound = solution.bound
    for _ in range(CUTS):
        found = Found(question.cluster, question.workload, question.objective, pool, problem, solution)
        if solution.objective is None:
            return found
        if question.traffic.rate_rps is not None and solution.rate > 0:
            solution = fleet.balance(problem, solution, limits)
            found = replace(found, solution=solution)
        late = broken(found, groups(found))
        left = limits.seconds - (time.monotonic() - began)
        if not late or left <= 0:
            break
        problem = without(problem, late)
        solution = fleet.solve(problem, replace(limits, seconds=left))
    return replace(found, solution=_bounded(found.solution, bound, limits, question.objective))


def _bounded(s: FleetSolution, bound: float | None, limits: Limits, objective: Objective) -> FleetSolution:
    """`s` with the bound of the uncut problem."""
    if s.objective is None or bound is None or s.bound == bound:
        return s
    from solvers.linear import judge

    sign = -1.0 if objective == "throughput" else 1.0
    stopped = "time_limit" if s.status not in ("interrupted",) else s.status
    return replace(s, bound=bound, status=judge(sign * s.objective, sign * bound, limits, stopped))


def without(problem: FleetProblem, late: Sequence[tuple[str, str]]) -> FleetProblem:
    """The problem without the (column, bucket) assignments in `late`."""
    columns = dict(problem.columns)
    for c, w in late:
        use = {j: {v: u for v, u in row.items() if v != w} for j, row in columns[c].use.items()}
        if next(iter(use.values())):
            columns[c] = replace(columns[c], use=use)
        else:
            del columns[c]
    return replace(problem, columns=columns)


def unserved(problem: FleetProblem) -> list[int]:
    """Buckets that no column and no pair may serve."""
    served = {w for c in problem.columns.values() if c.group is None for w in c.buckets}
    served |= {w for _, _, w in problem.pairs}
    return sorted(int(w) for w in problem.share if w not in served)

"""What is solved: a question, and the fleet problem that a pool of candidates makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from cluster_configs.schema import ResolvedCluster
from planner.candidates.pairing import Edges
from planner.inputs.options import Budget, Survive
from planner.inputs.workload import Workload
from planner.objectives import Objective
from planner.problems import fleet as stated
from planner.problems.pairs import Side, Traffic
from planner.replicas.pool import Pool
from solvers.fleet import types as fleet_types
from solvers.fleet.types import FleetProblem


@dataclass(frozen=True)
class Question:
    """What is solved: cluster, load and goal; the candidates come with each call. `finer`: their pool with
    columns of pairs at further edges; `most_kinds` of replica, the worst objective that is of use, and what
    the rest serves where nodes are lost."""

    cluster: ResolvedCluster
    workload: Workload
    traffic: Traffic
    objective: Objective
    budget: Budget
    finer: Callable[[Pool, Edges], Pool]
    most_kinds: int | None = None
    worst: float | None = None
    survive: Survive | None = None

    def state(self, pool: Pool, side: Side = "plan", together: stated.Together | None = None) -> FleetProblem:
        """The numbers of the plan's problem, or of the bound's; `together`: limits are of all routes
        together."""
        traffic = self.traffic if together is None else replace(self.traffic, ttft_s=inf)
        own = self.cluster, traffic, self.objective.goal, self.budget
        problem = stated.state(*own, side, pool, together)
        problem = replace(problem, most_kinds=self.most_kinds)
        if self.survive is not None:
            lost = fleet_types.Survive(self.survive.nodes, self.survive.share, sure=side == "plan")
            problem = replace(problem, survive=lost)
        return problem if self.worst is None else at_least(problem, self.worst)

    @property
    def spread(self) -> bool:
        """Whether replicas may be there for more than the rate needs, and share it then."""
        return self.traffic.rate_rps is not None or self.survive is not None

    @property
    def sign(self) -> float:
        """1 where less of the objective is better, else -1."""
        return self.objective.sign


def at_least(problem: FleetProblem, worst: float) -> FleetProblem:
    """`problem` with fleets of a worse objective left out."""
    name = problem.objective.spends
    if name is None:
        return replace(problem, demand=max(worst, problem.demand or 0.0))
    return replace(problem, budget={**problem.budget, name: min(worst, problem.budget.get(name, worst))})

"""Several models as one question: their fleet problems united, and a united fleet taken apart again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.objectives import Objective
from planner.plans.found import Found, Group, all_pairs, busy, groups
from planner.problems.pairs import Side
from planner.question.asked import Asked
from planner.replicas.pool import Pool
from planner.search.question import Question
from planner.search.shortlists import nearby
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.fleet.union import own, part_of, parts_of, union


@dataclass(frozen=True)
class Model:
    """One of the models: what is asked of it, its candidates, the question of its fleet, and its requests as
    a part of all (`weight`, adds up to 1)."""

    asked: Asked
    pool: Pool
    question: Question
    weight: float

    @property
    def name(self) -> str:
        return self.asked.card.name


@dataclass(frozen=True)
class Joint:
    """The question of all models: their parts of all requests are fixed; `demand` requests/s of all together,
    or None where as many as possible are to be served."""

    models: tuple[Model, ...]
    demand: float | None

    @property
    def objective(self) -> Objective:
        return self.models[0].question.objective

    @property
    def weights(self) -> list[float]:
        return [m.weight for m in self.models]

    def state(self, side: Side) -> FleetProblem:
        """The one program of all models, of the plan or of the bound."""
        return union([m.question.state(m.pool, side) for m in self.models], self.weights, self.demand)

    def with_pools(self, pools: Sequence[Pool]) -> Joint:
        """The same question over other candidates."""
        both = zip(self.models, pools, strict=True)
        return replace(self, models=tuple(replace(m, pool=pool) for m, pool in both))

    def near(self, least: Mapping[str, float], worst: float | None) -> Joint:
        """The question over those candidates alone that a fleet no worse than `worst` may have; `least`: the
        best objective of fleets with a column of the union, where that is known."""
        known: list[dict[str, float]] = [{} for _ in self.models]
        for name, value in least.items():
            m, column = own(name)
            known[m][column] = value
        both = zip(self.models, known, strict=True)
        return self.with_pools([nearby(m.question, m.pool, own_, worst) for m, own_ in both])


@dataclass(frozen=True)
class Fleets:
    """A fleet of all models: of each what it has of it and its groups, and the union's solution."""

    joint: Joint
    problem: FleetProblem
    solution: FleetSolution
    found: tuple[Found, ...]
    made: tuple[Sequence[Group], ...] = field(repr=False)
    bounding: FleetProblem | None = None
    unclosed: str = ""  # what else than time left a gap between fleets and bound

    def interrupted(self) -> Fleets:
        """The fleets as they stand: the search was broken off."""
        return replace(self, solution=replace(self.solution, status="interrupted"))


def apart(joint: Joint, problem: FleetProblem, s: FleetSolution) -> Fleets:
    """A fleet of the union as one fleet a model, each on links that carry what the others send, too."""
    parts, found = parts_of(s, joint.weights), list[Found]()
    for i, (m, part) in enumerate(zip(joint.models, parts, strict=True)):
        q, its = m.question, part_of(problem, s, i, m.weight)
        found.append(Found(q.cluster, q.workload, q.objective, m.pool, its, part))
    made = tuple(groups(f) for f in found)
    used = [links_used(f, g) for f, g in zip(found, made, strict=True)]
    beside = [_sum([u for j, u in enumerate(used) if j != i]) for i in range(len(found))]
    shared = (replace(f, others=others) for f, others in zip(found, beside, strict=True))
    return Fleets(joint, problem, s, tuple(shared), made)


def links_used(found: Found, made: Sequence[Group]) -> dict[str, float]:
    """Share of the time that each declared link carries a model's own traffic."""
    own_ = busy(replace(found, others={}), all_pairs(found, made))
    return {name: share for (way, name), share in own_.items() if way == "over"}


def _sum(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for row in rows for name in row}
    return {name: sum(row.get(name, 0.0) for row in rows) for name in sorted(names)}

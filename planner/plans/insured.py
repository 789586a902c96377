"""A fleet that survives the loss of nodes, in the Plan's form: what stands where, what is left after each
loss, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from planner.inputs.options import Survive
from planner.plans import placement, schema
from planner.plans.found import Found, Group
from planner.plans.losses import Rest, alike, placed, rests
from planner.plans.parts import routing
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits


@dataclass(frozen=True)
class Insured:
    """What was asked of a fleet, where it stands, and what is left of it after each loss, which serves
    `least_rps`. `without`: the best fleet that need not survive, of no more kinds, where that was looked
    for."""

    survive: Survive
    on: placement.Placed
    rests: Sequence[Rest]
    least_rps: float
    without: FleetSolution | None = None

    @staticmethod
    def of(found: Found, survive: Survive, limits: Limits) -> Insured:
        """What is left of a solved fleet after each loss."""
        left = list(rests(found, survive, limits))
        return Insured(survive, placed(found, survive), left, survive.share * found.solution.rate)

    @cached_property
    def serving(self) -> list[tuple[Rest, Found, list[Group]]]:
        """Each rest at its share of the rate."""
        each = ((rest, rest.serving(self.least_rps)) for rest in self.rests)
        return [(rest, *own) for rest, own in each if own is not None]

    @property
    def after(self) -> Mapping[str, list[Group]]:
        """What becomes of each candidate's replicas after each loss."""
        each: dict[str, list[Group]] = {}
        for g in (g for _, _, made in self.serving for g in made):
            each.setdefault(g.candidate.id, []).append(g)
        return each

    def told(self, found: Found, made: Sequence[Group], objective: float) -> schema.Survives:
        """In the Plan's form; `objective`: the plan's own, of `made` groups."""
        ids, nodes = {g.candidate.id: g.id for g in made}, {n.id: n.nodes for n in found.cluster.classes}
        best = self.without.objective if self.without else None
        if best is not None and found.objective.sign * (objective - best) < 0:
            best = objective  # no better one was found in time, and this one need not either
        return schema.Survives(
            nodes=self.survive.nodes,
            share=self.survive.share,
            standing=[
                schema.Standing(
                    nodes=[nodes[g][k] for g, k in own.nodes],
                    replicas={ids[c]: k for c, k in own.held.items()},
                )
                for own in alike(self.on)
            ],
            losses=[
                schema.Loss(
                    classes=dict(rest.classes),
                    lost={ids[c]: k for c, k in rest.lost.items()},
                    rps=rest.rps,
                    routing=routing(fleet, [replace(g, id=ids[g.candidate.id]) for g in left]),
                )
                for rest, fleet, left in self.serving
            ],
            without=best,
            bound=self.without.bound if self.without and best is not None else None,
            price=abs(objective - best) / abs(best) if best else None,
        )

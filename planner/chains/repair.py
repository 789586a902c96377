"""A plan of chains after nodes have left: few layers are loaded, most of the flow is kept.

The other nodes keep their layers but for the few that `solvers.placement.replan` moves; shares follow from
the new placement's largest flow, times from the same closed form as before. What was promised of them is
kept, by serving less where need be; a limit that no load keeps is relaxed, and said to be. A volunteer or
spot node may leave at any time: this takes a fraction of a second where a new plan takes seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device
from model_zoo.schema import ModelCard
from planner.chains import plan as chained
from planner.chains.assembly import Assembly
from planner.cost.calibration import shipped
from planner.errors import Infeasible, InputError, nearest
from planner.inputs.options import Options
from planner.inputs.workload import Workload
from planner.objectives import THROUGHPUT
from planner.plans import schema
from planner.problems.chain_units import Posed
from planner.question.asked import Asked
from solvers.linear import Limits
from solvers.placement.predict import Served, together
from solvers.placement.replan import replan
from solvers.placement.routing import shares


@dataclass(frozen=True)
class Left:
    """The plan without the nodes, layers that each other node must load, and what is served of what was."""

    plan: schema.Plan
    loaded: dict[str, int]
    thin: tuple[int, ...]
    kept: float
    seconds: float


def without(plan: schema.Plan, gone: Sequence[str], copies: int = 1) -> Left:
    """`plan` after the nodes `gone` have left, every layer on `copies` nodes where that is possible.

    Raises InputError where it is no plan of chains or has no such node, Infeasible where a layer is lost.
    """
    began = time.perf_counter()
    if not plan.chains:
        raise InputError("not a plan of chains", hint="plan again on the cluster without those nodes")
    asked = _asked(plan)
    posed = chained.pose(asked)
    if posed is None:
        text = f"no chain of these nodes holds {asked.card.name}: the plan is not of this cluster and model"
        raise InputError(text, "problem", "take the plan as `plan -o` wrote it")
    names = _names(asked, posed)
    for node in gone:
        if node not in names:
            near = nearest(node, sorted(set(names)))
            raise InputError(f"no node `{node}` in the plan", "--without", f"did you mean {', '.join(near)}?")
    placed = _intervals(plan, names)
    left = {i for i, name in enumerate(names) if name in gone}
    found = replan(posed.service.network, placed, left, copies)
    if found.after <= 0:
        raise Infeasible(
            f"without {', '.join(gone)} the other nodes do not hold all layers",
            hint="plan again with more nodes, or a checkpoint in a lower precision",
        )
    by_link = shares(posed.service.network, found.intervals)
    limits_s = (limit / 1e3 for limit in chained.limits_ms(asked.workload.slo).values())
    replicas = posed.eased(Served(found.intervals, by_link, 0.0, 0.0, 0.0, 0.0), *limits_s)
    asked = chained.relaxed(asked, f"without {', '.join(gone)} no chains keep the limits", together(replicas))
    serves = together(replicas).tokens_per_s / posed.service.output
    bound = max(plan.proof.bound, serves) * posed.service.output  # no more than with all nodes
    made = Assembly(asked, posed, replicas, frozenset(left)).plan(bound, Limits(), began)
    loaded = {names[i]: layers for i, layers in sorted(found.loaded.items())}
    return Left(made, loaded, found.thin, serves / plan.predicted.rps.value, time.perf_counter() - began)


def _asked(plan: schema.Plan) -> Asked:
    """The question that the plan embeds, its limits with it."""
    p = plan.problem
    devices = {name: Device.model_validate(form) for name, form in p.devices.items()}
    workload, options = Workload.model_validate(p.workload), Options.model_validate(p.options)
    return Asked(
        resolve(Cluster.model_validate(p.cluster), devices=devices),
        ModelCard.model_validate(p.model),
        workload,
        options,
        THROUGHPUT,
        list(p.defaulted),
        [],
        shipped(),
        model_id=p.model_id,
    )


def _names(asked: Asked, posed: Posed) -> list[str]:
    """The node of each unit."""
    nodes = {c.id: c.nodes for c in asked.cluster.classes}
    return [nodes[u.node_class][u.node] for u in posed.units]


def _intervals(plan: schema.Plan, names: Sequence[str]) -> dict[int, tuple[int, int]]:
    """Layers of each unit: groups in order take the units of their nodes."""
    free: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        free.setdefault(name, []).append(i)
    placed: dict[int, tuple[int, int]] = {}
    for replica in plan.replicas:
        stage = replica.stages[0]
        for node in stage.nodes:
            for _ in range(replica.count // len(stage.nodes)):
                placed[free[node].pop(0)] = stage.layers
    return placed

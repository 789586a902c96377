"""What a plan must say for its servers' weights to be known: plans edited by hand may not."""

from __future__ import annotations

from collections.abc import Iterator, Set

from pydantic import ValidationError

from model_zoo.schema import WEIGHT_BYTES, ModelCard, MoeFfn
from planner.errors import InputError
from planner.launch.server import node_sizes
from planner.plans.schema import Plan, Replica


def refuse(plan: Plan) -> None:
    """Raises InputError with the first thing that a plan leaves open."""
    if not plan.problem.model or plan.problem.calibration.get("profile"):
        text = "a plan of measured replicas does not say which weights are where"
        raise InputError(text, "problem.model")
    for text in _open(plan):
        raise InputError(text, "replicas", "see `meshwright check`")


def _open(plan: Plan) -> Iterator[str]:
    try:
        card = ModelCard.model_validate(plan.problem.model)
    except ValidationError as error:
        yield "its model: " + error.errors()[0]["msg"].removeprefix("Value error, ")
        return
    layers = sum(run.times * len(run.of) for run in card.layers)
    classes, known = set(node_sizes(plan)), {r.id for r in plan.replicas}
    for r in plan.replicas:
        if unknown := {r.precision.weights, r.precision.experts} - {*WEIGHT_BYTES}:
            yield f"{r.id}: unknown precision `{min(unknown)}`"
        if len({m.stage for m in r.memory} & {*range(len(r.stages))}) < len(r.stages):
            yield f"{r.id}: the memory of a stage is not told"
        for stage in r.stages:
            if stage.node_class not in classes:
                yield f"{r.id}: the cluster has no nodes `{stage.node_class}`"
            if not 0 <= stage.layers[0] <= stage.layers[1] <= layers:
                yield f"{r.id}: layers {stage.layers[0]} to {stage.layers[1]} of {layers}"
        yield from _experts(plan, r, card)
    yield from _ways(plan, known)


def _ways(plan: Plan, known: Set[str]) -> Iterator[str]:
    """Requests that go to no group, or are of no bucket."""
    ways = [name for route in plan.routing for name in (route.replica, route.prefill, route.decode) if name]
    ways += [hop.replica for chain in plan.chains for hop in chain.hops]
    yield from (
        f"requests go to `{name}`, which is no group of the plan" for name in ways if name not in known
    )
    buckets = len(plan.problem.workload.get("buckets") or [0])
    if any(not 0 <= route.bucket < buckets for route in plan.routing):
        yield "requests of a bucket that the workload has not"


def _experts(plan: Plan, r: Replica, card: ModelCard) -> Iterator[str]:
    """Maps of experts that have other ranks or layers than the group."""
    for m in [] if plan.experts is None else plan.experts.replicas:
        if m.replica == r.id and m.placement == "map" and m.map:
            layers = sum(isinstance(layer.ffn, MoeFfn) for layer in card.stack)
            if len(m.map) != layers or any(len(layer) != r.ep for layer in m.map):
                yield f"{r.id}: its map of experts is not of {layers} layers on {r.ep} ranks"

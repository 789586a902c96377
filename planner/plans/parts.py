"""Parts of a Plan that look alike however the fleet was found: predicted, measured or in chains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cluster_configs.schema import NodeClass
from planner.cost.memory import Memory
from planner.designs.shape import Precisions
from planner.plans import schema
from planner.plans.found import Found, Group, paths


def precision(used: Precisions, experts: bool = True) -> schema.PrecisionUsed:
    """Precisions as used; without `experts` theirs are as the other weights'."""
    return schema.PrecisionUsed(weights=used.gemm, experts=used.experts if experts else used.gemm, kv=used.kv)


def stage_memory(memory: Memory, at: int, stage: int) -> schema.StageMemory:
    """Memory of `stage`, which stands at `at` among the stages (1, stages) of one design."""
    weights, activation, reserve, capacity, kv = (float(part[0, at]) for part in memory.parts)
    return schema.StageMemory(
        stage=stage,
        weights_bytes=weights,
        kv_bytes=kv,
        activation_bytes=activation,
        reserve_bytes=reserve,
        capacity_bytes=capacity,
    )


@dataclass(frozen=True)
class Way:
    """`rate` requests/s of a bucket through replica group `first`, and `second` where another one decodes,
    which gets so many bytes/s of cache."""

    bucket: int
    rate: float
    first: str
    second: str | None = None
    kv_bytes_per_s: float = 0.0


def routes(ways: Sequence[Way]) -> list[schema.Route]:
    """Shares of each bucket along each way; they add to one."""
    total: dict[int, float] = {}
    for way in ways:
        total[way.bucket] = total.get(way.bucket, 0.0) + way.rate
    return [_route(way, way.rate / total[way.bucket]) for way in ways]


def _route(way: Way, share: float) -> schema.Route:
    if way.second is None:
        return schema.Route(bucket=way.bucket, share=share, replica=way.first)
    moved = way.kv_bytes_per_s / 1e9
    return schema.Route(
        bucket=way.bucket, share=share, prefill=way.first, decode=way.second, kv_gb_per_s=moved
    )


def stage(
    node: NodeClass, held: Iterable[int], tp: int, layers: tuple[int, int], gpus: int = 0
) -> schema.Stage:
    """A stage of `gpus` GPUs (tp unless told) on the nodes `held` of a class, by their indices."""
    return schema.Stage(
        device=node.device.name,
        node_class=node.id,
        nodes=[node.nodes[k] for k in held],
        gpus=gpus or tp,
        tp=tp,
        layers=layers,
    )


def idle(
    classes: Sequence[NodeClass], busy: Mapping[str, int], why: Callable[[NodeClass, int], str]
) -> list[schema.PlanWarning]:
    """A warning for each class with GPUs that nothing runs on; `busy` by class, `why` of a class and how many
    are left."""
    devices, found = [node.device.name for node in classes], list[schema.PlanWarning]()
    for node in classes:
        left = node.gpus - busy.get(node.id, 0)
        if left > 0:
            reason, device = why(node, left), node.device.name
            name = f"{device} ({node.id})" if devices.count(device) > 1 else device
            message = f"{left} of {node.gpus} {name} idle: {reason}"
            about = {
                "code": "idle_gpus",
                "message": message,
                "class": node.id,
                "count": left,
                "reason": reason,
            }
            found.append(schema.PlanWarning.model_validate(about))
    return found


def routing(found: Found, made: Sequence[Group]) -> list[schema.Route]:
    """Shares of each bucket along each way; they add to one."""
    ways = [(p, p.second.id if p.second else None) for p in paths(found, made)]
    return routes([Way(p.bucket, p.rate, p.first.id, to, p.kv_bytes_per_s or 0.0) for p, to in ways])

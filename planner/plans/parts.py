"""Parts of a Plan that look alike however the fleet was found: predicted, measured or in chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster_configs.schema import NodeClass
from planner.cost.memory import Memory
from planner.cost.shape import Precisions
from planner.plans import schema


def precision(used: Precisions, experts: bool = True) -> schema.PrecisionUsed:
    """As used; where there are no `experts`, theirs are as the other weights'."""
    return schema.PrecisionUsed(weights=used.gemm, experts=used.experts if experts else used.gemm, kv=used.kv)


def stage_memory(memory: Memory, at: int, stage: int) -> schema.StageMemory:
    """Of `stage`, which stands at `at` among the stages (1, stages) of one design."""
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


def idle_gpus(node: NodeClass, left: int, reason: str, name: str = "") -> schema.PlanWarning:
    """The warning that `left` GPUs of a class, or called `name`, have nothing to do."""
    message = f"{left} of {node.gpus} {name or node.device.name} idle: {reason}"
    about = {"code": "idle_gpus", "message": message, "class": node.id, "count": left, "reason": reason}
    return schema.PlanWarning.model_validate(about)


def usd_per_mtok(usd_per_hour: float, out_tok_per_s: float) -> float:
    """US dollars for a million output tokens."""
    return usd_per_hour / (out_tok_per_s * 3600 / 1e6)

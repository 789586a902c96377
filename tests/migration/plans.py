"""Plans of Llama-3.1-8B on named nodes, changed part by part: tp ranks of 16.06 GB in 16 bits."""

import json
from typing import Any

from planner.plans.schema import Plan
from tests.check.plans import dense

WHOLE = 2.0 * 8_030_261_248
"""Bytes of the model."""
NORMS = 2.0 * 266_240
"""Of it, what every tp rank holds whole."""


def group(name: str, nodes: list[str], count: int = 1, tp: int = 1, **more: Any) -> dict[str, Any]:
    """`count` replicas of `tp` GPUs on these nodes."""
    found: dict[str, Any] = json.loads(dense().model_dump_json(by_alias=True))["replicas"][0]
    stage = found["stages"][0] | {"nodes": nodes, "gpus": tp, "tp": tp}
    held = [found["memory"][0] | {"weights_bytes": WHOLE / tp}]
    sizes = {"tp": tp, "moe_tp": tp, "stages": [stage], "memory": held}
    return found | {"id": name, "count": count} | sizes | more


def plan(*groups: dict[str, Any], nodes: int = 4, cluster: dict[str, Any] | None = None) -> Plan:
    """These groups on `nodes` nodes of eight H100 (450 GB/s NVLink, 50 GB/s NICs), each serving as much."""
    data: dict[str, Any] = json.loads(dense().model_dump_json(by_alias=True))
    data["problem"]["cluster"]["nodes"][0]["count"] = nodes
    data["problem"]["cluster"] |= cluster or {}
    data["problem"]["workload"]["buckets"] = [{"isl": 1024, "osl": 256, "share": 1.0}]
    data["replicas"] = list(groups)
    total = sum(g["count"] for g in groups)
    data["routing"] = [{"bucket": 0, "replica": g["id"], "share": g["count"] / total} for g in groups]
    data["predicted"]["rps"] = {"value": 10.0 * total, "low": 10.0 * total, "high": 10.0 * total}
    return Plan.model_validate(data)

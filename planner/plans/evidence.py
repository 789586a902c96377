"""What of a plan was never measured: how replicas run beyond the runs that calibration was fitted to.

`measured.yaml` names what there were runs of, by engine: devices and formats of weights, pipelines, experts
on ranks of their own, attention-dp, and the links over which servers apart were measured to win against
servers that do both. A user's own calibration is not in it. `python -m benchmarks.evidence` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cluster_configs.schema import NodeClass
from planner.plans import schema
from planner.reading.documents import read_plain

MEASURED = Path(__file__).with_name("measured.yaml")

NEVER = "none among the shipped calibration's runs"
NAMES = {"trtllm": "TensorRT-LLM", "sglang": "SGLang", "vllm": "vLLM"}
LINKS = {"pcie": "PCIe", "nvlink": "NVLink", "xgmi": "XGMI"}

Told = tuple[schema.Mechanism, str]
"""A mechanism, and in words that and on what it was never measured."""


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """What was measured, by engine."""
    engines: Mapping[str, Mapping[str, Any]] = read_plain(MEASURED)["engines"]
    return engines


def evidence(
    replicas: Sequence[schema.Replica], classes: Sequence[NodeClass], moe: bool
) -> list[schema.Evidence]:
    """Mechanisms of these replicas of which there are no runs, each with those that use it."""
    links = {node.id: node.device.intra_link for node in classes}
    users: dict[Told, list[str]] = {}
    for r in replicas:
        for told in unmeasured(r, [links[stage.node_class] for stage in r.stages], moe):
            users.setdefault(told, []).append(r.id)
    return [
        schema.Evidence(mechanism=mechanism, replicas=ids, what=what)
        for (mechanism, what), ids in users.items()
    ]


def unmeasured(r: schema.Replica, links: Sequence[str], moe: bool) -> Iterator[Told]:
    """What of one replica was never measured, `links` those between the GPUs of its stages."""
    known = table().get(r.engine, {})
    engine = NAMES.get(r.engine, r.engine)
    yield from _formats(r, known.get("devices", {}), engine, moe)
    if r.pp > 1 and not known.get("pipeline"):
        yield "pipeline", f"{_doing(r)} in pipelines on {engine}: {NEVER}"
    if r.ep > 1 and not known.get("expert_parallel"):
        yield "expert_parallel", f"experts on ranks of their own on {engine}: {NEVER}"
    if r.attn_dp > 1 and not known.get("attention_dp"):
        yield "attention_dp", f"attention-dp on {engine}: {NEVER}"
    if r.cp > 1:
        yield "context_parallel", f"context parallelism on {engine}: {NEVER}"
    if r.role in ("prefill", "decode"):
        for link in dict.fromkeys(links):
            if link not in known.get("split_wins", ()):
                over = LINKS.get(link, link)
                yield "split", f"prefill/decode over {over} on {engine}: never measured to win"
    if r.draft:
        yield "draft", f"drafts ({r.draft.kind}) on {engine}: {NEVER}"
    if r.power_limit_watts:
        yield "power_limit", f"limited power on {engine}: {NEVER}"


def _formats(r: schema.Replica, devices: Mapping[str, Any], engine: str, moe: bool) -> Iterator[Told]:
    """Devices and formats of weights that the engine has no runs with."""
    for device in dict.fromkeys(stage.device for stage in r.stages):
        if device not in devices:
            yield "device", f"{engine} on {device}: {NEVER}"
            continue
        if r.precision.weights not in devices[device]["weights"]:
            yield "precision", f"{engine} on {device} with {r.precision.weights} weights: {NEVER}"
        if moe and r.precision.experts not in devices[device].get("experts", ()):
            yield "precision", f"{engine} on {device} with {r.precision.experts} experts: {NEVER}"


def _doing(r: schema.Replica) -> str:
    return {"prefill": "prefill", "decode": "decoding"}.get(r.role, "both phases")

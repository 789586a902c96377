"""What of a plan was never measured: how replicas run beyond the runs that calibration was fitted to.

`planner/cost/measured.yaml` names what there were runs of, by engine: devices and formats of weights,
pipelines, experts on ranks of their own, attention-dp, and the ways of caches over which servers apart were
measured to win against servers that do both; and which share of the best product of matrices whole steps
reached (`steps`), which a plan's steps are held against. A user's own calibration is not in it.
`python -m benchmarks.evidence` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, hypot
from typing import Any

from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.cost.bands import APART, WIDE, Z80
from planner.cost.measured import table, widths
from planner.plans import schema
from planner.problems.ways import route

NEVER = "not among the measured runs"
LINKS = {"pcie": "PCIe", "nvlink": "NVLink", "infinity fabric": "Infinity Fabric", "ethernet": "Ethernet"}
RDMA = "+rdma"
"""After the link inside nodes, where caches go from node to node over InfiniBand or RoCE."""

Told = tuple[schema.Mechanism, str]
"""A mechanism, and in words that and on what it was never measured."""


def evidence(
    replicas: Sequence[schema.Replica],
    routing: Sequence[schema.Route],
    cluster: ResolvedCluster,
    moe: bool,
    shares: Mapping[str, tuple[float, float]],
) -> list[schema.Evidence]:
    """Mechanisms of these replicas of which there are no runs, each with those that use it. `shares`: by
    replica what its whole steps compute over the best product, and the upper edge of their band."""
    between = caches_over(replicas, routing, cluster)
    users: dict[Told, list[str]] = {}
    for r in replicas:
        beyond = beyond_runs(r, *shares[r.id]) if r.id in shares else ()
        for told in (*unmeasured(r, between.get(r.id, ()), moe), *beyond):
            users.setdefault(told, []).append(r.id)
    roles = {r.id: r.role for r in replicas}
    return [
        schema.Evidence(mechanism=mechanism, replicas=ids, what=what, band=band_of(mechanism, roles[ids[0]]))
        for (mechanism, what), ids in users.items()
    ]


def band_of(mechanism: str, role: str) -> float:
    """How far off times may be by this alone in four cases of five, as a share: first tokens of servers that
    only prefill, else steps of decoding. 0: not known to be off by it."""
    kind = 0 if role == "prefill" else 1
    learnt, always = widths().get(mechanism, (0.0, 0.0))[kind], 0.0
    if mechanism in ("attention_dp", "context_parallel"):
        always = float(WIDE[kind, 0])
    elif mechanism == "split" and role in APART:
        always = float(APART[role][kind, 0])
    return round(exp(Z80 * hypot(learnt, always)) - 1, 3)


def caches_over(
    replicas: Sequence[schema.Replica], routing: Sequence[schema.Route], cluster: ResolvedCluster
) -> dict[str, list[str]]:
    """What the caches that each replica sends or takes go over, as `table` names it."""
    nodes = {node.id: node for node in cluster.classes}
    homes = {r.id: nodes[r.stages[0].node_class] for r in replicas}
    over: dict[str, list[str]] = {}
    for way in routing:
        if way.prefill and way.decode:
            used = _over(homes[way.prefill], homes[way.decode], cluster)
            for name in (way.prefill, way.decode):
                if used not in over.setdefault(name, []):
                    over[name].append(used)
    return over


def _over(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> str:
    way = route(a, b, cluster)
    inside = "+".join(sorted({a.device.intra_link, b.device.intra_link}))
    if way is not None and not way.on_nic:
        return inside
    if (way is not None and way.link is not None) or "ethernet" in (a.nic, b.nic):
        return "ethernet"
    return inside + RDMA


def unmeasured(r: schema.Replica, between: Sequence[str], moe: bool) -> Iterator[Told]:
    """What of one replica was never measured, `between`: what caches go over that it sends or takes."""
    known = table().get(r.engine, {})
    engine = r.engine_name
    yield from _formats(r, known.get("devices", {}), engine, moe)
    if r.pp > 1 and not known.get("pipeline"):
        yield "pipeline", f"{_doing(r)} in pipelines on {engine}: {NEVER}"
    if r.ep > 1 and not known.get("expert_parallel"):
        yield "expert_parallel", f"experts on ranks of their own on {engine}: {NEVER}"
    if r.attn_dp > 1 and not known.get("attention_dp"):
        yield "attention_dp", f"attention-dp on {engine}: {NEVER}"
    if r.cp > 1:
        yield "context_parallel", f"context parallelism on {engine}: {NEVER}"
    for way in between:
        if way not in known.get("split_wins", ()):
            yield "split", f"prefill/decode over {_named(way)} on {engine}: never measured to win"
    if r.draft:
        yield "draft", f"drafts ({r.draft.kind}) on {engine}: {NEVER}"
    if r.power_limit_watts:
        yield "power_limit", f"limited power on {engine}: {NEVER}"


def beyond_runs(r: schema.Replica, share: float, edge: float) -> Iterator[Told]:
    """That whole steps compute faster than any of a public run on the engine did, by more than their band."""
    reached = table().get(r.engine, {}).get("steps")
    if reached and share > reached * edge:
        said = f"{_doing(r)} at {100 * share:.0f} % of the best product of matrices on {r.engine_name}"
        yield "step_rate", f"{said}: whole steps of public runs reached {100 * reached:.0f} %"


def _named(way: str) -> str:
    """A way of caches in words."""
    inside = way.removesuffix(RDMA)
    words = " and ".join(LINKS.get(link, link) for link in inside.split("+"))
    return f"RDMA between nodes of {words}" if way.endswith(RDMA) else words


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

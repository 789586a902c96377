"""What is rented at once: the fewest nodes of a class that serve the model within the limits; what they
serve, what they cost, and how long they take to start.

What a unit serves is the most requests/s of the workload's mix that a fleet of its nodes keeps the limits at,
as `plan` would have it. Units stand beside each other: that two serve twice as much as one is on the safe
side, as they could share replicas.

A unit that is started boots, reads the weights from its disk and starts its engine:

    cold_s = BOOT_S + weights / read rate + ENGINE_S
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cluster_configs.schema import NameRun, NodeClass, NodeNames
from planner.errors import Infeasible, InputError
from planner.objectives import THROUGHPUT
from planner.plans.found import Found
from planner.plans.operation import index_of
from planner.question.asked import Asked
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits

BOOT_S = 90.0
"""Until a rented machine runs our container: ours, from what clouds state for GPU machines with a ready
image (one to three minutes)."""

ENGINE_S = 60.0
"""Process, kernels and graphs of an engine: what vLLM and SGLang log for models of 7 to 70 billion."""

DISK_BYTES_PER_S = 2e9
"""A node's NVMe where it names none: one drive behind a file system."""

SIZES = (1, 2, 4, 8, 16)
"""Nodes of a unit that are tried."""


@dataclass(frozen=True)
class Unit:
    """`count` units of `nodes` nodes of a class, each serving `rps` requests/s of the mix."""

    name: str
    device: str
    nodes: int
    count: int
    rps: float
    usd_per_hour: float
    spot: bool
    cold_s: float
    layout: str


def units(asked: Asked, limits: Limits, cold_s: float | None = None) -> list[Unit]:
    """Of every class that can serve the workload, at its own `rate_rps`. Raises InputError without prices,
    Infeasible where no class can."""
    unpriced = [n.id for n in asked.cluster.classes if n.price_usd_per_hour is None]
    if unpriced:
        text = f"nodes without a price: {', '.join(unpriced)}"
        raise InputError(
            text, "price_usd_per_hour", "a schedule is for the least money: give each node's price"
        )
    found, why = [], list[Infeasible]()
    for node in asked.cluster.classes:
        try:
            found.append(_unit(asked, node, limits, cold_s))
        except Infeasible as error:
            why.append(error)
    if not found:
        raise why[0]
    return found


def _unit(asked: Asked, node: NodeClass, limits: Limits, cold_s: float | None) -> Unit:
    """The least unit of one class. Raises Infeasible."""
    last: Infeasible | None = None
    for size in SIZES:
        if size > node.node_count:
            break
        few = replace(node, nodes=NodeNames((NameRun(node.id, 0, size),)))
        alone = replace(asked, cluster=replace(asked.cluster, classes=(few,), links=()))
        try:
            _, pool, question = pose(alone)
        except Infeasible as error:
            last = error
            continue
        traffic = replace(question.traffic, rate_rps=None)
        best = find(replace(question, traffic=traffic, objective=THROUGHPUT), pool, limits)
        rps = best.solution.objective
        if rps is None or rps <= 0:
            continue
        seconds = cold_s if cold_s is not None else BOOT_S + _read_s(best, few) + ENGINE_S
        price = size * float(node.price_usd_per_hour or 0.0)
        count = node.node_count // size
        return Unit(
            node.id, node.device.name, size, count, rps, price, node.spot, seconds, "; ".join(_layouts(best))
        )
    raise last or Infeasible(f"no replica on {node.id} keeps the limits", hint="loosen them, or add nodes")


def _read_s(found: Found, node: NodeClass) -> float:
    """Seconds until the fullest node of a unit has read its weights: each replica's, once a node."""
    disk = max((1e9 * t.read_gb_per_s for t in node.tiers if t.kind == "nvme"), default=DISK_BYTES_PER_S)
    weights = 0.0
    for name in found.solution.replicas:
        c = found.candidates[name]
        s = found.pool.setup(c)
        each = float(s.memory.weights_bytes[index_of(s, c)])
        weights = max(weights, each * min(c.gpus, node.gpus_per_node))
    return weights / disk


def _layouts(found: Found) -> Iterator[str]:
    """The unit's replicas in short."""
    for name, count in sorted(found.solution.replicas.items()):
        c = found.candidates[name]
        d = c.design
        sizes = [f"tp{d.tp}"] + [
            f"{k}{v}" for k, v in (("pp", d.pp), ("dp", d.attn_dp), ("ep", d.ep)) if v > 1
        ]
        role = "" if c.role == "mixed" else f" {c.role}"
        yield f"{count} x {' '.join(sizes)} {c.engine}{role}"

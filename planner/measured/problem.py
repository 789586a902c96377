"""Table + cluster -> the fleet problem: which rows count, what a capped node draws, what caches weigh.

To `problems/profile.py` this adds the network: a prefill replica hands a prompt's whole KV cache over its
NICs, those of the receiver and the link between their zones. The table says what replicas compute, not what
passes between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.candidates.candidate import Candidate, Design
from planner.cost.memory import kv_bytes_per_seq
from planner.cost.transfer import inside_bytes_per_s, nic_bytes_per_s, stays_inside
from planner.designs.precision import precisions
from planner.designs.shape import Precisions, like
from planner.errors import InputError
from planner.inputs.profile import ProfileRow
from planner.plans.schema import PlanWarning
from planner.problems.feeds import check_feeds, feed_watts, replica_watts
from planner.problems.profile import from_profile, homes
from planner.problems.ways import link_name, route
from planner.question.asked import Asked
from solvers.fleet.types import FleetProblem, Pair, Transfer


@dataclass(frozen=True)
class Stated:
    """The problem, its columns as candidates, the rows, a prompt's KV bytes by bucket, the precisions."""

    problem: FleetProblem
    candidates: Sequence[Candidate]
    rows: Sequence[ProfileRow]  # that were used, with the devices' own names
    kv_bytes: Mapping[str, float]
    precisions: Precisions
    warnings: Sequence[PlanWarning]

    def watts_named(self, design: str) -> bool:
        """Whether the table names the design's watts."""
        return any(row.watts is not None for row in self.rows if row.design == design)


def state(asked: Asked, rows: Sequence[ProfileRow], path: str) -> Stated:
    """The fleet problem of the rows that the cluster can run. `path` is for messages."""
    nodes = asked.cluster.classes
    usable, warnings = _usable(rows, nodes, path)
    w = asked.workload
    problem, candidates = from_profile(
        usable, nodes, w, asked.objective, w.rate_rps, asked.options.budget, asked.cluster.links
    )
    first = {row.design: row for row in reversed(usable)}
    of = {n.id: n for n in nodes}
    candidates = [_laid_out(_capped(c, of[c.node_class], first[c.label], path), of) for c in candidates]
    watts = {c.id: c.watts for c in candidates}
    feeds = {c.id: replica_watts(c, asked.cluster) for c in candidates}
    check_feeds(asked.cluster)
    columns = {c: replace(own, watts=watts[c], feeds=feeds[c]) for c, own in problem.columns.items()}
    problem = replace(problem, feeds=feed_watts(asked.cluster))
    used = precisions(asked.card, asked.options.precision, asked.options.kv_precision)
    isl = np.array([float(b.isl) for b in w.buckets])
    kv = np.asarray(kv_bytes_per_seq(asked.card, like(1, 1), used, None, isl)[0])
    kv_bytes = {str(i): float(b) for i, b in enumerate(kv)}
    problem = with_transfers(replace(problem, columns=columns), candidates, asked.cluster, kv_bytes)
    return Stated(problem, candidates, usable, kv_bytes, used, warnings)


def _usable(
    rows: Sequence[ProfileRow], nodes: Sequence[NodeClass], path: str
) -> tuple[list[ProfileRow], list[PlanWarning]]:
    """Rows of designs that some class can hold, and which were passed over. InputError where none is left."""
    usable: list[ProfileRow] = []
    over: dict[str, str] = {}
    there: dict[str, list[NodeClass]] = {}
    for row in rows:
        if row.device not in there:
            there[row.device] = homes(row, nodes, f"{path}:{row.line}")
        most = max((n.gpus for n in there[row.device]), default=0)
        if not most:
            over[row.design] = f"the cluster has no {row.device}"
        elif row.gpus > most:
            over[row.design] = f"takes {row.gpus} GPUs, the largest class of {row.device} has {most}"
        else:
            usable.append(replace(row, device=there[row.device][0].device.name))
    if not usable:
        design, reason = next(iter(over.items()))
        more = f" (and {len(over) - 1} more designs likewise)" if len(over) > 1 else ""
        have = ", ".join(f"{n.gpus} {n.device.name}" for n in nodes)
        where = f"{path}:{next(row.line for row in rows if row.design == design)}"
        raise InputError(f"design `{design}`: {reason}{more}", where, f"the cluster has {have}")
    text = "; ".join(f"`{design}`: {reason}" for design, reason in over.items())
    note = PlanWarning(code="profile_rows", message=f"designs of {path} passed over: {text}")
    return usable, [note] if over else []


def _capped(c: Candidate, node: NodeClass, row: ProfileRow, path: str) -> Candidate:
    """A node under a power cap draws no more than that; watts that the table names above it contradict it."""
    if node.power_cap_watts is None:
        return c
    cap = node.power_cap_watts / node.gpus_per_node * c.gpus
    if c.watts <= cap:
        return c
    if row.watts is None:
        return replace(c, watts=cap)
    raise InputError(
        f"design `{row.design}` draws {row.watts:g} W, the power cap of `{node.id}` leaves it {cap:g} W",
        f"{path}:{row.line}, column watts",
        "measure under the cap, or raise power_cap_watts",
    )


def _laid_out(c: Candidate, nodes: Mapping[str, NodeClass]) -> Candidate:
    """The usual reading of a GPU count: tensor parallel as far as fast links reach, then pipeline stages."""
    node = nodes[c.node_class]
    reach = min(node.gpus_per_node, max(node.scale_up_gpus, 1))
    tp = max(size for size in range(1, min(reach, c.gpus) + 1) if c.gpus % size == 0)
    return replace(c, design=Design(tp=tp, pp=c.gpus // tp, moe_tp=tp))


def with_transfers(
    problem: FleetProblem,
    candidates: Sequence[Candidate],
    cluster: ResolvedCluster,
    kv_bytes: Mapping[str, float],
) -> FleetProblem:
    """`problem` with its prefill/decode pairs over real NICs and links.

    A replica whose ports could be its limit is a group of its own, so that the rows hold for each design; the
    others of a class, which compute too slowly to fill theirs, share a group.
    """
    nodes = {n.id: n for n in cluster.classes}
    slow = {c.id for c in candidates if c.role != "mixed" and _fills_ports(c, nodes[c.node_class], kv_bytes)}
    group = {
        c.id: f"{c.role} {c.id if c.id in slow else c.node_class}" for c in candidates if c.role != "mixed"
    }
    pairs: dict[Pair, Transfer] = {}
    links: dict[str, float] = {}
    for p, d in product(candidates, candidates):
        if (p.role, d.role) != ("prefill", "decode"):
            continue
        ends = nodes[p.node_class], nodes[d.node_class]
        way = route(*ends, cluster)
        if way is None:
            continue
        names = (link_name(way.link, *ends),) if way.link else ()
        links |= {name: way.link.bytes_per_s for name in names if way.link}
        limited = bool({p.id, d.id} & slow)
        on_nic, inside = limited and way.on_nic, limited and not way.on_nic
        for w in p.use["busy"].keys() & d.use["busy"].keys():
            pairs[group[p.id], group[d.id], w] = Transfer(kv_bytes[w], 0.0, names, on_nic, inside)
    homes = {group[c.id]: nodes[c.node_class] for c in candidates if c.id in group}
    nic, own = ({g: port(node) for g, node in homes.items()} for port in PORTS)
    columns = {c: replace(column, group=group.get(c)) for c, column in problem.columns.items()}
    return replace(problem, columns=columns, pairs=pairs, nic=nic, links=links, inside=own)


PORTS = (nic_bytes_per_s, inside_bytes_per_s)
"""Bytes/s of caches that leave a GPU: over its NICs, and inside its node."""


def _fills_ports(c: Candidate, node: NodeClass, kv_bytes: Mapping[str, float]) -> bool:
    """Whether a busy replica may hand over more than its own NICs carry, or what is inside its node, where
    caches stay there."""
    least = inside_bytes_per_s(node) if stays_inside(node, node) else nic_bytes_per_s(node)
    least = min(least, nic_bytes_per_s(node))
    return any(kv_bytes[w] / busy > least * c.gpus for w, busy in c.use["busy"].items())

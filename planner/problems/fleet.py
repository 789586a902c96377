"""Candidates -> the numbers of `solvers/fleet.py`: stocks, columns, prefill/decode pairs with their transfers, budgets.

A pair (prefill group, decode group, bucket) exists only where engine and KV precision agree, a path joins the two classes, and the
*pair* keeps the TTFT promise:  TTFT(prefill) + transfer + one decode step. Groups gather candidates of one class, engine and
replica size whose own TTFT falls in the same band, so pairs stay few; a group answers as late as its latest member.

Transfer: the prompt's whole KV cache over the slowest of the sender's NICs, the receiver's NICs and the zone link, after the
prompt is done (engines that overlap it layer by layer do better: Splitwise, ISCA 2024, §4.3). Inside one scale-up domain it goes over that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster_configs.schema import ClusterLink, NodeClass, ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.inputs.options import Budget, Objective
from solvers.fleet import Column, FleetProblem, Stock, Transfer

TTFT_BANDS = 4
"""Prefill groups of one class, engine and size: by how much of the TTFT promise they use."""

LATENCY_S = 50e-6
"""Start of a transfer inside a zone: connection and first byte."""


@dataclass(frozen=True)
class Traffic:
    """What the fleet must carry: `share[w]` of all requests, `kv_bytes[w]` a prompt's cache, the TTFT promise (already cautious)."""

    share: Mapping[str, float]
    kv_bytes: Mapping[str, float]
    osl: Mapping[str, int]
    ttft_s: float
    ttft_caution: float = 1.0
    rate_rps: float | None = None


@dataclass(frozen=True)
class _Group:
    """Prefill or decode candidates that pair alike."""

    name: str
    node: NodeClass
    engine: str
    gpus: int
    late_s: Mapping[str, float]  # of its latest member, for each bucket that all members serve


def state(
    cluster: ResolvedCluster,
    candidates: Sequence[Candidate],
    traffic: Traffic,
    objective: Objective,
    budget: Budget,
) -> FleetProblem:
    """The fleet problem of `candidates` on `cluster`."""
    nodes = {node.id: node for node in cluster.classes}
    groups, member_of = _groups(candidates, nodes, traffic)
    pairs, nic, links = _pairs(groups, cluster, traffic)
    paired = {g for p, d, _ in pairs for g in (p, d)}
    columns = {
        c.id: _column(c, member_of.get(c.id), traffic, objective)
        for c in candidates
        if c.role == "mixed" or member_of[c.id] in paired
    }
    limits = {k: float(v) for k, v in budget.model_dump().items() if v is not None}
    return FleetProblem(
        columns=columns,
        stocks={n.id: stock(n) for n in cluster.classes},
        share=traffic.share,
        objective=objective,
        demand=traffic.rate_rps,
        pairs=pairs,
        nic=nic,
        links=links,
        budget=limits,
    )


def stock(node: NodeClass) -> Stock:
    """A class as bins: domains of several nodes where links join them (NVL72)."""
    span = max(1, node.scale_up_gpus // node.gpus_per_node)
    return Stock(node.node_count, node.gpus_per_node, node.price_usd_per_hour, span)


def _column(c: Candidate, group: str | None, traffic: Traffic, objective: Objective) -> Column:
    late: dict[str, float] = {}
    if objective == "latency":
        for w, ttft in c.ttft_s.items():
            first = ttft if c.role != "decode" else c.tpot_s
            late[w] = first + (traffic.osl[w] * c.tpot_s if c.role != "prefill" else 0.0)
    return Column(c.node_class, c.gpus, c.use, c.watts, late, group, c.joined)


def _groups(
    candidates: Sequence[Candidate], nodes: Mapping[str, NodeClass], traffic: Traffic
) -> tuple[dict[str, list[_Group]], dict[str, str]]:
    """Prefill and decode groups by role, and the group of each candidate."""
    members: dict[tuple[object, ...], list[Candidate]] = defaultdict(list)
    for c in candidates:
        if c.role != "mixed":
            band = 0
            if c.role == "prefill" and traffic.ttft_s < float("inf"):
                band = min(int(TTFT_BANDS * max(c.ttft_s.values()) * traffic.ttft_caution / traffic.ttft_s), TTFT_BANDS)
            members[c.role, c.node_class, c.engine, c.gpus, band, *sorted(c.ttft_s)].append(c)
    groups: dict[str, list[_Group]] = {"prefill": [], "decode": []}
    member_of: dict[str, str] = {}
    for i, ((role, node_class, engine, gpus, *_), pool) in enumerate(members.items()):
        name = f"{role} {i} {node_class} {engine} {gpus}"
        late = {w: max(c.ttft_s[w] if role == "prefill" else c.tpot_s for c in pool) for w in pool[0].ttft_s}
        groups[str(role)].append(_Group(name, nodes[str(node_class)], str(engine), int(str(gpus)), late))
        member_of |= {c.id: name for c in pool}
    return groups, member_of


def _pairs(
    groups: Mapping[str, list[_Group]], cluster: ResolvedCluster, traffic: Traffic
) -> tuple[dict[tuple[str, str, str], Transfer], dict[str, float], dict[str, float]]:
    """Pairs that keep the promise, NIC bytes/s of a GPU by group, bytes/s of the links used."""
    pairs: dict[tuple[str, str, str], Transfer] = {}
    nic: dict[str, float] = {}
    links: dict[str, float] = {}
    for p in groups["prefill"]:
        for d in groups["decode"]:
            if p.engine != d.engine:
                continue
            path = _path(p, d, cluster)
            if path is None:
                continue
            rate, latency_s, link, on_nic = path
            for w in p.late_s:
                seconds = latency_s + traffic.kv_bytes[w] / rate
                first = p.late_s[w] + seconds + d.late_s.get(w, float("inf"))
                if first * traffic.ttft_caution > traffic.ttft_s:
                    continue
                names = (link_name(link),) if link else ()
                pairs[p.name, d.name, w] = Transfer(traffic.kv_bytes[w], seconds, names, on_nic)
                nic |= {g.name: g.node.nic_bytes_per_s for g in (p, d)}
                if link:
                    links[link_name(link)] = link.bytes_per_s
    return pairs, nic, links


def _path(p: _Group, d: _Group, cluster: ResolvedCluster) -> tuple[float, float, ClusterLink | None, bool] | None:
    """bytes/s of one transfer, latency, the zone link crossed, and whether NICs carry it; None where nothing joins the two."""
    if p.node.id == d.node.id and p.node.gpus <= max(p.node.scale_up_gpus, p.node.gpus_per_node):
        return p.node.intra_bytes_per_s * min(p.gpus, d.gpus), LATENCY_S, None, False
    rate = min(p.node.nic_bytes_per_s * p.gpus, d.node.nic_bytes_per_s * d.gpus)
    link = find_link(p.node, d.node, cluster)
    if link is not None:
        return min(rate, link.bytes_per_s), link.latency_s, link, True
    return (rate, LATENCY_S, None, True) if p.node.zone == d.node.zone else None


def find_link(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> ClusterLink | None:
    """The declared link between two classes: by zone, or by a node's name where all nodes of a class share it."""
    for link in cluster.links:
        ends = set(link.between)
        if ends in ({a.zone, b.zone}, {a.id, b.id}, {a.id, b.zone}, {a.zone, b.id}):
            return link
    return None


def link_name(link: ClusterLink) -> str:
    return f"{link.between[0]} - {link.between[1]}"

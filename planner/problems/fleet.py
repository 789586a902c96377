"""Candidates -> the numbers of `solvers/fleet.py`: stocks, columns, prefill/decode pairs with their
transfers, budgets.

A pair (prefill group, decode group, bucket) exists only where engine and KV precision agree, a path joins the
two classes, and the
*pair* keeps the TTFT promise:  TTFT(prefill) + transfer + one decode step. Groups gather candidates of one
class and
engine whose own TTFT and transfer are rounded up to the same bands, so pairs stay few; a decode group steps
as slowly as its slowest member.

Transfer: the prompt's whole KV cache over the slowest of the sender's NICs, the receiver's NICs and the zone
link, after the
prompt is done (engines that overlap it layer by layer do better: Splitwise, ISCA 2024, §4.3). Inside one
scale-up domain it goes over that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product

from cluster_configs.schema import ClusterLink, NodeClass, ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import Counts, undominated
from planner.inputs.options import Budget, Objective
from solvers.fleet import Column, FleetProblem, Stock, Transfer

HANDOFFS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
"""Shares of the TTFT promise that a transfer over a replica's own NICs is rounded up to, so that replica
sizes share groups."""

LATENCY_S = 50e-6
"""Start of a transfer inside a zone: connection and first byte."""


@dataclass(frozen=True)
class Traffic:
    """What the fleet must carry: `share[w]` of all requests, `kv_bytes[w]` a prompt's cache, the TTFT promise
    (already cautious)."""

    share: Mapping[str, float]
    kv_bytes: Mapping[str, float]
    osl: Mapping[str, int]
    ttft_s: float
    rate_rps: float | None = None


@dataclass(frozen=True)
class _Group:
    """Prefill or decode candidates that pair alike: `late_s` what they add to TTFT, `handoff_s` a prompt's
    cache over their own NICs."""

    name: str
    node: NodeClass
    engine: str
    late_s: float
    handoff_s: Mapping[str, float]


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
    fast = _fast(candidates, member_of, nodes, traffic)
    pairs, nic, links = _pairs(groups, cluster, traffic, fast)
    pairs, merged = _merged(pairs)
    member_of = {c: merged.get(g, g) for c, g in member_of.items()}
    paired = {g for p, d, _ in pairs for g in (p, d)}
    able = [c for c in candidates if c.role == "mixed" or member_of[c.id] in paired]
    counts = Counts(latency=objective == "latency", watts=objective == "energy" or budget.watts is not None)
    sizes = {node.id: node.gpus_per_node for node in cluster.classes}
    columns = {
        c.id: _column(c, member_of.get(c.id), traffic, objective, cluster)
        for c in undominated(able, sizes, counts, member_of)
    }
    for a, b in permutations(cluster.classes, 2):
        if link := find_link(a, b, cluster):
            links[link_name(link, a, b)] = link.bytes_per_s
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


def _column(
    c: Candidate, group: str | None, traffic: Traffic, objective: Objective, cluster: ResolvedCluster
) -> Column:
    late: dict[str, float] = {}
    if objective == "latency":
        for (
            w,
            ttft,
        ) in c.ttft_s.items():  # a pair's transfer is charged to its prefill side, over that side's NICs
            first = ttft + c.handoff_s[w] * (c.role == "prefill") if c.role != "decode" else c.tpot_s
            late[w] = first + (traffic.osl[w] * c.tpot_s if c.role != "prefill" else 0.0)
    blocks = c.blocks if len(c.blocks) > 1 else ()
    sent = _sent(c, cluster) if blocks else {}
    return Column(c.blocks[0][0], c.gpus, c.use, c.watts, late, group, c.joined, blocks=blocks, sent=sent)


def _sent(c: Candidate, cluster: ResolvedCluster) -> dict[str, dict[str, float]]:
    """Bytes of a request over each declared link between the stages of a replica."""
    nodes, sent = {n.id: n for n in cluster.classes}, dict[str, dict[str, float]]()
    for first, second in pairwise(c.design.stages):
        a, b = nodes[first.node_class], nodes[second.node_class]
        link = find_link(a, b, cluster) if a is not b else None
        if link is not None:
            row = sent.setdefault(link_name(link, a, b), dict.fromkeys(c.hop_bytes, 0.0))
            sent[link_name(link, a, b)] = {w: row[w] + moved for w, moved in c.hop_bytes.items()}
    return sent


def _groups(
    candidates: Sequence[Candidate], nodes: Mapping[str, NodeClass], traffic: Traffic
) -> tuple[dict[str, list[_Group]], dict[str, str]]:
    """Prefill and decode groups by role, and the group of each candidate."""
    Alike = tuple[str, str, str, tuple[tuple[str, float], ...], float]
    members: dict[Alike, list[Candidate]] = defaultdict(list)
    for c in candidates:
        if c.role != "mixed":
            handoff = tuple((w, _rounded_up(s, traffic)) for w, s in sorted(c.handoff_s.items()))
            members[c.role, c.home[0], c.engine, handoff, c.late_s].append(c)
    groups: dict[str, list[_Group]] = {"prefill": [], "decode": []}
    member_of: dict[str, str] = {}
    for i, ((role, node_class, engine, handoff, late), pool) in enumerate(members.items()):
        name = f"{role} {i} {node_class} {engine}"

        group = _Group(name, nodes[node_class], engine, late, dict(handoff))
        groups[role].append(group)
        member_of |= {c.id: name for c in pool}
    return groups, member_of


def _rounded_up(seconds: float, traffic: Traffic) -> float:
    """To the next of HANDOFFS of the TTFT promise (of a second where there is none)."""
    promise = traffic.ttft_s if traffic.ttft_s < float("inf") else 1.0
    return next((h * promise for h in HANDOFFS if seconds <= h * promise), seconds)


def _fast(
    candidates: Sequence[Candidate],
    member_of: Mapping[str, str],
    nodes: Mapping[str, NodeClass],
    traffic: Traffic,
) -> set[str]:
    """Groups whose NICs can never be the limit: no member can fill its own even with its most cache-heavy
    bucket."""
    slow = set()
    for c in candidates:
        if c.role != "mixed":
            room = nodes[c.home[0]].nic_bytes_per_s * c.home[1]
            first = next(iter(c.use.values()))
            if any(traffic.kv_bytes[w] / u > room for w, u in first.items() if u > 0):
                slow.add(member_of[c.id])
    return set(member_of.values()) - slow


def _merged(
    pairs: Mapping[tuple[str, str, str], Transfer],
) -> tuple[dict[tuple[str, str, str], Transfer], dict[str, str]]:
    """Groups with the same partners and no limit on the way become one: only sums of their traffic matter.
    Old -> new names too."""
    into: dict[str, str] = {}
    for side in (0, 1):
        partners: dict[str, set[object]] = defaultdict(set)
        for key, move in pairs.items():
            limits = (move.links, key[side] if move.on_nic else None)
            partners[key[side]].add((key[1 - side], key[2], limits))
        first: dict[frozenset[object], str] = {}
        names = {group: first.setdefault(frozenset(seen), group) for group, seen in partners.items()}
        into = {old: names.get(new, new) for old, new in into.items()} | {
            g: n for g, n in names.items() if g not in into
        }
        pairs = {
            ((names[p], d, w) if side == 0 else (p, names[d], w)): move for (p, d, w), move in pairs.items()
        }
    return dict(pairs), into


def _pairs(
    groups: Mapping[str, list[_Group]], cluster: ResolvedCluster, traffic: Traffic, fast: set[str]
) -> tuple[dict[tuple[str, str, str], Transfer], dict[str, float], dict[str, float]]:
    """Pairs that keep the promise, NIC bytes/s of a GPU by group, bytes/s of the links used."""
    pairs: dict[tuple[str, str, str], Transfer] = {}
    nic: dict[str, float] = {}
    links: dict[str, float] = {}
    for p, d in product(groups["prefill"], groups["decode"]):
        way = route(p.node, d.node, cluster)
        if p.engine != d.engine or way is None:
            continue
        for w in sorted(set(p.handoff_s) & set(d.handoff_s)):
            own = max(p.handoff_s[w], d.handoff_s[w]) if way.on_nic else 0.0
            seconds = way.seconds(own, traffic.kv_bytes[w])
            if p.late_s + d.late_s + seconds > traffic.ttft_s:
                continue
            names = (link_name(way.link, p.node, d.node),) if way.link else ()
            limited = way.on_nic and not {p.name, d.name} <= fast
            pairs[p.name, d.name, w] = Transfer(traffic.kv_bytes[w], links=names, on_nic=limited)
            nic |= {g.name: g.node.nic_bytes_per_s for g in (p, d)}
            links |= dict.fromkeys(names, way.link.bytes_per_s if way.link else 0.0)
    return pairs, nic, links


@dataclass(frozen=True)
class Way:
    """How a prompt's cache gets from one class to another: over NICs and perhaps a zone link, or inside one
    scale-up domain."""

    link: ClusterLink | None
    on_nic: bool
    bytes_per_s: float  # of what is shared: the link, or one GPU's share of the domain
    latency_s: float

    def seconds(self, own_s: float, kv_bytes: float) -> float:
        """`own_s`: over the slower of the two replicas' NICs."""
        return self.latency_s + max(own_s, kv_bytes / self.bytes_per_s)


def route(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> Way | None:
    """None where nothing joins the two classes: zones without a link."""
    if a.id == b.id and a.gpus <= max(a.scale_up_gpus, a.gpus_per_node):
        return Way(None, False, a.intra_bytes_per_s, LATENCY_S)
    link = find_link(a, b, cluster)
    if link is not None:
        return Way(link, True, link.bytes_per_s, link.latency_s)
    return Way(None, True, float("inf"), LATENCY_S) if a.zone == b.zone else None


def transfer_s(
    a: Candidate, b: Candidate, nodes: Mapping[str, NodeClass], cluster: ResolvedCluster, w: str
) -> float:
    """Seconds that a prompt of bucket `w` takes from a replica of `a` to one of `b`, which must be joined."""
    node = nodes[a.node_class]
    way = route(node, nodes[b.home[0]], cluster)
    assert way is not None
    sent = a.handoff_s[w] * a.gpus * node.nic_bytes_per_s
    return way.seconds(max(a.handoff_s[w], b.handoff_s[w]) if way.on_nic else 0.0, sent)


def find_link(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> ClusterLink | None:
    """The declared link between two classes."""
    return next((link for link in cluster.links if link.joins(a, b)), None)


def link_name(link: ClusterLink, a: NodeClass, b: NodeClass) -> str:
    """One direction of a link, from `a` to `b`: each carries its bytes/s."""
    one, two = link.between if (a.zone, a.id) <= (b.zone, b.id) else link.between[::-1]
    return f"{one} -> {two}"

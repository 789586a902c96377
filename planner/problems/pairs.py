"""Prefill and decode candidates that pair: their groups, what a transfer takes, what pairs keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from cluster_configs.schema import NodeClass, ResolvedCluster, declared_link
from planner.candidates.candidate import Candidate
from planner.candidates.pairing import Edges, Pairing
from planner.cost.transfer import WHOLE, Overlap
from planner.designs.shape import Floats
from planner.inputs.workload import Workload
from planner.problems.ways import Way, link_name, port_bytes_per_s, route
from solvers.fleet.types import Transfer

HANDOFFS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
"""Shares of the TTFT promise that a transfer over a replica's own NICs is rounded to, so that replica sizes
share groups."""


SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
"""Shares of the time that a pair may let NICs and links be busy: the next below the one it bears."""


ROUNDING = 1e-9
"""Share of a transfer: edges of both sides add up to the promise but for this."""

_ByBucket = tuple[tuple[str, float], ...]

_Alike = tuple[str, str, str, str, _ByBucket, float, _ByBucket, tuple[tuple[str, Overlap], ...]]
"""Role, class, engine, what decides partners, handoff, lateness, copies, overlap."""

Side = Literal["plan", "bound"]


SPARE = 0.5
"""Where a port is never busier than this, transfers at most take twice as long: no row for it."""


@dataclass(frozen=True)
class Traffic:
    """What the fleet must carry: `share[w]` of all requests, `kv_bytes[w]` a prompt's cache, the TTFT promise
    (already cautious)."""

    share: Mapping[str, float]
    kv_bytes: Mapping[str, float]
    osl: Mapping[str, int]
    ttft_s: float
    rate_rps: float | None = None

    @staticmethod
    def of(workload: Workload, sent_bytes: Floats, ttft_s: float) -> Traffic:
        """The traffic of a workload, of whose prompts `sent_bytes` (w,) go from prefill to decode."""
        return Traffic(
            share={str(i): share for i, share in enumerate(workload.shares)},
            kv_bytes={str(i): float(sent) for i, sent in enumerate(sent_bytes)},
            osl={str(i): b.osl for i, b in enumerate(workload.buckets)},
            ttft_s=ttft_s,
            rate_rps=workload.rate_rps,
        )


@dataclass(frozen=True)
class _Group:
    """Prefill or decode candidates that pair alike: `late_s` what they add to TTFT, `handoff_s` a prompt's
    cache over their own NICs, of which they keep `copies`."""

    name: str
    node: NodeClass
    member: Candidate  # one of them
    late_s: float
    handoff_s: Mapping[str, float]
    copies: Mapping[str, float]
    overlap: Mapping[str, Overlap]

    @cached_property
    def kind(self) -> tuple[str, str, str]:
        """What decides its partners and the ways to them: class, engine, key."""
        return self.node.id, self.member.engine, self.member.pairs_as


def rows(c: Candidate, side: Side) -> Mapping[str, Mapping[str, float]]:
    """What one request/s of each bucket fills of a replica, for the plan or for the bound."""
    return c.bounds if side == "bound" else c.use


def sent_between(c: Candidate, cluster: ResolvedCluster) -> dict[str, dict[str, float]]:
    """Bytes of a request over each declared link between the stages of a replica."""
    nodes, sent = {n.id: n for n in cluster.classes}, dict[str, dict[str, float]]()
    for first, second in pairwise(c.design.stages):
        a, b = nodes[first.node_class], nodes[second.node_class]
        link = declared_link(cluster.links, a, b)
        if link is not None:
            row = sent.setdefault(link_name(link, a, b), dict.fromkeys(c.hop_bytes, 0.0))
            sent[link_name(link, a, b)] = {w: row[w] + moved for w, moved in c.hop_bytes.items()}
    return sent


def groups_of(
    candidates: Sequence[Candidate],
    nodes: Mapping[str, NodeClass],
    traffic: Traffic,
    side: Side,
    edges: Edges,
) -> tuple[dict[str, list[_Group]], dict[str, str]]:
    """Prefill and decode groups by role, and the group of each candidate."""
    bounds = side == "bound"
    members: dict[_Alike, list[Candidate]] = defaultdict(list)
    for c in candidates:
        if c.role != "mixed":
            buckets = next(iter(rows(c, side).values()))
            handoff = tuple((w, banded(c.handoff_s[w], traffic, not bounds)) for w in sorted(buckets))
            hidden = [(w, c.overlap[w]) for w in sorted(buckets) if w in c.overlap]
            overlap = tuple((w, replace(o, hidden_s=banded(o.hidden_s, traffic, bounds))) for w, o in hidden)
            copies = tuple((w, c.copies[w]) for w in sorted(buckets) if w in c.copies)
            late = c.emitted * (edges.before(c.late_s, c.role) if bounds else c.late_s)
            members[c.role, c.home[0], c.engine, c.pairs_as, handoff, late, copies, overlap].append(c)
    groups: dict[str, list[_Group]] = {"prefill": [], "decode": []}
    member_of: dict[str, str] = {}
    for i, (alike, pool) in enumerate(members.items()):
        role, node_class, engine, _, handoff, late, copies, overlap = alike
        name = f"{role} {i} {node_class} {engine}"
        own = dict(handoff), dict(copies), dict(overlap)
        groups[role].append(_Group(name, nodes[node_class], pool[0], late, *own))
        member_of |= {c.id: name for c in pool}
    return groups, member_of


def banded(seconds: float, traffic: Traffic, up: bool) -> float:
    """To the next of HANDOFFS of the TTFT promise (of a second where there is none), or to the one below."""
    promise = traffic.ttft_s if traffic.ttft_s < float("inf") else 1.0
    bands = [h * promise for h in HANDOFFS]
    if up:
        return next((b for b in bands if seconds <= b), seconds)
    return next((b for b in reversed(bands) if b <= seconds), 0.0)


def fast(
    candidates: Sequence[Candidate],
    member_of: Mapping[str, str],
    nodes: Mapping[str, NodeClass],
    traffic: Traffic,
    port: Callable[[NodeClass], float],
) -> set[str]:
    """Groups whose ports, of so many bytes/s a GPU, can never be the limit: no member can fill SPARE of its
    own even with its most cache-heavy bucket."""
    slow = set()
    for c in candidates:
        if c.role != "mixed":
            room = SPARE * port(nodes[c.home[0]]) * c.home[1]
            sent = {w: b * c.copies.get(w, 1.0) for w, b in traffic.kv_bytes.items()}
            if any(sent[w] / u > room for w, u in next(iter(c.bounds.values())).items() if u > 0):
                slow.add(member_of[c.id])
    return set(member_of.values()) - slow


def merged(
    pairs: Mapping[tuple[str, str, str], Transfer],
) -> tuple[dict[tuple[str, str, str], Transfer], dict[str, str]]:
    """Groups with the same partners and no limit on the way become one: only sums of their traffic matter.
    Old -> new names too."""
    into: dict[str, str] = {}
    for side in (0, 1):
        partners: dict[str, set[object]] = defaultdict(set)
        for key, move in pairs.items():
            limited = move.on_nic or move.inside
            limits = (move.bytes, move.latency, move.links, key[side] if limited else None)
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


@dataclass(frozen=True)
class Paired:
    """Pairs and what they move; bytes/s of a GPU over its NICs and inside its node by group, of the links
    used."""

    pairs: dict[tuple[str, str, str], Transfer]
    nic: dict[str, float]
    inside: dict[str, float]
    links: dict[str, float]


def pairs_of(
    groups: Mapping[str, list[_Group]],
    cluster: ResolvedCluster,
    traffic: Traffic,
    fast: tuple[set[str], set[str]],
    side: Side,
    pairing: Pairing | None,
    timed: bool,
) -> Paired:
    """Pairs that keep the promise; `fast`: groups whose NICs, and whose ports inside nodes, are no limit;
    `timed`: with the seconds that transfers alone take."""
    found = Paired({}, {}, {}, {})
    kinds = {g.kind: g for g in groups["prefill"]}
    partners = {kind: _partners(p, groups["decode"], cluster, pairing) for kind, p in kinds.items()}
    in_time = (
        (p, d, way)
        for p in groups["prefill"]
        for d, way in partners[p.kind]
        if p.late_s + d.late_s <= traffic.ttft_s
    )
    for p, d, way in in_time:
        names = (link_name(way.link, p.node, d.node),) if way.link else ()
        limited = not {p.name, d.name} <= fast[0 if way.on_nic else 1]
        ports = found.nic if way.on_nic else found.inside
        for w in sorted(set(p.handoff_s) & set(d.handoff_s)):
            sent = traffic.kv_bytes[w] * d.copies.get(w, 1.0)
            share = _bearable(p, d, way, w, sent, traffic.ttft_s, side)
            if share <= 0:
                continue
            claimed = sent / share if limited or names else sent
            seen_s = p.overlap.get(w, WHOLE).seen_s(_alone_s(p, d, way, w, sent))
            took_s = way.latency_s + seen_s if timed else 0.0
            on_nic, inside = limited and way.on_nic, limited and not way.on_nic
            found.pairs[p.name, d.name, w] = Transfer(claimed, took_s, names, on_nic, inside)
            ports |= {end.name: port_bytes_per_s(end.node, way) for end in (p, d)}
            found.links.update({name: way.link.bytes_per_s for name in names if way.link})
    return found


def _partners(
    p: _Group, decode: Sequence[_Group], cluster: ResolvedCluster, pairing: Pairing | None
) -> list[tuple[_Group, Way]]:
    """The `decode` groups that an engine joins with groups of `p`'s kind, and the way to them."""
    kinds = {d.kind: d for d in decode}
    ways = {
        kind: route(p.node, d.node, cluster)
        for kind, d in kinds.items()
        if _joined(p.member, d.member, pairing)
    }
    return [(d, way) for d in decode if (way := ways.get(d.kind)) is not None]


def _joined(p: Candidate, d: Candidate, pairing: Pairing | None) -> bool:
    """Whether an engine joins the two; what no engine starts as it comes has no key."""
    if pairing is None or not p.pairs_as or not d.pairs_as:
        return p.engine == d.engine
    return (p.pairs_as, d.pairs_as) in pairing.joined


def _bearable(p: _Group, d: _Group, way: Way, w: str, sent: float, ttft_s: float, side: Side) -> float:
    """The largest of SHARES of the time that NICs and links may be busy with the pair in time (for the bound
    all of it); 0: late even alone."""
    spare = ttft_s - p.late_s - d.late_s - way.latency_s
    alone = _alone_s(p, d, way, w, sent)
    most = p.overlap.get(w, WHOLE).bearable_s(spare)
    if side == "bound":
        return float(most >= alone * (1 - ROUNDING))
    return next((u for u in SHARES if most > alone and u <= 1 - alone / most), 0.0)


def _alone_s(p: _Group, d: _Group, way: Way, w: str, sent: float) -> float:
    """Seconds that a transfer which nothing else meets takes."""
    return max(way.alone_s((p.handoff_s[w], d.handoff_s[w]), sent))

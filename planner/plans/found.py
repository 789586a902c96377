"""A solved fleet and what becomes of it: replica groups at their real load, and the ways requests take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from cluster_configs.schema import ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.candidates.mix import Promise
from planner.candidates.setup import Setup
from planner.inputs.workload import Workload
from planner.objectives import Objective
from planner.plans.operation import Operation, index_of, operate
from planner.problems.ways import Way, link_name, port_bytes_per_s, route, transfer_s
from planner.replicas.pool import Pool
from solvers.fleet.types import FleetProblem, FleetSolution


@dataclass(frozen=True)
class Found:
    """A solved fleet and all it was made from."""

    cluster: ResolvedCluster
    workload: Workload
    objective: Objective
    pool: Pool
    problem: FleetProblem  # that `solution` solves
    solution: FleetSolution
    bounding: FleetProblem | None = None  # that the bound speaks of, where it is another
    others: Mapping[str, float] = field(default_factory=dict)  # of links' time, what other models take
    unclosed: str = ""  # what else than time left a gap between fleet and bound
    together: bool = False  # its routes keep the limits in the mean over all requests of a bucket, not each
    apart: bool = True  # the bound speaks of fleets every route of which keeps the limits by itself

    @property
    def space(self) -> FleetProblem:
        """The problem that the bound speaks of."""
        return self.bounding or self.problem

    @property
    def candidates(self) -> dict[str, Candidate]:
        return {c.id: c for c in self.pool.candidates}

    def interrupted(self) -> Found:
        """The fleet as it stands: the search was broken off."""
        return replace(self, solution=replace(self.solution, status="interrupted"))


@dataclass(frozen=True)
class Group:
    """One replica group: a candidate, how many, what it serves, how it runs."""

    id: str
    candidate: Candidate
    count: int
    served: Mapping[str, float]  # requests/s of each bucket, all replicas
    operation: Operation
    setup: Setup

    @property
    def caution(self) -> list[float]:
        """Factors on TTFT and TPOT that --risk asks for."""
        caution = self.setup.caution(self.candidate.role)
        factors: list[float] = caution[:, index_of(self.setup, self.candidate)].tolist()
        return factors


def operate_anew(g: Group, factor: float = 1.0, promise: Promise | None = None) -> Group:
    """The group with `factor` of its traffic, and with times as another promise has them."""
    setup = g.setup if promise is None else replace(g.setup, promise=promise)
    served = {w: factor * rate for w, rate in g.served.items()}
    return replace(g, setup=setup, served=served, operation=operate(setup, g.candidate, served, g.count))


def groups(found: Found) -> list[Group]:
    """Replica groups, those that serve most GPUs first: mixed r1…, prefill p1…, decode d1…."""
    candidates, s = found.candidates, found.solution
    served: dict[str, dict[str, float]] = {}
    for (c, w), flow in s.flows.items():
        served.setdefault(c, {})[w] = flow
    made: list[Group] = []
    seen = {"mixed": 0, "prefill": 0, "decode": 0}
    for c, count in sorted(s.replicas.items(), key=lambda item: -item[1] * candidates[item[0]].gpus):
        candidate = candidates[c]
        if not served.get(c):
            continue  # a replica that serves nothing is not run
        seen[candidate.role] += 1
        name = {"mixed": "r", "prefill": "p", "decode": "d"}[candidate.role] + str(seen[candidate.role])
        setup = found.pool.setup(candidate)
        made.append(
            Group(name, candidate, count, served[c], operate(setup, candidate, served[c], count), setup)
        )
    return made


@dataclass(frozen=True)
class Path:
    """Requests/s of one bucket along one way through the fleet, and the times they see."""

    bucket: int
    rate: float
    first: Group
    second: Group | None
    ttft_s: float
    tpot_s: float
    kv_bytes_per_s: float | None = None

    @property
    def cautious_ttft_s(self) -> float:
        """TTFT that the limit is kept with: of the server that computes the prompt, and what comes after it
        by the caution of that server."""
        own, i = self.first.operation, self.bucket
        after_s = self.ttft_s - float(own.ttft_s[i]) if math.isfinite(own.ttft_s[i]) else 0.0
        return float(own.cautious_ttft_s[i]) + self.first.caution[0] * after_s

    @property
    def decoder(self) -> Group:
        """The group that makes the tokens."""
        return self.second or self.first


def paths(found: Found, made: Sequence[Group]) -> list[Path]:
    """Every way a request can take. Pair flows are known by group of candidates; inside, they follow the
    members' own flows."""
    result = []
    for g in made:
        if found.problem.columns[g.candidate.id].group is None:
            for w, rate in g.served.items():
                i = int(w)
                result.append(
                    Path(i, rate, g, None, float(g.operation.ttft_s[i]), float(g.operation.tpot_s[i]))
                )
    pairs = all_pairs(found, made)
    used = busy(found, pairs)
    result += [_pair_path(found.cluster, pair, used) for pair in pairs]
    return sorted(result, key=lambda p: (p.bucket, -p.rate))


def all_pairs(found: Found, made: Sequence[Group]) -> list[Pair]:
    """Every prefill group with every decode group that takes of it."""
    of_column: dict[str, list[Group]] = {}
    for g in made:
        group = found.problem.columns[g.candidate.id].group
        if group is not None:
            of_column.setdefault(group, []).append(g)
    pairs: list[Pair] = []
    for (prefill, decode, w), rate in found.solution.pair_flows.items():
        pairs += _pairs(of_column.get(prefill, []), of_column.get(decode, []), w, rate)
    return pairs


def _pairs(senders: list[Group], receivers: list[Group], w: str, rate: float) -> Iterator[Pair]:
    def share(members: list[Group], g: Group) -> float:
        return g.served.get(w, 0.0) / max(sum(m.served.get(w, 0.0) for m in members), 1e-30)

    for p, d in product(senders, receivers):
        part = rate * share(senders, p) * share(receivers, d)
        if part > 1e-9 * rate:
            yield Pair(p, d, w, part)


@dataclass(frozen=True)
class Pair:
    """Requests/s of bucket `w` from a prefill to a decode group."""

    first: Group
    second: Group
    w: str
    rate: float

    @property
    def kv_bytes(self) -> float:
        """Bytes of a prompt's cache."""
        return float(self.first.setup.sent_bytes[int(self.w)])

    @property
    def bytes_per_s(self) -> float:
        """Bytes/s that cross: every copy that the receiver keeps."""
        return self.rate * self.kv_bytes * self.second.candidate.copies.get(self.w, 1.0)


def busy(found: Found, pairs: Sequence[Pair]) -> dict[tuple[str, str], float]:
    """Share of the time that NICs ("out of" or "into" a group), ports inside nodes ("inside out of" and
    "inside into") and links ("over") are busy."""
    nodes = {n.id: n for n in found.cluster.classes}
    used = {("over", link): share for link, share in found.others.items()}

    def add(way: str, name: str, share: float) -> None:
        used[way, name] = used.get((way, name), 0.0) + share

    for pair in pairs:
        ends = pair.first, pair.second
        way = way_of(found.cluster, pair)
        for word, g in zip(("out of", "into"), ends, strict=True):
            home, gpus = g.candidate.home
            port = g.count * gpus * port_bytes_per_s(nodes[home], way)
            add(word if way.on_nic else f"inside {word}", g.id, pair.bytes_per_s / port)
        if way.link:
            a, b = (nodes[g.candidate.home[0]] for g in ends)
            add("over", link_name(way.link, a, b), pair.bytes_per_s / way.link.bytes_per_s)
    for (c, w), flow in found.solution.flows.items():
        for link, each in found.problem.columns[c].sent.items():
            add("over", link, flow * each[w] / found.problem.links[link])
    return used


def way_of(cluster: ResolvedCluster, pair: Pair) -> Way:
    """Between the two groups of a pair, which must be joined."""
    nodes = {n.id: n for n in cluster.classes}
    way = route(nodes[pair.first.candidate.home[0]], nodes[pair.second.candidate.home[0]], cluster)
    assert way is not None
    return way


def _pair_path(cluster: ResolvedCluster, pair: Pair, used: Mapping[tuple[str, str], float]) -> Path:
    p, d, i, way = pair.first, pair.second, int(pair.w), way_of(cluster, pair)
    nodes = {n.id: n for n in cluster.classes}
    ends = nodes[p.candidate.home[0]], nodes[d.candidate.home[0]]
    link = used.get(("over", link_name(way.link, *ends)), 0.0) if way.link else 0.0
    out, into = ("out of", "into") if way.on_nic else ("inside out of", "inside into")
    shares = used.get((out, p.id), 0.0), used.get((into, d.id), 0.0), link
    move_s = transfer_s(p.candidate, d.candidate, way, pair.w, pair.kv_bytes, shares)
    step_s = float(d.operation.tpot_s[i])
    ttft_s = float(p.operation.ttft_s[i]) + move_s + step_s * d.setup.mix.emitted
    return Path(i, pair.rate, p, d, ttft_s, step_s, pair.bytes_per_s)

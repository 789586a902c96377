"""Servers of a plan with the GPUs that each has, and what each GPU holds, by a key that GPUs with the same
weights share; machines of its cluster: which GPUs, in which scale-up domain and zone, with which ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device, NodeClass, ResolvedCluster
from model_zoo.schema import ModelCard
from planner.designs.precision import served
from planner.errors import InputError, nearest
from planner.launch.instances import Instance, before, instances
from planner.launch.server import machine_of, node_sizes
from planner.migration.refused import refuse
from planner.migration.weights import Checkpoint, Copies, Matrix, Rank, Share
from planner.plans.diff import design
from planner.plans.schema import Plan, Replica

Gpu = tuple[str, int]
"""A machine and the number of one of its GPUs."""
At = tuple[str, str]
"""A machine and a class of its GPUs."""
Key = tuple[object, ...]
"""What a GPU holds: model, precisions and place in a replica."""


@dataclass(frozen=True)
class Seat:
    """One GPU of a server: where, of which class of nodes, and what it holds."""

    gpu: Gpu
    node_class: str
    key: Key

    @property
    def at(self) -> At:
        return self.gpu[0], self.node_class


@dataclass(frozen=True)
class Server:
    """One server of a plan: its GPUs in the order of their ranks. `command`: how it is started, but for names
    and ports, which servers of unlike settings differ in."""

    plan: int
    replica: Replica
    number: int
    seats: tuple[Seat, ...]
    command: Key

    @property
    def place(self) -> tuple[tuple[str, str, int], ...]:
        """How many GPUs it has of each machine and class."""
        counts: dict[At, int] = {}
        for seat in self.seats:
            counts[seat.at] = counts.get(seat.at, 0) + 1
        return tuple(sorted((*at, count) for at, count in counts.items()))

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(seat.key for seat in self.seats)


@dataclass
class Held:
    """All servers of some plans that run side by side, and the shares of weights behind each key. `whole`:
    groups whose weights are only counted as a whole."""

    servers: list[Server] = field(default_factory=list)
    shares: dict[Key, list[Share]] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)


def held(plans: Sequence[Plan]) -> Held:
    """Servers of plans that run side by side. Raises InputError where a plan does not say where its servers
    stand, or what model they hold."""
    found = Held()
    for number, plan in enumerate(plans):
        refuse(plan)
        reader = _Reader(plan)
        for instance in instances(plan):
            found.servers.append(_server(number, instance, reader, found))
        found.whole += [r.id for r in plan.replicas if reader.whole(r)]
    return found


def _server(number: int, instance: Instance, reader: _Reader, found: Held) -> Server:
    r, seats = instance.replica, list[Seat]()
    for i, (stage, gpus) in enumerate(zip(r.stages, _by_stage(instance, reader.rooms(r.id)), strict=True)):
        for g, gpu in enumerate(gpus):
            key = reader.key(r, i, g)
            if key not in found.shares:
                found.shares[key] = reader.shares(r, i, g)
            seats.append(Seat(gpu, stage.node_class, key))
    return Server(number, r, instance.number, tuple(seats), command(r))


def command(r: Replica) -> Key:
    """How a group is started, but for names and ports; where that is not told, its design and settings."""
    if r.launch is None or not r.launch.argv:
        return (design(r), r.max_batched_tokens)
    argv = ["" if word == f"{r.id}.yaml" else word for word in r.launch.argv]
    at = argv.index("--port") if "--port" in argv else len(argv)
    return (r.role, *argv[:at], *argv[at + 2 :], *sorted(r.launch.env.items()), *r.launch.files.values())


def _by_stage(instance: Instance, rooms: Sequence[Room]) -> Iterator[list[Gpu]]:
    """GPUs of each stage: engines number their ranks in the order of the GPUs of a server."""
    nodes = list(instance.gpus)
    if instance.replica.engine == "llama.cpp" and len(nodes) > 1:
        nodes = [*nodes[1:], nodes[0]]  # its last node answers
    left = [(node, gpu) for node, gpus in nodes for gpu in gpus]
    for stage, room in zip(instance.replica.stages, rooms, strict=True):
        own = [gpu for gpu in left if gpu[0] in room.machines and gpu[1] in room.numbers][: stage.gpus]
        if len(own) < stage.gpus:
            raise InputError(f"{instance.name}: a stage has fewer than {stage.gpus} GPUs", "replicas")
        taken = set(own)
        left = [gpu for gpu in left if gpu not in taken]
        yield own


class Room(NamedTuple):
    """Machines that a stage may stand on, and the numbers of its class's GPUs there."""

    machines: frozenset[str]
    numbers: range


class _Reader:
    """What the GPUs of one plan hold."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.card = ModelCard.model_validate(plan.problem.model)
        self.checkpoint = cache(lambda *used: Checkpoint(self.card, served(self.card, *used)))
        sizes = node_sizes(plan)
        self.numbers = {name: range(at := before(plan, name), at + size) for name, size in sizes.items()}
        self.rooms = cache(self._rooms)
        maps = [] if plan.experts is None else plan.experts.replicas
        self.maps = {m.replica: m for m in maps if m.placement == "map" and m.map}

    def _rooms(self, name: str) -> list[Room]:
        """Where each stage of a group may stand."""
        r = next(r for r in self.plan.replicas if r.id == name)
        return [Room(frozenset(map(machine_of, s.nodes)), self.numbers[s.node_class]) for s in r.stages]

    def whole(self, r: Replica) -> bool:
        """Whether matrices are not told apart: weights beside the GPUs, attention and FFNs on different
        ones."""
        beside = any(t.replica == r.id and t.what != "cache" for t in self.plan.tiers)
        apart = r.role in ("attention", "ffn") or any(s.layers[0] == s.layers[1] for s in r.stages)
        return beside or apart

    def key(self, r: Replica, stage: int, gpu: int) -> Key:
        """Names what the `gpu`-th GPU of a stage holds: equal where two hold the same."""
        p, s = r.precision, r.stages[stage]
        what: Key = (self.card.name, p.weights, p.experts, self._drafter(r))
        if self.whole(r):
            held = [(t.tier, t.what, *t.layers, t.share) for t in self.plan.tiers if t.replica == r.id]
            return (*what, "whole", design(r), r.memory[stage].weights_bytes, *held, stage, gpu)
        rank = Rank.of(s.layers, gpu, s.gpus, s.tp, r.ep)
        places = (
            tuple(map(tuple, (layer[rank.e] for layer in self.maps[r.id].map))) if r.id in self.maps else ()
        )
        experts = (rank.e, rank.ep, rank.m, rank.moe_tp, r.redundant_experts, places)
        return (*what, s.layers, rank.t, rank.tp, *(experts if self.card.moe else ()))

    def shares(self, r: Replica, stage: int, gpu: int) -> list[Share]:
        """What it holds, matrix by matrix."""
        p, s, drafter = r.precision, r.stages[stage], self._drafter(r)
        own = (
            [Share(("drafter", *drafter, s.tp, gpu % s.tp), 0.0, 1.0, r.draft.weights_bytes)]
            if r.draft
            else []
        )
        if self.whole(r):
            key: Matrix = self.key(r, stage, gpu)
            size = next((m.weights_bytes for m in r.memory if m.stage == stage), 0.0)
            beside = sum(t.bytes for t in self.plan.tiers if t.replica == r.id and t.what != "cache")
            return [*own, Share(key, 0.0, 1.0, size + (beside if (stage, gpu) == (0, 0) else 0.0))]
        copies = Copies(r.redundant_experts, self.maps[r.id].map if r.id in self.maps else ())
        rank = Rank.of(s.layers, gpu, s.gpus, s.tp, r.ep)
        return [*own, *self.checkpoint(p.weights, p.experts, p.kv).held(rank, copies)]

    def _drafter(self, r: Replica) -> Key:
        """Which drafter stands beside a model."""
        if r.draft is None or r.draft.kind == "ngram":
            return ()
        return (r.draft.kind, str((r.draft.model or {}).get("name", self.card.name)))


@dataclass(frozen=True)
class Domain:
    """GPUs that a scale-up link joins: a node, or a few of them. Known by class and number."""

    name: str
    number: int
    node_class: NodeClass = field(compare=False)

    @property
    def nodes(self) -> list[str]:
        """Its nodes."""
        size = self.node_class.domain_nodes
        return list(self.node_class.nodes[self.number * size : (self.number + 1) * size])

    @property
    def nic_bytes_per_s(self) -> float:
        """All NICs of its GPUs together."""
        return len(self.nodes) * self.node_class.gpus_per_node * self.node_class.nic_bytes_per_s


class Machines:
    """The machines of a plan's cluster that the servers of some plans stand on."""

    def __init__(self, plan: Plan) -> None:
        p = plan.problem
        devices = {name: Device.model_validate(form) for name, form in p.devices.items()}
        self.plan = plan
        self.cluster: ResolvedCluster = resolve(Cluster.model_validate(p.cluster), devices=devices)

    @cached_property
    def classes(self) -> dict[str, NodeClass]:
        return {c.id: c for c in self.cluster.classes}

    @cached_property
    def index(self) -> dict[At, int]:
        """Where each machine stands among those of its class."""
        return {(machine_of(name), c.id): i for c in self.cluster.classes for i, name in enumerate(c.nodes)}

    def refuse(self, machines: Iterable[str]) -> None:
        """Raises InputError for a machine that the cluster has not."""
        known = {name for name, _ in self.index}
        for name in dict.fromkeys(machines):
            if name not in known:
                hint = f"did you mean `{nearest(name, sorted(known), 1)[0]}`?"
                raise InputError(f"the cluster has no node `{name[:60]}`", "replicas", hint)

    def kind(self, at: At) -> tuple[object, ...] | None:
        """What has to be the same for a machine to be the same one in two plans; None where it is not
        there."""
        if at not in self.index:
            return None
        node = self.classes[at[1]]
        return (node.device.name, node.gpus_per_node)

    def numbers(self, node_class: str) -> range:
        """Numbers of the GPUs of a class in its nodes."""
        first = before(self.plan, node_class)
        return range(first, first + self.classes[node_class].gpus_per_node)

    def domain(self, at: At) -> Domain:
        """The scale-up domain of a machine's GPUs."""
        node = self.classes[at[1]]
        return Domain(node.id, self.index[at] // node.domain_nodes, node)

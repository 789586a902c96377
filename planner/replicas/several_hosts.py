"""Replicas over several nodes whose weights lie on their GPUs and in their host memories (llama.cpp's RPC).

For each class of the first node, each choice of up to `MOST_NODES` whole nodes (`MOST_CHOICES` of them, the
fewest nodes first) and each of `SEQUENCES`: the layers over all devices so that a decode step of so many
sequences is fastest, exactly (`solvers.offload`). Twice: with experts of the first node's layers in its host
memory, each of its GPUs having an equal part of that; and with whole layers there, the first ones. On other
nodes whole layers are all that an rpc-server's CPU takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass
from planner.candidates.ask import Ask
from planner.candidates.candidate import Key
from planner.candidates.deadline import in_time
from planner.candidates.mix import Mix
from planner.candidates.setup import Made, Setup
from planner.cost.attention import Load
from planner.cost.host import Host, HostStage, host_of
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.placements import HostStaging
from planner.cost.reserve import counted_tokens_per_step
from planner.cost.rpc import ENGINE, RPC_S, RpcModel
from planner.designs.shape import Floats, designs_of, like
from planner.replicas.host_memory import TOKENS_PER_STEP, cache_by_kind
from planner.replicas.kind import Space
from planner.rules.devices import why_unsupported
from solvers import offload
from solvers.offload import OffloadProblem

SEQUENCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)

MOST_NODES, MOST_CHOICES = 8, 48


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each class of the first node, where weights may lie in host memory."""
    for name, s in setups(space.classes, space.links, space.ask) if space.ask.offload else ():
        yield Made.of(Key(name, ENGINE, kind), s, None, ("mixed",))


def setups(
    classes: Sequence[NodeClass],
    links: Sequence[ClusterLink],
    ask: Ask,
    sequences: Sequence[int] = SEQUENCES,
) -> Iterator[tuple[str, Setup]]:
    """By the class of the first node: all placements, with their memory."""
    able = [n for n in classes if why_unsupported(n.device, ENGINE, ask.precisions, ask.moe) is None]
    for main in able if ENGINE in ask.engines else ():
        if main.device.unified_memory or host_of(main, main.gpus_per_node, 1) is None:
            continue
        reached = [n for n in able if n.id == main.id or _joined(main, n, links)]
        made = (Spread(main, others, links, ask).all(sequences) for others in choices(main, reached))
        stagings = list(dict.fromkeys(staging for found in made for staging in found))
        if stagings:
            model = RpcModel(ask.card, main, reached, links, stagings, ask.precisions, ask.calibration)
            yield main.id, ask.setup(model, designs_of(stagings), reached, TOKENS_PER_STEP)


def holds(classes: Sequence[NodeClass], links: Sequence[ClusterLink], ask: Ask) -> bool:
    """Whether some placement has room for one sequence."""
    found = (s for _, s in setups(classes, links, ask, (1,)))
    return any(bool(s.holds["mixed"].all(axis=1).any()) for s in found)


def choices(main: NodeClass, reached: Sequence[NodeClass]) -> list[tuple[NodeClass, ...]]:
    """Classes of the other nodes of a replica, the fewest first."""
    left = [min(n.node_count - (n.id == main.id), MOST_NODES - 1) for n in reached]
    every = (c for c in product(*(range(k + 1) for k in left)) if 0 < sum(c) < MOST_NODES)
    counted = sorted(islice(every, 100_000), key=lambda c: (sum(c), c))
    return [
        tuple(n for n, k in zip(reached, c, strict=True) for _ in range(k)) for c in counted[:MOST_CHOICES]
    ]


def _joined(a: NodeClass, b: NodeClass, links: Sequence[ClusterLink]) -> bool:
    return a.zone == b.zone or any(link.joins(a, b) for link in links)


@dataclass(frozen=True)
class Device:
    """A GPU, or the CPU, of a node of the replica; `node` 0 is the first."""

    node: int
    on: NodeClass
    cpu: Host | None


class Spread:
    """The layers over one choice of nodes."""

    def __init__(
        self, main: NodeClass, others: Sequence[NodeClass], links: Sequence[ClusterLink], ask: Ask
    ) -> None:
        self.main, self.others, self.ask = main, others, ask
        self.kind = np.asarray(ask.card.kinds[1])
        classes = list({n.id: n for n in (main, *others)}.values())
        self.classes, self.links = classes, links
        self.gpus = main.gpus_per_node + sum(n.gpus_per_node for n in others)
        self.context = max(Mix.of(ask.workload).context, 1.0)
        self.whole = max(b.isl + b.osl for b in ask.workload.buckets) / self.context  # in mean contexts

    def all(self, sequences: Sequence[int]) -> list[HostStaging]:
        """The fastest placements of every number of sequences; none where there are none."""
        if len(self.kind) < self.gpus:
            return []
        self.model = RpcModel(
            self.ask.card, self.main, self.classes, self.links, [self._even()], self.ask.precisions,
            self.ask.calibration,
        )  # fmt: skip
        self.devices = self._devices()
        self.rooms = self._rooms()
        found = (self.fastest(n, whole) for n in sequences for whole in (False, True)[not self.ask.moe :])
        return list(dict.fromkeys(staging for staging in found if staging))

    def fastest(self, sequences: int, whole: bool) -> HostStaging | None:
        """With whole layers in the first node's memory, or experts."""
        in_time()
        p = self.problem(sequences, whole)
        s = offload.solve(p)
        return self._staging(s.stages, s.away) if s.cost is not None else None

    def problem(self, sequences: int, whole: bool) -> OffloadProblem:
        """The layers over all devices for a decode step of so many sequences."""
        one = np.ones(1)
        load = Load(sequences * one, self.context * one, 0 * one, 0 * one)
        here, more, before = self.model.layer_s(load)
        own = {c: m.layers for c, m in self.model.of_class.items()}
        gpu = {
            c: np.array([layers.layer_s(kind, load, like(1, 1))[0] for kind in self.model.kinds])
            for c, layers in own.items()
        } | {self.main.id: here}
        place, outside = [], []
        mine = float(next(d.cpu for d in self.devices if d.cpu).room_bytes)
        for device in self.devices:
            if device.cpu is None:
                place.append(gpu[device.on.id])
            elif device.node:
                place.append(self.model.cpu_layer_s(load, device.cpu, device.cpu.rate(device.cpu.room_bytes)))
            else:
                place.append(before)
            first = device.node == 0 and device.cpu is None and not whole
            outside.append(mine / self.main.gpus_per_node if first else 0.0)
        room = self.rooms * np.array([whole or d.node > 0 or d.cpu is None for d in self.devices])
        return OffloadProblem(
            kind=self.kind,
            held=self.model.held.layer + max(sequences, self.whole) * cache_by_kind(self.ask, ENGINE),
            freed=self.model.held.experts,
            cost=more,
            room=room,
            place=np.array(place),
            opened=np.array([self._opened_s(device, sequences) for device in self.devices]),
            outside=np.array(outside),
            spare=np.array([device.cpu is not None for device in self.devices]),
        )

    def _devices(self) -> list[Device]:
        """In the order of the layers."""
        found = [Device(0, self.main, host_of(self.main, self.main.gpus_per_node, 1))]
        for j, node in enumerate(self.others, 1):
            found += [Device(j, node, None)] * node.gpus_per_node
            host = None if node.device.unified_memory else host_of(node, node.gpus_per_node, 1)
            found += [Device(j, node, host)] * (host is not None)
        return found + [Device(0, self.main, None)] * self.main.gpus_per_node

    def _opened_s(self, device: Device, sequences: int) -> float:
        """Seconds that a device adds once it has a layer: there and back. (Between the GPUs of one server
        nothing is sent: every count of their layers is charged alike.)"""
        if not device.node:
            return 0.0
        message = 2 * ACTIVATION_BYTES * sequences * self.ask.card.hidden
        return 2 * self.model.hop_to_s(device.on.id, self.links, message) + RPC_S

    def _rooms(self) -> Floats:
        """Bytes of each device for layers and their cache: of GPUs as they are with the layers evenly on
        them."""
        tokens = max(TOKENS_PER_STEP, counted_tokens_per_step(ENGINE, (c.device for c in self.classes)))
        memory = self.model.memory_by_stage(designs_of(self.model.stagings), tokens)
        weights = [self.model.held.layer[self.kind[slice(*s.layers)]].sum() for s in self.model.stagings[0]]
        gpus = iter((memory.kv_bytes[0, : self.gpus] + np.array(weights)).tolist())
        return np.array([next(gpus) if d.cpu is None else d.cpu.room_bytes for d in self.devices])

    def _even(self) -> HostStaging:
        ends = np.linspace(0, len(self.kind), self.gpus + 1).round().astype(int).tolist()
        nodes = [(j, n) for j, n in enumerate(self.others, 1) for _ in range(n.gpus_per_node)]
        nodes += [(0, self.main)] * self.main.gpus_per_node
        return tuple(
            HostStage(n.id, 1, (a, b), node=j) for (j, n), a, b in zip(nodes, ends, ends[1:], strict=False)
        )

    def _staging(self, ranges: Sequence[tuple[int, int]], away: Sequence[tuple[int, ...]]) -> HostStaging:
        found = list[HostStage]()
        for device, (a, b), out in zip(self.devices, ranges, away, strict=True):
            if device.cpu is None:
                before = 0 if found else a
                found.append(HostStage(device.on.id, 1, (a, b), sum(out), 0, before, node=device.node))
            elif device.node and b > a:
                last = found.pop()
                found.append(
                    HostStage(last.node_class, 1, last.layers, 0, 0, last.before, node=last.node, after=b - a)
                )
        return tuple(found)

"""Every server of a plan by itself: on which GPUs of which nodes it stands, and at which port it listens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

from planner.errors import InputError
from planner.launch.server import Server, kinds_of, machine_of, node_sizes
from planner.plans.schema import Plan, Replica

PLACED = 50_000
"""Servers above which only those are placed that somebody looks at: each takes some 10 us."""


@dataclass(frozen=True)
class Instance:
    """One replica of a group: GPUs by number on each node that it stands on, first the one that answers, and
    a port that no other on that node has."""

    replica: Replica
    number: int
    gpus: tuple[tuple[str, tuple[int, ...]], ...]
    port: int

    @property
    def name(self) -> str:
        """ "r1-0", the first of group r1."""
        return f"{self.replica.id}-{self.number}"

    @property
    def head(self) -> str:
        """The node that it answers on."""
        return self.gpus[0][0]


def instances(plan: Plan, most: int | None = None) -> list[Instance]:
    """All of a plan, largest first into the first of their nodes with room; where the plan says it, as there.
    Servers of a node listen from the engine's own port on. `most`: where the first so many of each group are
    enough, which spares the time for those that nobody stands behind. Raises InputError where they find no
    room so."""
    if plan.seats:
        return list(_seated(plan))
    sizes, taken = node_sizes(plan), defaultdict[str, int](int)
    used, found = defaultdict[str, int](int), list[Instance]()
    earlier = {name: before(plan, name) for name in sizes}
    in_turn = sorted(plan.replicas, key=lambda r: -Server(plan, r).gpus)
    for r in in_turn:
        first = _port(r)
        if unknown := [s.node_class for s in r.stages if s.node_class not in sizes]:
            raise InputError(f"{r.id}: the cluster has no nodes `{unknown[0]}`", "replicas")
        rooms = {
            (s.node_class, tuple(s.nodes)): _Rooms(s.nodes, taken, sizes[s.node_class]) for s in r.stages
        }
        own = [rooms[s.node_class, tuple(s.nodes)] for s in r.stages]
        for number in range(r.count if most is None or r is not in_turn[-1] else min(r.count, most)):
            places: dict[str, list[int]] = {}
            for stage, room in zip(r.stages, own, strict=True):
                left, size = stage.gpus, sizes[stage.node_class]
                for node in room.taking(left):
                    here = min(left, size - taken[node])
                    first_gpu = earlier[stage.node_class] + taken[node]
                    places.setdefault(machine_of(node), []).extend(range(first_gpu, first_gpu + here))
                    taken[node] += here
                    for known in rooms.values():
                        known.moved(node)
                    left -= here
                    if not left:
                        break
                if left:
                    raise InputError(
                        f"{r.id}: {left} GPUs of a stage find no room on {', '.join(stage.nodes)}", "replicas"
                    )
            if not places:
                raise InputError(f"{r.id}: no stage takes any GPU", "replicas")
            if r.engine == "llama.cpp" and len(places) > 1:  # its last node runs the server
                last = list(places)[-1]
                places = {last: places.pop(last), **places}
            before_it = max(used[node] for node in places)  # further nodes listen, too
            gpus = tuple((n, tuple(g)) for n, g in places.items())
            found.append(Instance(r, number, gpus, first + before_it))
            used |= dict.fromkeys(places, before_it + 1)
    order = {r.id: i for i, r in enumerate(plan.replicas)}
    return sorted(found, key=lambda i: (order[i.replica.id], i.number))


def _port(r: Replica) -> int:
    """The port that a group's command names. Raises InputError."""
    argv = (r.launch.argv if r.launch else None) or []
    told = next((b for a, b in pairwise(argv) if a == "--port"), "8000")
    return port(told, r.id)


def port(told: str, of: str) -> int:
    """The port that is `told` of a server. Raises InputError where it is none."""
    if not (told.isascii() and told.isdigit() and len(told) <= 5):
        raise InputError(f"{of}: `{told[:20]}` is no port", "replicas.launch.argv")
    return int(told)


def _seated(plan: Plan) -> Iterator[Instance]:
    """Servers where the plan itself says which GPUs they have. Raises InputError for one of no group."""
    known = {r.id: r for r in plan.replicas}
    for seat in plan.seats:
        if seat.replica not in known or not seat.gpus:
            raise InputError(f"{seat.replica}: a seat of no group, or without GPUs", "seats")
        gpus = tuple((node, tuple(numbers)) for node, numbers in seat.gpus.items())
        yield Instance(known[seat.replica], seat.number, gpus, seat.port)


class _Rooms:
    """Nodes of a stage by the GPUs that they have left; the first of those with equal room comes first."""

    def __init__(self, nodes: Sequence[str], taken: Mapping[str, int], size: int) -> None:
        self.nodes, self.taken, self.size = nodes, taken, size
        self.number = {node: i for i, node in enumerate(nodes)}
        self.queues: list[list[int]] = [[] for _ in range(size + 1)]  # room -> nodes by number, as heaps
        for i, node in enumerate(nodes):
            self.queues[size - taken[node]].append(i)

    def taking(self, need: int) -> Iterator[str]:
        """Nodes that a stage may take: one that holds all of it, with no more room than others; else those
        with the most room, as long as they are asked for."""
        for room in range(min(need, self.size + 1), self.size + 1):
            if (first := self._first(room)) is not None:
                yield self.nodes[first]
                return
        for room in range(self.size, 0, -1):
            while (first := self._first(room)) is not None:
                yield self.nodes[first]  # it is fuller when the next is asked for

    def moved(self, node: str) -> None:
        """Some of a node's room was taken: it stands in another queue, too."""
        if node in self.number:
            heappush(self.queues[self.size - self.taken[node]], self.number[node])

    def _first(self, room: int) -> int | None:
        """The first node with just that room; others that still stand in its queue leave it."""
        queue = self.queues[room]
        while queue:
            if self.size - self.taken[self.nodes[queue[0]]] == room:
                return queue[0]
            heappop(queue)
        return None


def before(plan: Plan, node_class: str) -> int:
    """GPUs of other kinds that a node has before those of a class: the number of its first."""
    machine, _, device = node_class.partition("/")
    kinds = kinds_of(plan).get(machine, {})
    names = list(kinds)
    return sum(kinds[name] for name in names[: names.index(device)]) if device in kinds else 0

"""Which part of which server stands on each GPU of each node; nodes that look alike are told once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.errors import InputError
from planner.launch.instances import Instance, instances
from planner.launch.server import kinds_of, machine_of, node_sizes
from planner.plans.schema import Plan, Replica
from planner.reports.rented import nodes_of


@dataclass(frozen=True)
class Seat:
    """GPUs that one server of group `replica` has on one node, by the stage that each holds; `nodes` that the
    server stands on."""

    replica: str
    stages: tuple[int, ...]
    nodes: int


@dataclass(frozen=True)
class Alike:
    """Nodes with the same seats, and so many GPUs that nothing runs on."""

    names: tuple[str, ...]
    seats: tuple[Seat, ...]
    idle: int


def placed(plan: Plan) -> dict[str, list[Alike]]:
    """Nodes by the entry of the cluster, those that look alike together, the most numerous first."""
    seats = seats_by_node(plan)
    sizes, found = node_gpus(plan), dict[str, list[Alike]]()
    for entry, names in nodes_of(plan).items():
        looks: dict[tuple[tuple[Seat, ...], int], list[str]] = defaultdict(list)
        for name in names:
            own = tuple(sorted(seats.get(name, []), key=lambda s: (s.replica, s.stages)))
            idle = sizes[entry] - sum(len(s.stages) for s in own)
            looks[own, max(idle, 0)].append(name)
        alike = [Alike(tuple(names), own, idle) for (own, idle), names in looks.items()]
        found[entry] = sorted(alike, key=lambda a: (not a.seats, -len(a.names)))
    return found


def node_gpus(plan: Plan) -> dict[str, int]:
    """GPUs of one node by the entry of the cluster, all kinds together."""
    kinds = kinds_of(plan)
    boxes = {
        entry: sum(kinds[names[0]].values()) for entry, names in nodes_of(plan).items() if names[0] in kinds
    }
    return boxes | {name: n for name, n in node_sizes(plan).items() if "/" not in name}


def seats_by_node(plan: Plan) -> dict[str, list[Seat]]:
    """Seats by the name of the node. Where a plan does not say which GPUs a server has, its servers are dealt
    over the nodes it names."""
    try:
        made = instances(plan)
    except InputError:
        return _dealt(plan)
    found: dict[str, list[Seat]] = defaultdict(list)
    for instance in made:
        for node, stages in stages_on(instance).items():
            found[node].append(Seat(instance.replica.id, tuple(stages), len(instance.gpus)))
    return found


def stages_on(instance: Instance) -> dict[str, list[int]]:
    """The stage that each GPU of a server holds, by node: stages are dealt in order, each to nodes of its
    own."""
    order = list(instance.gpus)
    if instance.replica.engine == "llama.cpp":  # the node that answers holds the last stage
        order = order[1:] + order[:1]
    room, found = {node: len(gpus) for node, gpus in order}, dict[str, list[int]]()
    for at, stage in enumerate(instance.replica.stages):
        left, mine = stage.gpus, {machine_of(node) for node in stage.nodes}
        for node in room:
            here = min(left, room[node]) if node in mine else 0
            room[node] -= here
            left -= here
            found.setdefault(node, []).extend([at] * here)
    return {node: stages for node, stages in found.items() if stages}


def _dealt(plan: Plan) -> dict[str, list[Seat]]:
    found: dict[str, list[Seat]] = defaultdict(list)
    for r in plan.replicas:
        for number in range(r.count):
            for node, stages in _whole(r, number).items():
                found[node].append(Seat(r.id, tuple(stages), 1))
    return found


def _whole(r: Replica, number: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, stage in enumerate(r.stages):
        node = machine_of(stage.nodes[number % len(stage.nodes)])
        found.setdefault(node, []).extend([at] * stage.gpus)
    return found


def together(seats: Sequence[Seat], most: int) -> Iterator[tuple[Seat, int]]:
    """Each seat once for itself, where there are at most so many; else equal ones together, with their
    number."""
    if len(seats) <= most:
        yield from ((seat, 1) for seat in seats)
    else:
        yield from Counter(seats).items()

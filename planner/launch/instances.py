"""Every server of a plan by itself: on which GPUs of which nodes it stands, and at which port it listens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from planner.errors import InputError
from planner.launch.server import Server, kinds_of, machine_of, node_sizes
from planner.plans.schema import Plan, Replica


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


def instances(plan: Plan, ports: int = 0) -> list[Instance]:
    """All of a plan, largest first into the first of their nodes with room. `ports`: from which on servers of
    a node listen (0: from the engine's own on). Raises InputError where they find no room so."""
    sizes, taken = node_sizes(plan), defaultdict[str, int](int)
    used, found = defaultdict[str, int](int), list[Instance]()
    for r in sorted(plan.replicas, key=lambda r: -Server(plan, r).gpus):
        argv = (r.launch.argv if r.launch else None) or []
        first = ports or next((int(b) for a, b in pairwise(argv) if a == "--port"), 8000)
        for number in range(r.count):
            places: dict[str, list[int]] = {}
            for stage in r.stages:
                left, size = stage.gpus, sizes[stage.node_class]
                for node in _by_room(stage.nodes, taken, size, left, r):
                    here = min(left, size - taken[node])
                    first_gpu = before(plan, stage.node_class) + taken[node]
                    places.setdefault(machine_of(node), []).extend(range(first_gpu, first_gpu + here))
                    taken[node] += here
                    left -= here
                    if not left:
                        break
                if left:
                    raise InputError(
                        f"{r.id}: {left} GPUs of a stage find no room on {', '.join(stage.nodes)}"
                    )
            if r.engine == "llama.cpp" and len(places) > 1:  # its last node runs the server
                last = list(places)[-1]
                places = {last: places.pop(last), **places}
            head = next(iter(places))
            found.append(
                Instance(r, number, tuple((n, tuple(g)) for n, g in places.items()), first + used[head])
            )
            used[head] += 1
    return sorted(found, key=lambda i: ([r.id for r in plan.replicas].index(i.replica.id), i.number))


def _by_room(nodes: list[str], taken: dict[str, int], size: int, need: int, r: Replica) -> list[str]:
    """Nodes that a stage may take: one that holds all of it, with no more room than others; else whole free
    ones."""
    whole = max((n for n in nodes if size - taken[n] >= need), key=taken.__getitem__, default=None)
    if whole is not None:
        return [whole]
    return sorted((n for n in nodes if taken[n] < size), key=lambda n: taken[n])


def before(plan: Plan, node_class: str) -> int:
    """GPUs of other kinds that a node has before those of a class: the number of its first."""
    machine, _, device = node_class.partition("/")
    kinds = kinds_of(plan).get(machine, {})
    names = list(kinds)
    return sum(kinds[name] for name in names[: names.index(device)]) if device in kinds else 0

"""Which nodes each replica group stands on: largest replicas first, each in the fullest node that still has
room.

For sizes that divide one another this uses exactly the nodes the fleet MILP counted (first-fit decreasing is
optimal for divisible
sizes: `solvers/packing.py`). Replicas larger than a node take whole nodes in a row, inside one scale-up
domain where they need it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate


@dataclass(frozen=True)
class Placed:
    """For each candidate id the node indices of its stages, over all its replicas; and nodes in use of each
    class."""

    stages: Mapping[str, Sequence[Sequence[int]]]
    used: Mapping[str, int]


def place(
    classes: Sequence[NodeClass], counts: Mapping[str, int], candidates: Mapping[str, Candidate]
) -> Placed:
    """Nodes for `counts` replicas of each candidate."""
    held: dict[str, list[set[int]]] = {c: [set() for _ in range(candidates[c].design.pp)] for c in counts}
    used: dict[str, int] = {}
    for node in classes:
        free = _Free(node)
        parts = [part for c in counts for part in _parts(candidates[c]) if part.node_class == node.id]
        for part in sorted(parts, key=lambda part: -part.gpus):
            for _ in range(counts[part.id]):
                nodes = free.take(part.gpus, part.joined)
                _spread([held[part.id][i] for i in part.stages], nodes, part.gpus, node.gpus_per_node)
        used[node.id] = free.touched
    return Placed({c: [sorted(nodes) for nodes in stages] for c, stages in held.items()}, used)


@dataclass(frozen=True)
class _Part:
    """Stages of a replica that stand as one block."""

    id: str
    node_class: str
    gpus: int
    joined: bool
    stages: Sequence[int]


def _parts(c: Candidate) -> list[_Part]:
    """All stages as one, or each by itself where they stand on several classes."""
    if nodes := c.design.on_nodes:
        both = zip(c.blocks, nodes, strict=True)
        return [_Part(c.id, name, gpus, c.joined, own) for (name, gpus), own in both]
    if not c.design.stages or c.design.offloads:
        return [_Part(c.id, c.node_class, c.gpus, c.joined, range(c.design.pp))]
    return [_Part(c.id, name, gpus, c.joined, range(i, i + 1)) for i, (name, gpus) in enumerate(c.blocks)]


def _spread(held: Sequence[set[int]], nodes: Sequence[int], gpus: int, node_gpus: int) -> None:
    """Add one block's nodes to its stages, which fill them in order."""
    size = gpus // len(held)
    for i, stage in enumerate(held):
        first, last = i * size // node_gpus, ((i + 1) * size - 1) // node_gpus
        stage.update(nodes[first : last + 1])


class _Free:
    """Room left in the nodes of one class."""

    def __init__(self, node: NodeClass) -> None:
        self.node = node
        self.next = 0  # first node never touched
        self.open: dict[int, list[int]] = defaultdict(list)  # GPUs left -> nodes
        self.holes: list[int] = []  # whole nodes skipped at the end of a domain
        self.touched = 0

    def take(self, gpus: int, joined: bool) -> Sequence[int]:
        """Nodes of one more replica."""
        size = self.node.gpus_per_node
        if gpus > size:
            return self._whole(-(-gpus // size), joined)
        left = min((room for room, nodes in self.open.items() if room >= gpus and nodes), default=None)
        if left is None:
            left, at = size, self._whole(1, False)[0]
        else:
            at = self.open[left].pop()
        if left > gpus:
            self.open[left - gpus].append(at)
        return [at]

    def _whole(self, count: int, joined: bool) -> Sequence[int]:
        self.touched += count
        domain = max(1, self.node.scale_up_gpus // self.node.gpus_per_node)
        if joined and self.next % domain + count > domain:  # would cross into the next domain
            skip = domain - self.next % domain
            self.holes += range(self.next, self.next + skip)
            self.next += skip
        if not joined and len(self.holes) >= count:
            taken, self.holes = self.holes[:count], self.holes[count:]
            return taken
        self.next += count
        return range(self.next - count, self.next)

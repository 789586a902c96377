"""Which nodes each replica group stands on: largest replicas first, each in the fullest node that still has
room. Where nodes may be lost, each where the fewest of its own stand: one node then takes little of any with
it.

For sizes that divide one another this uses exactly the nodes the fleet MILP counted (first-fit decreasing is
optimal for divisible
sizes: `solvers/packing.py`). Replicas larger than a node take whole nodes in a row, inside one scale-up
domain where they need it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster_configs.schema import NodeClass
from planner.candidates.candidate import Candidate
from planner.plans.verified import Unsound
from solvers import packing


@dataclass(frozen=True)
class Placed:
    """For each candidate id the node indices of its stages, over all its replicas; nodes in use of each
    class; and for each node in use (class, index) how many replicas of each candidate have a part there."""

    stages: Mapping[str, Sequence[Sequence[int]]]
    used: Mapping[str, int]
    standing: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)


def place(
    classes: Sequence[NodeClass],
    counts: Mapping[str, int],
    candidates: Mapping[str, Candidate],
    apart: Mapping[str, int] | None = None,
    contents: Mapping[str, Sequence[Mapping[str, int]]] | None = None,
) -> Placed:
    """Nodes for `counts` replicas of each candidate. `apart`: over so many nodes of each class, where they go
    in one by one so; `contents`: candidates that share nodes, node by node, where that is known."""
    held: dict[str, list[set[int]]] = {c: [set() for _ in range(candidates[c].design.pp)] for c in counts}
    used: dict[str, int] = {}
    here: dict[tuple[str, int], Mapping[str, int]] = {}
    standing: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for node in classes:
        parts = [part for c in counts for part in _parts(candidates[c]) if part.node_class == node.id]
        free = _Free(node)
        if contents:
            free = _Given(node, contents.get(node.id, ()))
        elif apart is not None:
            free = _Apart(node, apart.get(node.id, 0))
        free.plan([(part, counts[part.id]) for part in parts])
        alone = parts[0] if len(parts) == 1 and type(free) is _Free else None
        if alone and free.node.gpus_per_node % alone.gpus == 0 and not alone.joined:
            each, count = free.node.gpus_per_node // alone.gpus, counts[alone.id]
            free.touched = -(-count // each)
            if free.touched > node.node_count:
                what = f"{alone.id} finds no room on the nodes of {node.id} as they are filled"
                raise Unsound(what, where="replicas")
            full, last = {alone.id: each}, {alone.id: count - (free.touched - 1) * each}
            here |= {(node.id, k): full if k < free.touched - 1 else last for k in range(free.touched)}
            for i in alone.stages:
                held[alone.id][i].update(range(free.touched))
            parts = []
        for part in sorted(parts, key=lambda part: -part.gpus):
            for replica in range(counts[part.id]):
                try:
                    nodes = free.take(part)
                except LookupError:  # odd sizes leave holes, and several blocks may share a node
                    return place(classes, counts, candidates, apart if contents else None)
                if max(nodes) >= node.node_count:
                    what = f"{part.id} finds no room on the nodes of {node.id} as they are filled"
                    raise Unsound(what, where="replicas")
                for k in nodes:
                    standing[node.id, k][part.id].add(replica)
                _spread([held[part.id][i] for i in part.stages], nodes, part.gpus, node.gpus_per_node)
        used[node.id] = free.touched
    stages = {c: [sorted(nodes) for nodes in stages] for c, stages in held.items()}
    here |= {at: {c: len(replicas) for c, replicas in own.items()} for at, own in standing.items()}
    return Placed(stages, used, here)


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
        self.starts: dict[int, list[int]] = {}  # nodes of a block that needs one domain -> where they begin

    def plan(self, parts: Sequence[tuple[_Part, int]]) -> None:
        """Where blocks of several sizes begin that each need one domain, where their sizes leave holes one
        after the other."""
        size, domain = self.node.gpus_per_node, self.domain
        blocks: Counter[int] = Counter()
        for part, count in parts:
            if part.joined and part.gpus > size:
                blocks[-(-part.gpus // size)] += count
        if packing.divisible(sorted(blocks)) and all(domain % b == 0 for b in blocks):
            return
        for filling in packing.fillings(blocks, domain):
            for block, many in filling.items():
                for _ in range(many):
                    self.starts.setdefault(block, []).append(self.next)
                    self.next += block
            rest = -self.next % domain
            self.holes += range(self.next, self.next + rest)
            self.next += rest
        self.holes = [k for k in self.holes if k < self.node.node_count]

    @property
    def domain(self) -> int:
        """Nodes that one scale-up domain joins."""
        return self.node.domain_nodes

    def take(self, part: _Part) -> Sequence[int]:
        """Nodes of one more replica."""
        size, gpus = self.node.gpus_per_node, part.gpus
        if gpus > size:
            return self._whole(-(-gpus // size), part.joined)
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
        if joined and (starts := self.starts.get(count)):
            start = starts.pop(0)
            return range(start, start + count)
        domain = self.domain
        if joined and self.next % domain + count > domain:  # would cross into the next domain
            skip = domain - self.next % domain
            self.holes += range(self.next, self.next + skip)
            self.next += skip
        if not joined and len(self.holes) >= count:
            taken, self.holes = self.holes[:count], self.holes[count:]
            return taken
        self.next += count
        return range(self.next - count, self.next)


_Held = tuple[tuple[str, int], ...]
"""What stands on a node: parts and how many of each, in order."""


class _Apart(_Free):
    """Room left on `count` nodes of a class, where parts stand as far apart as they can. Those that are alike
    are one entry, so that a million nodes take no longer than a few."""

    def __init__(self, node: NodeClass, count: int) -> None:
        super().__init__(node)
        self.count = count
        self.alike: dict[tuple[int, _Held], list[int]] = {}  # (GPUs left, held) -> nodes
        self.begun = False

    def take(self, part: _Part) -> Sequence[int]:
        """Nodes of one more replica; the largest come first. Raises LookupError where it finds no room."""
        size = self.node.gpus_per_node
        if part.gpus > size:
            return super().take(part)
        if not self.begun:
            self.alike[size, ()] = [*self.holes, *range(self.next, self.count)][::-1]
            self.begun = True
        roomy = [key for key, nodes in self.alike.items() if nodes and key[0] >= part.gpus]
        if not roomy:
            raise LookupError(part.id)
        room, held = min(roomy, key=lambda key: (dict(key[1]).get(part.id, 0), -key[0]))
        at = self.alike[room, held].pop()
        more = Counter(dict(held)) + Counter([part.id])
        self.alike.setdefault((room - part.gpus, tuple(sorted(more.items()))), []).append(at)
        self.touched += not held
        return [at]


class _Given(_Free):
    """Nodes that are told what to hold of each candidate; those of larger replicas are whole nodes."""

    def __init__(self, node: NodeClass, contents: Sequence[Mapping[str, int]]) -> None:
        super().__init__(node)
        self.contents = [dict(own) for own in contents]
        self.at: dict[int, int] = {}  # content -> node

    def take(self, part: _Part) -> Sequence[int]:
        """Nodes of one more replica; the largest come first. Raises LookupError where none is to have it."""
        if part.gpus > self.node.gpus_per_node:
            return super().take(part)
        i = next((i for i, own in enumerate(self.contents) if own.get(part.id)), None)
        if i is None:
            raise LookupError(part.id)
        self.contents[i][part.id] -= 1
        if i not in self.at:
            self.at[i] = self._whole(1, False)[0]
        return [self.at[i]]

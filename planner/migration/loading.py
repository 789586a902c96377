"""Where the bytes that GPUs lack come from, and how long the busiest port needs for them.

    lack[g]    = what GPU g is to hold and does not                          near = of it, held in its domain
    need[d]    = union of lack[g] over the GPUs of domain d, without what d holds
    far[d]     = of need[d], held by nodes that the NICs reach: of the same zone, without a link of their own
    link[d]    = of the rest, held behind a declared link that is faster than d's disks
    storage[d] = what is left: the checkpoint is on the disks of every node

    seconds >= near[g] / scale-up rate,   far[d] / NICs of d,   storage[d] / disks of d,
               union of link[d] / link,   (of all far, what only domain d holds) / NICs of d

Whoever loads each byte from the nearest place needs no less: what several GPUs of a domain lack comes in
once, over all of its NICs or disks, and what is sent may be passed on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import ClusterLink, NodeClass, declared_link
from planner.cost.loading import read_bytes_per_s
from planner.migration.matching import Placed
from planner.migration.schema import Port, Row, Sources
from planner.migration.servers import Domain, Key, Machines
from planner.migration.weights import Pieces, Share

Bits = NDArray[np.bool_]
"""Pieces that are in a set, (pieces,)."""


class Stock:
    """Holdings as sets of pieces."""

    def __init__(self, shares: Mapping[Key, Sequence[Share]]) -> None:
        pieces = Pieces(list(shares.values()))
        self.bytes = np.array(pieces.bytes)
        held = np.zeros((len(shares), len(pieces.bytes)), dtype=bool)
        for piece, holders in enumerate(pieces.holders):
            held[list(holders), piece] = True
        self.sets: dict[Key, Bits] = dict(zip(shares, held, strict=True))
        self.empty: Bits = np.zeros(len(pieces.bytes), dtype=bool)

    def of(self, key: Key | None) -> Bits:
        return self.empty if key is None else self.sets[key]

    def size(self, pieces: Bits) -> float:
        return float(self.bytes[pieces].sum())

    def missing(self, old: Key | None, new: Key) -> float:
        """Bytes of `new` that `old` has not."""
        return self.size(self.of(new) & ~self.of(old))

    def union(self, sets: Sequence[Bits]) -> Bits:
        return np.logical_or.reduce(sets) if len(sets) else self.empty


@dataclass(frozen=True)
class Need:
    """What a domain needs from outside, by source, and what its GPUs have from each other."""

    domain: Domain
    gpus: int
    lacked: float
    nearest: float
    far: Bits
    link: dict[ClusterLink, Bits]
    storage: Bits


class Loading:
    """All that is loaded: `held` by the GPUs of each domain before, `placed` after."""

    def __init__(
        self, stock: Stock, machines: Machines, held: Mapping[Domain, Bits], placed: Sequence[Placed]
    ) -> None:
        self.stock, self.machines, self.held = stock, machines, held
        by_domain = defaultdict[Domain, list[Placed]](list)
        for p in placed:
            if p.old != p.new:
                by_domain[machines.domain((p.gpu[0], p.node_class))].append(p)
        self.by_class: dict[str, list[Bits]] = defaultdict(list)
        for domain, bits in held.items():
            self.by_class[domain.node_class.id].append(bits)
        self.reach: dict[str, tuple[Bits, dict[ClusterLink, Bits]]] = {}
        self.needs = [n for d, own in by_domain.items() if (n := self._need(d, own)).gpus]

    def _need(self, domain: Domain, placed: Sequence[Placed]) -> Need:
        stock, held = self.stock, self.held.get(domain, self.stock.empty)
        lacks = [stock.of(p.new) & ~stock.of(p.old) for p in placed]
        lacks = [lack for lack in lacks if lack.any()]
        left = stock.union(lacks) & ~held
        near, linked = self._reached(domain.node_class)
        far, left = left & near, left & ~near
        link = dict[ClusterLink, Bits]()
        for one, bits in linked.items():
            link[one], left = left & bits, left & ~bits
        lacked = sum(stock.size(lack) for lack in lacks)
        most = max((stock.size(lack & held) for lack in lacks), default=0.0)
        return Need(domain, len(lacks), lacked, most, far, link, left)

    def _reached(self, node: NodeClass) -> tuple[Bits, dict[ClusterLink, Bits]]:
        """What GPUs hold that a class reaches over its NICs, and over each link that is worth it."""
        if node.id not in self.reach:
            near, linked = list[Bits](), defaultdict[ClusterLink, list[Bits]](list)
            for other in self.machines.cluster.classes:
                link = declared_link(self.machines.cluster.links, node, other)
                if link is None and other.zone == node.zone:
                    near += self.by_class.get(other.id, [])
                elif link is not None and link.bytes_per_s > read_bytes_per_s(node):
                    linked[link] += self.by_class.get(other.id, [])
            union = self.stock.union
            self.reach[node.id] = union(near), {link: union(sets) for link, sets in linked.items()}
        return self.reach[node.id]

    @property
    def rows(self) -> list[Row]:
        """What each domain takes, most first."""
        size = self.stock.size
        found = []
        for n in self.needs:
            outside = (size(n.far), sum(map(size, n.link.values())), size(n.storage))
            taken = Sources(max(n.lacked - sum(outside), 0.0), *outside)
            found.append(Row(tuple(n.domain.nodes), n.gpus, taken))
        return sorted(found, key=lambda row: -row.taken.total)

    @property
    def slowest(self) -> Port:
        """The port that needs most seconds."""
        return max(self._ports(), key=lambda port: port.seconds, default=Port("nothing"))

    def _ports(self) -> Iterator[Port]:
        size, linked = self.stock.size, defaultdict[tuple[ClusterLink, str], list[Bits]](list)
        for n in self.needs:
            node, nodes = n.domain.node_class, named(n.domain.nodes)
            yield Port(f"{node.device.intra_link} into a GPU of {nodes}", n.nearest / node.intra_bytes_per_s)
            yield Port(f"the NICs into {nodes}", size(n.far) / n.domain.nic_bytes_per_s)
            disks = len(n.domain.nodes) * read_bytes_per_s(node)
            yield Port(f"the storage of {nodes}", size(n.storage) / disks)
            for link, bits in n.link.items():
                linked[link, node.id].append(bits)
        for (link, _), sets in linked.items():
            a, b = link.between
            yield Port(f"the link between {a} and {b}", size(self.stock.union(sets)) / link.bytes_per_s)
        yield from self._out()

    def _out(self) -> Iterator[Port]:
        """NICs of domains that alone hold what others take over theirs."""
        far = self.stock.union([n.far for n in self.needs])
        if not far.any():
            return
        holders = np.sum([*self.held.values()], axis=0)
        for domain, bits in self.held.items():
            alone = self.stock.size(far & bits & (holders == 1))
            yield Port(f"the NICs out of {named(domain.nodes)}", alone / domain.nic_bytes_per_s)


def reloaded(
    stock: Stock, machines: Machines, placed: Sequence[Placed], starts: Callable[[int], bool]
) -> Port:
    """The node that reads longest where servers that start read all of their weights from its storage, each
    byte once."""
    sets = defaultdict[tuple[str, str], list[Bits]](list)
    for p in placed:
        if starts(p.server):
            sets[p.gpu[0], p.node_class].append(stock.of(p.new))
    ports = (
        Port(
            f"the storage of {at[0]}",
            stock.size(stock.union(own)) / read_bytes_per_s(machines.classes[at[1]]),
        )
        for at, own in sets.items()
    )
    return max(ports, key=lambda port: port.seconds, default=Port("nothing"))


def named(nodes: Sequence[str]) -> str:
    """Nodes in a word or two.

    >>> named(["h-0"]), named(["g-0", "g-1", "g-2"])
    ('h-0', 'g-0 to g-2')
    """
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} to {nodes[-1]}"

"""Placement: the data that its files share; plain numbers, no solver.

A *group* is the nodes of one kind in one region; regions are joined by slow links only. Flows are in the unit
of the capacities (tokens/s); links and capacities may be infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import connected_components

from solvers.linear import Floats

Group = tuple[int, str]
"""A region, and a kind of node in it."""

Interval = tuple[int, int]
REGIONS = 12
"""Parts of a cluster that a search tells apart."""


@dataclass(frozen=True)
class Network:
    """Nodes and links on which `layers` layers are placed.

    `capacity[kind][k - 1]` tokens/s of a node that holds k layers; `kinds[i]` the kind of node i;
    `link` (nodes, nodes), `source` and `sink` (nodes,) tokens/s.
    """

    layers: int
    capacity: Mapping[str, Sequence[float]]
    kinds: Sequence[str]
    link: Floats
    source: Floats
    sink: Floats

    @cached_property
    def most(self) -> float:
        """Tokens/s that no placement exceeds: the work of all nodes, each clipped at the flow itself."""
        low, high = 0.0, sum(max(self.capacity[kind][: self.layers], default=0.0) for kind in self.kinds)
        tables = [np.array(self.capacity[kind][: self.layers]) for kind in self.kinds]
        for _ in range(100):
            flow = (low + high) / 2
            work = sum(
                float((np.minimum(t, flow) * np.arange(1, len(t) + 1)).max(initial=0.0)) for t in tables
            )
            low, high = (flow, high) if work >= flow * self.layers * (1 - 1e-12) else (low, flow)
        return min(high, float(self.source.sum()), float(self.sink.sum()))

    @cached_property
    def regions(self) -> tuple[int, ...]:
        """Region of each node: nodes joined, both ways, by links that could carry all there is.

        Where that leaves too many regions, links half as wide will do, and so on: what flows is measured on
        the links themselves.
        """
        need, wide = self.most, np.minimum(self.link, self.link.T)
        while True:
            count, region = connected_components((wide >= need).astype(np.int8), directed=False)
            if count <= REGIONS or need < wide.max() * 1e-9 or not (wide > 0).any():
                break
            need = need / 2
        order = {r: at for at, r in enumerate(dict.fromkeys(region))}
        return tuple(order[r] for r in region)

    @cached_property
    def groups(self) -> dict[Group, list[int]]:
        """(region, kind) → its nodes."""
        found: dict[Group, list[int]] = {}
        for i, key in enumerate(zip(self.regions, self.kinds, strict=True)):
            found.setdefault(key, []).append(i)
        return found


def part(network: Network, nodes: Sequence[int]) -> Network:
    """The network of these nodes only."""
    link = network.link[np.ix_(nodes, nodes)]
    kinds = [network.kinds[i] for i in nodes]
    return replace(network, kinds=kinds, link=link, source=network.source[nodes], sink=network.sink[nodes])


def without_links(network: Network) -> Network:
    """The same nodes in one region."""
    n = len(network.kinds)
    return replace(network, link=np.full((n, n), np.inf), source=np.full(n, np.inf), sink=np.full(n, np.inf))

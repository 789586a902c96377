"""Blocks: stages that carry a flow through some layers, in one region, every node of them needed.

With `worth`, the dual price of a node in layers (`placement_patterns`), a block is no better than break-even:
its nodes are worth at least its length. What a placement of all layers can lose to blocks above that is the
slack of the pattern bound, so blocks that lose more are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.placement.types import Network

ROUND = 1e-12
"""Part of a flow that may be missing: rounding."""


@dataclass(frozen=True)
class Block:
    """`length` layers on `nodes` (kind, count) of a region; `capacities` of these, largest first; their
    `cost` is what they are worth in layers."""

    region: int
    length: int
    nodes: tuple[tuple[str, int], ...]
    capacities: tuple[float, ...]
    cost: float

    @cached_property
    def reach(self) -> float:
        """What all its nodes carry together."""
        return sum(self.capacities)


def minimal(
    network: Network, region: int, flow: float, worth: Mapping[str, float], slack: float
) -> Iterator[Block]:
    """All minimal blocks of a region, whose nodes are `network`, that lose at most `slack` layers."""
    for k in range(1, network.layers + 1):
        able = [
            (worth[kind], kind, network.capacity[kind][k - 1], network.kinds.count(kind))
            for kind in dict.fromkeys(network.kinds)
            if k <= len(network.capacity[kind]) and network.capacity[kind][k - 1] > 0
        ]
        able.sort(key=lambda a: -a[2])
        for counts in _counts(able, flow, k + slack + 1e-7):
            nodes = tuple((a[1], n) for a, n in zip(able, counts, strict=True) if n)
            held = [network.capacity[kind][k - 1] for kind, n in nodes for _ in range(n)]
            yield Block(region, k, nodes, tuple(held), sum(worth[kind] * n for kind, n in nodes))


def _counts(able: list[tuple[float, str, float, int]], flow: float, budget: float) -> Iterator[list[int]]:
    """Counts of `able` (worth, kind, capacity, nodes), capacities falling, that just reach `flow`."""
    rate = min((a[0] / a[2] for a in able), default=0.0)

    def extend(at: int, left: float, budget: float, counts: list[int]) -> Iterator[list[int]]:
        if left <= flow * ROUND:
            yield counts + [0] * (len(able) - at)
            return
        if at == len(able) or budget < rate * left:
            return
        worth, _, capacity, nodes = able[at]
        for n in range(min(nodes, int(np.ceil(left / capacity - 1e-9))), -1, -1):
            if n * worth <= budget:
                yield from extend(at + 1, left - n * capacity, budget - n * worth, [*counts, n])

    return extend(0, flow, budget, [])

"""Blocks: stretches of layers that carry a flow by themselves; what a placement is built of.

A *lane* is one region's share of a stretch: `length` layers cut into equal steps, each step held by the same
multiset of nodes. A *block* is one lane whose nodes carry all the flow (a stage), or two lanes side by side
(one long node beside several short ones: unequal intervals), in one region or across two.

With `worth`, the dual price of a node in layers (placement_patterns), a block is no better than break-even:
its nodes are worth at least its length. What a placement of all L layers can lose to blocks above that is the
slack of the pattern bound, so blocks that lose more are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.placement.types import Group, Network

ROUND = 1 - 1e-12


@dataclass(frozen=True)
class Lane:
    """`steps` times `step` layers in `region`; each step is on `nodes` (kind, count), which carry `reach`."""

    region: int
    step: int
    steps: int
    nodes: tuple[tuple[str, int], ...]
    capacities: tuple[float, ...]
    cost: float

    @cached_property
    def reach(self) -> float:
        return sum(self.capacities)

    @property
    def length(self) -> int:
        return self.step * self.steps


@dataclass(frozen=True)
class Block:
    """Lanes of the same length, side by side."""

    lanes: tuple[Lane, ...]

    @property
    def length(self) -> int:
        return self.lanes[0].length

    @property
    def cost(self) -> float:
        return sum(lane.cost for lane in self.lanes)

    @property
    def region(self) -> int:
        return self.lanes[0].region

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Capacities of the nodes that its first layer (and its last) is on, largest first."""
        return tuple(sorted((c for lane in self.lanes for c in lane.capacities), reverse=True))

    @cached_property
    def uses(self) -> Mapping[Group, int]:
        taken = Counter[Group]()
        for lane in self.lanes:
            for kind, count in lane.nodes:
                taken[lane.region, kind] += count * lane.steps
        return taken


@dataclass(frozen=True)
class Prices:
    """What a node of each kind is worth at this flow, in layers; blocks may lose `slack` of them."""

    flow: float
    worth: Mapping[str, float]
    slack: float


def stages(network: Network, prices: Prices) -> list[Block]:
    """All minimal stages within the slack: one region, one step, every node needed."""
    found = []
    for region in sorted(set(network.regions)):
        kinds = [(kind, len(n)) for (r, kind), n in network.groups.items() if r == region]
        for k in range(1, network.layers + 1):
            able = [
                (prices.worth[kind], kind, network.capacity[kind][k - 1], count)
                for kind, count in kinds
                if k <= len(network.capacity[kind]) and network.capacity[kind][k - 1] > 0
            ]
            able.sort(key=lambda a: -a[2])
            for counts in _minimal(able, prices.flow, k + prices.slack + 1e-7):
                nodes = tuple((a[1], n) for a, n in zip(able, counts, strict=True) if n)
                found.append(Block((lane_of(network, region, k, 1, nodes, prices.worth),)))
    return found


def _minimal(able: list[tuple[float, str, float, int]], flow: float, budget: float) -> Iterator[list[int]]:
    """Counts of `able` (worth, kind, capacity, nodes), capacities falling, that just reach `flow`."""
    rate = min((a[0] / a[2] for a in able), default=0.0)

    def extend(at: int, left: float, budget: float, counts: list[int]) -> Iterator[list[int]]:
        if left <= flow * (1 - ROUND):
            yield counts + [0] * (len(able) - at)
            return
        if at == len(able) or budget < rate * left:
            return
        worth, _, capacity, nodes = able[at]
        for n in range(min(nodes, int(np.ceil(left / capacity - 1e-9))), -1, -1):
            if n * worth <= budget:
                yield from extend(at + 1, left - n * capacity, budget - n * worth, [*counts, n])

    return extend(0, flow, budget, [])


def lane_of(
    network: Network,
    region: int,
    step: int,
    steps: int,
    nodes: tuple[tuple[str, int], ...],
    worth: Mapping[str, float],
) -> Lane:
    capacities = [network.capacity[kind][step - 1] for kind, n in nodes for _ in range(n)]
    cost = steps * sum(worth[kind] * n for kind, n in nodes)
    return Lane(region, step, steps, nodes, tuple(sorted(capacities, reverse=True)), cost)

"""Routing: what flows through a placement, and which of the like nodes stands where.

A token leaves node i after its last layer and goes to a node j that holds the next one (first[j] <= end[i] <
end[j]); the flow of a placement is the maximum flow from source to sink through nodes and links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from solvers.linear import Floats
from solvers.placement_blocks import Block, Group
from solvers.placement_shares import SINK, SOURCE, Route
from solvers.placement_types import Interval, Network

Slot = tuple[Group, Interval]
UNITS = 1e9
"""Flows are solved in whole numbers: this many make up the largest possible flow."""
SWAPS = 4000
"""Placements tried when like nodes change places."""


def slots(network: Network, blocks: Sequence[Block]) -> list[Slot]:
    """Layers of each node that the blocks ask for; what stands over the last layer is moved back."""
    found: list[Slot] = []
    first = 0
    for block in blocks:
        start = min(first, network.layers - block.length)
        for lane in block.lanes:
            for step in range(lane.steps):
                at = start + step * lane.step
                found += [
                    ((lane.region, kind), (at, at + lane.step)) for kind, n in lane.nodes for _ in range(n)
                ]
        first += block.length
    return found


def seated(network: Network, found: Sequence[Slot]) -> dict[int, Interval]:
    """A node for each slot, in order."""
    free = {group: list(reversed(members)) for group, members in network.groups.items()}
    return {free[group].pop(): interval for group, interval in found}


def flow(network: Network, intervals: Mapping[int, Interval], link: Floats | None = None) -> float:
    """The maximum flow, to a billionth of the largest possible."""
    if not intervals or network.most <= 0:
        return 0.0
    whole, unit = _graph(network, intervals, network.link if link is None else link)
    n = len(intervals)
    return float(maximum_flow(whole, 2 * n, 2 * n + 1).flow_value) * unit


def shares(network: Network, intervals: Mapping[int, Interval]) -> dict[Route, float]:
    """Of a maximum flow, the part on each link (SOURCE before the first layer, SINK after the last)."""
    if not intervals or network.most <= 0:
        return {}
    n, nodes = len(intervals), [*sorted(intervals)]
    found = maximum_flow(_graph(network, intervals, network.link)[0], 2 * n, 2 * n + 1)
    sent = found.flow.tocoo()
    parts = {}
    for a, b, units in zip(sent.row.tolist(), sent.col.tolist(), sent.data.tolist(), strict=True):
        if units > 0 and (a >= n) and (b < n or b == 2 * n + 1):
            tail, head = (SOURCE if a == 2 * n else nodes[a - n]), (SINK if b > n else nodes[b])
            parts[tail, head] = units / found.flow_value
    return parts


def _graph(network: Network, intervals: Mapping[int, Interval], link: Floats) -> tuple[csr_array, float]:
    """Capacities in whole units, and the unit: nodes' ins and outs in order, then source and sink."""
    nodes = sorted(intervals)
    n = len(nodes)
    first = np.array([intervals[i][0] for i in nodes])
    end = np.array([intervals[i][1] for i in nodes])
    capacity = np.zeros((2 * n + 2, 2 * n + 2))
    held = [network.capacity[network.kinds[i]][e - s - 1] for i, s, e in zip(nodes, first, end, strict=True)]
    capacity[np.arange(n), n + np.arange(n)] = held
    follows = (first[None, :] <= end[:, None]) & (end[:, None] < end[None, :])
    np.fill_diagonal(follows, False)
    capacity[n : 2 * n, :n] = np.where(follows, link[np.ix_(nodes, nodes)], 0.0)
    capacity[2 * n, :n] = np.where(first == 0, network.source[nodes], 0.0)
    capacity[n : 2 * n, 2 * n + 1] = np.where(end == network.layers, network.sink[nodes], 0.0)
    unit = network.most / UNITS
    return csr_array(np.floor(np.minimum(capacity / unit, UNITS) + 1e-6).astype(np.int32)), unit


def settled(
    network: Network, intervals: dict[int, Interval], target: float
) -> tuple[dict[int, Interval], float]:
    """Swap like nodes while that carries more, until `target` is reached; the placement and its flow."""
    best = flow(network, intervals)
    if best >= target or len(set(network.regions)) == 1:
        return intervals, best
    score = _score(network)
    reached, tried = score(intervals), 0
    improved = True
    while improved and best < target and tried < SWAPS:
        improved = False
        for members in network.groups.values():
            for at, i in enumerate(members):
                for j in members[at + 1 :]:
                    if intervals.get(i) == intervals.get(j) or tried >= SWAPS:
                        continue
                    tried += 1
                    swapped = _swapped(intervals, i, j)
                    now = score(swapped)
                    if now > reached * (1 + 1e-9):
                        intervals, reached, improved = swapped, now, True
        best = flow(network, intervals)
    return intervals, best


def _score(network: Network) -> Callable[[Mapping[int, Interval]], float]:
    """The flow, plus what each pair of regions alone would leave of it: no bottleneck hides another."""
    region = np.array(network.regions)
    alone = []
    for a in sorted(set(network.regions)):
        for b in sorted(set(network.regions)):
            if a != b:
                kept = (region[:, None] == a) & (region[None, :] == b) | (region[:, None] == region[None, :])
                alone.append(np.where(kept, network.link, np.inf))
    return lambda intervals: flow(network, intervals) + sum(flow(network, intervals, link) for link in alone)


def _swapped(intervals: Mapping[int, Interval], i: int, j: int) -> dict[int, Interval]:
    swapped = dict(intervals)
    for here, there in ((i, j), (j, i)):
        if there in intervals:
            swapped[here] = intervals[there]
        else:
            swapped.pop(here, None)
    return swapped

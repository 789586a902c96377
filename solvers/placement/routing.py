"""Routing: what flows through a placement, and the shares of links as whole ways (chains).

A token leaves node i after its last layer and goes to a node j that holds the next one (first[j] <= end[i] <
end[j]); the flow of a placement is the maximum flow from source to sink through nodes and links.

Each chain takes the way whose narrowest link has the largest share left, and takes all of that share, so one
link at least is used up by each: chains reproduce the shares exactly, and the first few carry most requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from solvers.linear import Floats
from solvers.placement.shares import SINK, SOURCE, Route
from solvers.placement.types import Group, Interval, Network

Slot = tuple[Group, Interval]
UNITS = 1e9
"""Flows are solved in whole numbers: this many make up the largest possible flow."""


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
    """The part of a maximum flow on each link (SOURCE before the first layer, SINK after the last)."""
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


LEAST = 1e-9
"""Share of the requests below which a chain is left out."""


@dataclass(frozen=True)
class Chain:
    """Nodes in order with the layers [first, end) that each runs, and the share of the requests."""

    hops: tuple[tuple[int, Interval], ...]
    share: float


def decomposed(intervals: Mapping[int, Interval], shares: Mapping[Route, float]) -> tuple[Chain, ...]:
    """Chains whose shares add up to those of the links.

    >>> even = {(-1, 0): 0.5, (-1, 1): 0.5, (0, -2): 0.5, (1, -2): 0.5}
    >>> [(c.hops, c.share) for c in decomposed({0: (0, 2), 1: (0, 2)}, even)]
    [(((0, (0, 2)),), 0.5), (((1, (0, 2)),), 0.5)]
    """
    left = dict(shares)
    found = []
    while (way := _widest(intervals, left)) and (share := min(left[e] for e in way)) > LEAST:
        for e in way:
            left[e] -= share
        hops, at = [], 0
        for _, node in way[:-1]:
            end = intervals[node][1]
            hops.append((node, (at, end)))
            at = end
        found.append(Chain(tuple(hops), share))
    return tuple(found)


def _widest(intervals: Mapping[int, Interval], left: Mapping[Route, float]) -> list[Route]:
    """The way from source to sink whose smallest share left is largest; empty where there is none."""
    reach, came = {SOURCE: float("inf")}, dict[int, int]()
    for a, b in sorted(left, key=lambda e: intervals[e[0]][1] if e[0] != SOURCE else 0):
        width = min(reach.get(a, 0.0), left[a, b])
        if width > reach.get(b, 0.0):
            reach[b], came[b] = width, a
    if SINK not in came:
        return []
    way, node = list[Route](), SINK
    while node != SOURCE:
        way.append((came[node], node))
        node = came[node]
    return way[::-1]

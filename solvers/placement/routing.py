"""Routing: what flows through a placement.

A token leaves node i after its last layer and goes to a node j that holds the next one (first[j] <= end[i] <
end[j]); the flow of a placement is the maximum flow from source to sink through nodes and links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

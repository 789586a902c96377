"""The least flow that layer patterns refute (`placement_patterns`): a bound on every placement."""

from __future__ import annotations

import math

from benchmarks.formulations.placement_patterns import REFUTED, Pool, verdict
from solvers.placement.types import Network, without_links

NEARLY = 0.97
"""Of the work of all nodes: a flow that tells how long patterns are."""


GRID = 1000
"""Parts of the flow that are told apart where many nodes are on a layer."""


FAINT = 1e-6
"""Of the largest possible flow: below that, bounds are not told apart."""


def refuted(network: Network, flow: float, pool: Pool | None = None) -> bool:
    """Whether `flow` is proven to be out of reach."""
    patterns = Pool() if pool is None else pool
    return verdict(network, flow, patterns, enough=network.layers).layers < network.layers - REFUTED


def bound(network: Network, value: float, precision: float = 1e-4, pool: Pool | None = None) -> float:
    """The least flow above `value` that is refuted, to `precision`; `value` itself where it is optimal."""
    pool = set() if pool is None else pool
    low, high = value, network.most
    just_above = value * (1 + 5e-7)
    if value == 0 and refuted(without_links(network), min(high, _smallest(network))):
        return 0.0  # not enough nodes to hold all layers
    if high <= just_above or (value > 0 and refuted(network, just_above, pool)):
        return min(high, just_above)
    step = precision
    while high > max(low * (1 + precision), network.most * FAINT):
        near = network.most * (1 - step)  # from above first: refuted flows are quick to refute
        flow = near if value < near and step < 0.5 and low == value else (low + high) / 2
        step *= 3
        layers = verdict(network, flow, pool, enough=network.layers).layers
        low, high = (low, flow) if layers < network.layers - REFUTED else (flow, high)
    return high


def crowded(network: Network) -> bool:
    """Whether a layer may be on so many nodes that patterns are slow to price."""
    return verdict(without_links(network), NEARLY * network.most, set()).layers == math.inf


def _smallest(network: Network) -> float:
    """The least capacity of any node: flows below it are all alike where links do not count."""
    return min(c for kind in network.kinds for c in network.capacity[kind][: network.layers] if c > 0)

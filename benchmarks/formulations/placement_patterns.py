"""Layer patterns: how many layers can be carried at a flow, wherever they stand; the proof of a placement.

Sets       t in T   kinds of node           k   layers of a node         p in P   patterns: multisets of (t,k)
                                                                         whose capacities reach the flow
Data       nodes[t]      count[p,t,k]  nodes in p     layers L
           width[p]      0 of one node, 1/2 of two, 1 of more
           crossings     1 where regions are joined by links too narrow for the flow, no region holds all
                         layers, else 0
Choose     y[p]   real >= 0   layers whose covering nodes are p
           x[t,k] real >= 0   nodes of t that hold k layers
maximise   sum(p) y[p]
use[t,k]   sum(p) count[p,t,k] * y[p]  <= k * x[t,k]
stock[t]   sum(k) x[t,k]               <= nodes[t]
cross      sum(p) width[p] * y[p]      >= crossings

A flow needs on every layer nodes whose capacities reach it, so a flow at which this cannot reach L layers is
refuted. `cross`: were all layers on one node each, all flow would pass a single link between regions; a link
carries at most `u`, so some layer has two nodes, and where the flow exceeds 2u some layer has three or two
layers have two (width[p] is 1 for two nodes where 2u is enough). Positions are dropped: a relaxation.

Patterns are priced exactly, as Pareto frontiers of (capacity, dual cost) by number of nodes; the bound is
Lagrangian, hence true at any duals:
    layers <= (sum(t) nodes[t] * worth[t] - crossings * v) / cheapest pattern,
worth[t] = max(k) k * dual[t,k], v the dual of `cross`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from solvers.linear import Expr, Floats, Limits, Linear, Term, total
from solvers.placement.patterns import cheapest
from solvers.placement.types import Network

Pattern = tuple[int, ...]
Pool = set[tuple[tuple[str, float], ...]]
"""Patterns by (kind, layers), which hold at any flow."""
CLOSE = 1e-9
REFUTED = 1e-7
"""Layers by which a bound must miss L: far above the rounding of the sums it is made of."""

SUMS, MORE = 5_000_000, 20
"""Sums that a verdict may form, and how many times more on a grid; after that nothing is refuted."""


@dataclass(frozen=True)
class Items:
    """All (kind, layers) that a node may be: arrays by item."""

    kinds: tuple[str, ...]
    nodes: dict[str, int]
    layers: Floats
    capacity: Floats
    crossings: int
    doubled: float
    """Width of a pattern of two nodes."""


@dataclass(frozen=True)
class Verdict:
    """At most `layers` layers are carried at the flow; `worth` of one node of each kind, in layers."""

    layers: float
    worth: dict[str, float]


def verdict(network: Network, flow: float, pool: Pool, grid: int = 0, enough: float = math.inf) -> Verdict:
    """Column generation at `flow`, stopped as soon as it is decided; infinite layers where that is too slow.

    `pool` has the patterns of other flows to begin from, and gets those of this one. Where `enough` layers
    can be reached it stops: that is not refuted.

    With a `grid`, capacities are rounded up to as many parts of the flow: quicker, and still a bound.
    """
    items, sums = _items(network, flow), SUMS
    if grid:
        items = _rounded(items, flow / grid)
        sums = sums * MORE
    if not len(items.layers):
        return Verdict(0.0, {})
    patterns: set[Pattern] = set()
    for i, c in enumerate(items.capacity):
        alone = math.ceil(flow / c - CLOSE)
        patterns |= {(i,) * alone, (i,) * max(alone, 3)}
    patterns |= _pooled(items, flow, pool)
    least, worth = math.inf, dict[str, float]()
    while True:
        reached, dual, v, used = _master(items, sorted(patterns))
        if reached is not None and reached >= enough:
            return Verdict(least, worth)  # never refuted
        if reached is None:  # not even with fractions of nodes: `cross` cannot be met
            return Verdict(0.0, dict.fromkeys(items.nodes, 0.0))
        worth = _worth(items, dual)
        cheapest, found, formed = _price(items, flow, dual, v, sums)
        sums -= formed
        if sums <= 0:
            return Verdict(math.inf if least >= network.layers - REFUTED else least, worth)
        paid = sum(n * worth[kind] for kind, n in items.nodes.items()) - v * items.crossings
        least = min(least, paid / cheapest if cheapest > 0 else math.inf)
        new = found - patterns
        if least < network.layers - REFUTED or not new:
            pool |= {tuple((items.kinds[i], float(items.layers[i])) for i in p) for p in used}
            return Verdict(least, worth)
        patterns |= new


def _rounded(items: Items, unit: float) -> Items:
    """Capacities rounded up to whole units: of sizes that are then alike only the largest is of use."""
    capacity = np.ceil(items.capacity / unit - CLOSE) * unit
    alike = zip(items.kinds, capacity.tolist(), strict=True)
    largest = {key: i for i, key in enumerate(alike)}
    kept = sorted(largest.values())
    kinds = tuple(items.kinds[i] for i in kept)
    return replace(items, kinds=kinds, layers=items.layers[kept], capacity=capacity[kept])


def _pooled(items: Items, flow: float, pool: Pool) -> set[Pattern]:
    """The patterns of the pool that reach `flow`."""
    at = {item: i for i, item in enumerate(zip(items.kinds, items.layers.tolist(), strict=True))}
    known = (tuple(sorted(at[item] for item in p)) for p in pool if all(item in at for item in p))
    return {p for p in known if items.capacity[list(p)].sum() >= flow * (1 - 1e-12)}


def _items(network: Network, flow: float) -> Items:
    """Of sizes with the same capacity, or above the flow, only the largest is of use."""
    kinds, layers, capacity = list[str](), list[float](), list[float]()
    for kind in dict.fromkeys(network.kinds):
        table = np.minimum(network.capacity[kind][: network.layers], flow)
        for k, c in enumerate(table, start=1):
            if c > 0 and (k == len(table) or c > table[k:].max()):
                kinds, layers, capacity = [*kinds, kind], [*layers, k], [*capacity, float(c)]
    region = np.array(network.regions)
    wide = float(network.link[region[:, None] != region].max(initial=0.0))
    held = Counter[int]()
    for (region, kind), members in network.groups.items():
        held[region] += len(members) * min(len(network.capacity[kind]), network.layers)
    crossings = int(len(held) > 1 and max(held.values()) < network.layers and flow > wide)
    doubled = 0.5 if flow > 2 * wide else 1.0
    return Items(
        tuple(kinds), dict(Counter(network.kinds)), np.array(layers), np.array(capacity), crossings, doubled
    )


def _width(items: Items, nodes: int) -> float:
    return 0.0 if nodes < 2 else items.doubled if nodes == 2 else 1.0


def _master(items: Items, patterns: list[Pattern]) -> tuple[float | None, Floats, float, list[Pattern]]:
    """Layers carried, the duals >= 0 of `use` and that of `cross`, and the patterns used."""
    m = Linear("layer patterns")
    y = m.reals("y", patterns)
    x = m.reals("x", range(len(items.layers)))
    m.minimise([y[p] * -1.0 for p in patterns])
    use: list[list[Term]] = [[x[i] * -k] for i, k in enumerate(items.layers)]
    for p in patterns:
        for i, count in Counter(p).items():
            use[i].append(y[p] * count)
    for i, terms in enumerate(use):
        m.add("use", i, Expr(terms) <= 0)
    for kind, n in items.nodes.items():
        m.add("stock", kind, total(x[i] for i, k in enumerate(items.kinds) if k == kind) <= n)
    if items.crossings:
        m.add("cross", "", total(y[p] * _width(items, len(p)) for p in patterns) >= items.crossings)
    outcome = m.relax(Limits())
    if outcome.value is None:
        return None, np.zeros(0), 0.0, []
    dual = np.maximum(0.0, [-outcome.duals["use", i] for i in range(len(use))])
    return -outcome.value, dual, max(0.0, outcome.duals.get(("cross", ""), 0.0)), list(outcome.of(y))


def _worth(items: Items, dual: Floats) -> dict[str, float]:
    worth = dict.fromkeys(items.nodes, 0.0)
    for kind, value in zip(items.kinds, items.layers * dual, strict=True):
        worth[kind] = max(worth[kind], float(value))
    return worth


def _price(items: Items, flow: float, dual: Floats, v: float, sums: int) -> tuple[float, set[Pattern], int]:
    """The least (cost - v * width) of all patterns, those that improve the master, and the sums formed."""
    least, found, formed = math.inf, set[Pattern](), 0
    for cost, pattern, more in cheapest(items.capacity, dual, flow, 1 + v):
        formed += more
        if formed + more > sums:  # the next step is no smaller
            return 1.0, found, sums
        if pattern:
            reduced = cost - v * _width(items, len(pattern))
            least = min(least, reduced)
            if reduced < 1 - CLOSE:
                found.add(tuple(sorted(pattern)))
    return min(least, 1.0), found, formed

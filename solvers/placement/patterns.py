"""Layer patterns: how many layers nodes can carry at a flow, wherever they stand, and what a node is worth.

Sets       t in T   kinds of node           k   layers of a node         p in P   patterns: multisets of (t,k)
                                                                         whose capacities reach the flow
Data       nodes[t]      count[p,t,k]  nodes in p
Choose     y[p]   real >= 0   layers whose covering nodes are p
           x[t,k] real >= 0   nodes of t that hold k layers
maximise   sum(p) y[p]
use[t,k]   sum(p) count[p,t,k] * y[p]  <= k * x[t,k]
stock[t]   sum(k) x[t,k]               <= nodes[t]

A flow needs on every layer nodes whose capacities reach it. Positions and links are dropped, and capacities
are rounded up to parts of the flow: a relaxation.

Patterns are priced exactly, as Pareto frontiers of (capacity, dual cost) by number of nodes; the bound is
Lagrangian, hence true at any duals:
    layers <= sum(t) nodes[t] * worth[t] / cheapest pattern,      worth[t] = max(k) k * dual[t,k].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Expr, Floats, Limits, Linear, Term, total
from solvers.placement.types import Network

Pattern = tuple[int, ...]
CLOSE = 1e-9
REFUTED = 1e-7
"""Layers by which a bound must miss L: far above the rounding of the sums it is made of."""

GRID = 16
"""Parts of the flow that capacities are rounded up to: a few more stages are looked at, in half the time."""

SUMS = 100_000_000
"""Sums that a verdict may form; after that nothing is refuted."""


@dataclass(frozen=True)
class Items:
    """All (kind, layers) that a node may be: arrays by item."""

    kinds: tuple[str, ...]
    layers: Floats
    capacity: Floats


@dataclass(frozen=True)
class Verdict:
    """At most `layers` layers are carried at the flow; `worth` of one node of each kind, in layers."""

    layers: float
    worth: dict[str, float]


def verdict(network: Network, flow: float) -> Verdict:
    """Column generation at `flow`, stopped once all layers are refuted; infinite where that is too slow."""
    items, nodes, sums = _items(network, flow), Counter(network.kinds), SUMS
    if not len(items.layers):
        return Verdict(0.0, {})
    patterns: set[Pattern] = {(i,) * math.ceil(flow / c - CLOSE) for i, c in enumerate(items.capacity)}
    least, worth = math.inf, dict[str, float]()
    while True:
        dual = _master(items, nodes, sorted(patterns))
        if dual is None:  # interrupted
            return Verdict(math.inf, worth)
        worth = dict.fromkeys(nodes, 0.0)
        for kind, value in zip(items.kinds, items.layers * dual, strict=True):
            worth[kind] = max(worth[kind], float(value))
        price, found, formed = _price(items, flow, dual, sums)
        sums -= formed
        if sums <= 0:
            return Verdict(math.inf if least >= network.layers - REFUTED else least, worth)
        paid = sum(n * worth[kind] for kind, n in nodes.items())
        least = min(least, paid / price if price > 0 else math.inf)
        new = found - patterns
        if least < network.layers - REFUTED or not new:
            return Verdict(least, worth)
        patterns |= new


def _items(network: Network, flow: float) -> Items:
    """What nodes may be: among sizes of one rounded capacity only the largest is of use."""
    kinds, layers, capacity = list[str](), list[float](), list[float]()
    unit = flow / GRID
    for kind in dict.fromkeys(network.kinds):
        table = np.minimum(network.capacity[kind][: network.layers], flow)
        table = np.ceil(table / unit - CLOSE) * unit
        for k, c in enumerate(table, start=1):
            if c > table[k:].max(initial=0.0):
                kinds, layers, capacity = [*kinds, kind], [*layers, k], [*capacity, float(c)]
    return Items(tuple(kinds), np.array(layers), np.array(capacity))


def _master(items: Items, nodes: Counter[str], patterns: list[Pattern]) -> Floats | None:
    """The duals >= 0 of `use`."""
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
    for kind, n in nodes.items():
        m.add("stock", kind, total(x[i] for i, k in enumerate(items.kinds) if k == kind) <= n)
    outcome = m.relax(Limits())
    return np.maximum(0.0, [-outcome.duals["use", i] for i in range(len(use))]) if outcome.duals else None


def _price(items: Items, flow: float, dual: Floats, sums: int) -> tuple[float, set[Pattern], int]:
    """The least cost of all patterns, those that improve the master, and the sums formed."""
    least, found, formed = math.inf, set[Pattern](), 0
    for cost, pattern, more in cheapest(items.capacity, dual, flow, 1.0):
        formed += more
        if formed + more > sums:  # the next step is no smaller
            return 1.0, found, sums
        if pattern:
            least = min(least, cost)
            if cost < 1 - CLOSE:
                found.add(tuple(sorted(pattern)))
    return min(least, 1.0), found, formed


def cheapest(
    capacity: Floats, cost: Floats, flow: float, limit: float
) -> Iterator[tuple[float, list[int], int]]:
    """By number of nodes: the cheapest pattern that reaches `flow` (if any), and the sums formed for it."""
    rate = float((cost / capacity).min())
    reach, paid = np.zeros(1), np.zeros(1)
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    while len(reach):
        formed = len(reach) * len(capacity)
        reach, paid, before, item = extended(reach, paid, capacity, cost, flow, limit, rate)
        steps.append((before, item))
        done = np.flatnonzero(reach >= flow * (1 - 1e-12))
        found = trace(steps, int(done[0])) if len(done) else []
        yield float(paid[done[0]]) if len(done) else math.inf, found, formed
        if len(steps) >= 3 and len(done) == len(reach):
            return


def extended(
    reach: Floats, paid: Floats, capacity: Floats, cost: Floats, flow: float, limit: float, rate: float = 0.0
) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """One item more: reach and cost of the states not beaten in both, where each comes from, and its item.

    A state that costs `limit` once the rest of the flow is paid at `rate` is dropped.
    """
    to = np.minimum(reach[:, None] + capacity, flow).ravel()
    pay = (paid[:, None] + cost).ravel()
    order = np.lexsort((-to, pay))
    to, pay = to[order], pay[order]
    kept = np.r_[True, to[1:] > np.maximum.accumulate(to)[:-1]] & (pay + (flow - to) * rate < limit)
    before, item = divmod(order[kept], len(capacity))
    return to[kept], pay[kept], before, item


def trace(steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]], at: int) -> list[int]:
    """Items of the state `at` of the last step."""
    items = []
    for before, item in reversed(steps):
        items.append(int(item[at]))
        at = int(before[at])
    return items

"""Exact placement of few nodes over any network: a binary a node and interval, for the smallest clusters.

Sets       i, j nodes     (s,e) intervals that a node can hold     l layer boundaries 1..L-1
Data       capacity[i,e-s]   link[i,j]   source[i]   sink[i]      all in units of the largest possible flow
Choose     x[i,s,e]  0/1      node i holds [s, e)
           f[i,j,l]  >= 0     flow from i, which ends at l, to j, which holds l
           a[i], b[i] >= 0    flow from the source, to the sink
maximise   sum(i) a[i]
one[i]     sum x[i,s,e]                       <= 1
node[i]    a[i] + sum(j,l) f[j,i,l]           <= sum capacity * x
keep[i]    a[i] + sum(j,l) f[j,i,l]           == b[i] + sum(j,l) f[i,j,l]
from[i,j,l], to[i,j,l]   f[i,j,l] <= link * sum(e = l) x[i],   f[i,j,l] <= link * sum(s <= l < e) x[j]
first[i], last[i]        a[i] <= source * sum(s = 0) x,        b[i] <= sink * sum(e = L) x
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solvers.linear import EXACT, Limits, Linear, Status, total
from solvers.placement.routing import flow
from solvers.placement.types import Interval, Network

SIZE = 64
"""Nodes times layers up to which this takes about a second."""


@dataclass(frozen=True)
class Flowing:
    """Layers [first, end) by node (unused nodes left out), what flows through, and what is proven of it."""

    intervals: Mapping[int, Interval]
    flow: float
    bound: float
    status: Status


def solve(network: Network, limits: Limits) -> Flowing:
    """The best placement, and its bound."""
    last, nodes, unit = network.layers, range(len(network.kinds)), network.most
    holds = [
        (i, s, s + k)
        for i in nodes
        for k, c in enumerate(network.capacity[network.kinds[i]][:last], start=1)
        if c > 0
        for s in range(last - k + 1)
    ]
    hops = [
        (i, j, at) for i in nodes for j in nodes if i != j and network.link[i, j] > 0 for at in range(1, last)
    ]
    m = Linear("exact placement")
    x = m.integers("x", holds, 1)
    f = m.reals("f", hops, {(i, j, at): min(1.0, network.link[i, j] / unit) for i, j, at in hops})
    a = m.reals("a", nodes, {i: min(1.0, network.source[i] / unit) for i in nodes})
    b = m.reals("b", nodes, {i: min(1.0, network.sink[i] / unit) for i in nodes})
    m.minimise([a[i] * -1.0 for i in nodes])
    for i in nodes:
        mine = [h for h in holds if h[0] == i]
        room = [x[h] * -min(1.0, network.capacity[network.kinds[i]][h[2] - h[1] - 1] / unit) for h in mine]
        come = [a[i] * 1.0, *(f[h] * 1.0 for h in hops if h[1] == i)]
        gone = [b[i] * -1.0, *(f[h] * -1.0 for h in hops if h[0] == i)]
        m.add("one", i, total(x[h] for h in mine) <= 1)
        m.add("node", i, total([*come, *room]) <= 0)
        m.add("keep", i, total([*come, *gone]).equals(0.0))
        m.add(
            "first", i, total([a[i] * 1.0, *(x[h] * -m.upper[a[i].column] for h in mine if h[1] == 0)]) <= 0
        )
        m.add(
            "last", i, total([b[i] * 1.0, *(x[h] * -m.upper[b[i].column] for h in mine if h[2] == last)]) <= 0
        )
    for i, j, at in hops:
        width = m.upper[f[i, j, at].column]
        ends = [x[h] * -width for h in holds if h[0] == i and h[2] == at]
        starts = [x[h] * -width for h in holds if h[0] == j and h[1] <= at < h[2]]
        m.add("from", (i, j, at), total([f[i, j, at] * 1.0, *ends]) <= 0)
        m.add("to", (i, j, at), total([f[i, j, at] * 1.0, *starts]) <= 0)
    outcome = m.solve(limits)
    bound = min(unit, unit if outcome.bound is None else -outcome.bound * unit)
    if not outcome.has_values:
        return Flowing({}, 0.0, bound, outcome.status)
    intervals = {i: (s, e) for i, s, e in outcome.counts(x)}
    value = flow(network, intervals)
    return Flowing(
        intervals, value, max(bound, value) if bound > value * (1 - EXACT) else bound, outcome.status
    )

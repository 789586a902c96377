"""Pooled stages: layers on so many nodes that each stage is on a mixture of them, for the most flow.

First the stages' lengths, as if nodes could be cut; for a flow F that is lowered a few times:

Sets       t in T   kinds     k   layers of a stage
Choose     y[k]    integer >= 0   stages of k layers       n[t,k]  real >= 0   nodes of t in them
minimise   sum(k) y[k]                                     fewer stages are on more nodes: finer to fill
layers     sum(k) k * y[k]                          == L
reach[k]   sum(t) capacity[t,k] * n[t,k]            >= F * y[k]
kinds[t]   sum(k) n[t,k]                            <= nodes[t]

Then the nodes of every stage. All regions keep the same stages, so that most of the flow stays in its region
and only what one has too much of crosses, over many links at once:

Sets       s   stages in order      r, q  regions       g = (r,t)  groups
Data       width[r,q]  mean link      seen[r]  nodes of r on a layer, about
Choose     m[g,s]   integer >= 0   nodes of g in stage s
           f[r,s]   real >= 0      flow of region r through stage s
           x[r,q,s] real >= 0      flow from r to q after stage s        F  real >= 0
maximise   F - SMALL * sum x
hold[r,s]  f[r,s]                             <= sum(t) capacity * m[r,t,s]
all[s]     sum(r) f[r,s]                      == F
pass[r,s]  f[r,s] + sum(q) x[q,r,s] - x[r,q,s] == f[r,s+1]
out[r,q,s] x[r,q,s]                           <= width * seen[q] * sum(t) m[r,t,s]
in[r,q,s]  x[r,q,s]                           <= width * seen[r] * sum(t) m[q,t,s+1]
stock[g]   sum(s) m[g,s]                      <= nodes[g]

`out` and `in` guess how many links there are; the flow is measured on the placement itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from itertools import permutations

import numpy as np

from benchmarks.formulations.placement_evened import evened
from solvers.linear import Limits, Linear, total
from solvers.placement.routing import flow, seated
from solvers.placement.types import Interval, Network, without_links

LOWERED = (0.995, 0.98, 0.96, 0.92)
"""Of the most that could flow: what the stages' lengths are made for."""
NEAR = 0.9
"""Of what flows without links: a flow below that is held up by links."""
SMALL = 1e-4
GAP, NODES, FILL_S = 0.004, 100, 5.0
"""What stops the program of the nodes."""


def pooled(network: Network, deadline: float) -> tuple[dict[int, Interval], float]:
    """Stages filled as if links were wide, evened, and spread over the regions; and what flows."""
    free = without_links(network)
    intervals, most = staged(free, deadline)
    seats = spread(network, intervals)
    carried = flow(network, seats)
    if carried < NEAR * most or not intervals:
        return seats, carried  # held up by links: evening would not help
    even = spread(network, evened(free, intervals, deadline))
    return max((seats, carried), (even, flow(network, even)), key=lambda found: found[1])


def spread(network: Network, intervals: Mapping[int, Interval]) -> dict[int, Interval]:
    """Like nodes change places, so that each region has about the same part of the nodes on every layer."""
    regions = sorted(set(network.regions))
    free = {group: list(reversed(members)) for group, members in network.groups.items()}
    held = [(interval, network.kinds[i]) for i, interval in intervals.items()]
    held.sort(key=lambda h: (h[0][0], -network.capacity[h[1]][h[0][1] - h[0][0] - 1], h[1], h[0][1]))
    work = dict.fromkeys(network.kinds, 0.0)
    carried = np.zeros(network.layers)
    for (start, end), kind in held:
        c = network.capacity[kind][end - start - 1]
        carried[start:end] += c
        work[kind] += (end - start) * c / network.kinds.count(kind)
    total_work = sum(work[kind] for kind in network.kinds)
    share = {
        r: sum(work[k] for q, k in zip(network.regions, network.kinds, strict=True) if q == r)
        for r in regions
    }
    have = {r: np.zeros(network.layers) for r in regions}
    seats = {}
    for (start, end), kind in held:
        able = [r for r in regions if free.get((r, kind))]
        r = min(able, key=lambda r: float((have[r] - share[r] / total_work * carried)[start:end].sum()))
        seats[free[r, kind].pop()] = (start, end)
        have[r][start:end] += network.capacity[kind][end - start - 1]
    return seats


def staged(network: Network, deadline: float) -> tuple[dict[int, Interval], float]:
    """The best placement in stages that all regions share, and its flow."""
    best: tuple[dict[int, Interval], float] = ({}, 0.0)
    tried: list[list[int]] = []
    for share in LOWERED:
        left = deadline - time.perf_counter()
        lengths = _lengths(network, share * network.most)
        if lengths is None or lengths in tried or best[1] >= share * network.most or left <= 0:
            continue
        tried.append(lengths)
        intervals = _filled(network, lengths, min(left, FILL_S))
        best = max(best, (intervals, flow(network, intervals)), key=lambda found: found[1])
    return best


def _lengths(network: Network, flow: float) -> list[int] | None:
    """Layers of the stages, longest first; None where `flow` is too much."""
    kinds = Counter(network.kinds)
    sizes = range(1, min(network.layers, max(len(network.capacity[t]) for t in kinds)) + 1)
    held = [(t, k) for t in kinds for k in sizes if k <= len(network.capacity[t])]
    m = Linear("stage lengths")
    y, n = m.integers("y", sizes), m.reals("n", held)
    m.minimise([y[k] * 1.0 for k in sizes])
    m.add("layers", "", total(y[k] * k for k in sizes).equals(network.layers))
    for k in sizes:
        reach = [n[t, k] * -min(1.0, network.capacity[t][k - 1] / flow) for t in kinds if (t, k) in n]
        m.add("reach", k, total([*reach, y[k] * 1.0]) <= 0)
    for t, count in kinds.items():
        m.add("kinds", t, total(n[t, k] for k in sizes if (t, k) in n) <= count)
    outcome = m.solve(Limits(gap=0.02, work=200))
    if not outcome.has_values:
        return None
    return sorted((k for k, count in outcome.counts(y).items() for _ in range(count)), reverse=True)


def _filled(network: Network, lengths: list[int], seconds: float) -> dict[int, Interval]:
    """Nodes of every stage."""
    regions = sorted(set(network.regions))
    groups = network.groups
    unit = network.most
    stages = range(len(lengths))
    seats = [(g, s) for g in groups for s in stages if lengths[s] <= len(network.capacity[g[1]])]
    width = _width(network, unit)
    hops = [(r, q, s) for r, q in width for s in stages[:-1]]
    m = Linear("pooled stages")
    n = m.integers("m", seats, {(g, s): len(groups[g]) for g, s in seats})
    f = m.reals("f", [(r, s) for r in regions for s in stages])
    x = m.reals("x", hops)
    most = m.reals("F", [""])[""]
    m.minimise([most * -1.0, *(x[h] * SMALL for h in hops)])
    for r in regions:
        for s in stages:
            room = [
                n[g, s] * -min(1.0, network.capacity[g[1]][lengths[s] - 1] / unit)
                for g in groups
                if g[0] == r and (g, s) in n
            ]
            m.add("hold", (r, s), total([f[r, s] * 1.0, *room]) <= 0)
    for s in stages:
        m.add("all", s, total([*(f[r, s] for r in regions), most * -1.0]).equals(0.0))
    for s in stages[:-1]:
        for r in regions:
            come = [x[h] * 1.0 for h in hops if h[1] == r and h[2] == s]
            gone = [x[h] * -1.0 for h in hops if h[0] == r and h[2] == s]
            m.add("pass", (r, s), total([f[r, s] * 1.0, *come, *gone, f[r, s + 1] * -1.0]).equals(0.0))
    for g, members in groups.items():
        m.add("stock", g, total(n[g, s] for s in stages if (g, s) in n) <= len(members))
    for r, q, s in hops:
        out = [n[g, s] * -width[r, q][0] for g in groups if g[0] == r and (g, s) in n]
        into = [n[g, s + 1] * -width[r, q][1] for g in groups if g[0] == q and (g, s + 1) in n]
        m.add("out", (r, q, s), total([x[r, q, s] * 1.0, *out]) <= 0)
        m.add("in", (r, q, s), total([x[r, q, s] * 1.0, *into]) <= 0)
    outcome = m.solve(Limits(gap=GAP, work=NODES, seconds=seconds))
    if not outcome.has_values:
        return {}
    starts = np.cumsum([0, *lengths])
    slots = [
        (g, (int(starts[s]), int(starts[s + 1])))
        for (g, s), count in outcome.counts(n).items()
        for _ in range(count)
    ]
    return seated(network, slots)


def _width(network: Network, unit: float) -> dict[tuple[int, int], tuple[float, float]]:
    """What a node of r can hand to those of q that stand after it, and one of q get from r."""
    region = np.array(network.regions)
    found = {}
    for r, q in permutations(sorted(set(network.regions)), 2):
        wide = float(np.minimum(network.link[np.ix_(region == r, region == q)], unit).mean()) / unit
        if wide > 0:
            found[r, q] = (wide * _seen(network, q), wide * _seen(network, r))
    return found


def _seen(network: Network, region: int) -> float:
    """Nodes of the region on a layer, were each as long as can be without losing half its work."""
    long = sum(
        len(network.capacity[kind])
        for r, kind in zip(network.regions, network.kinds, strict=True)
        if r == region
    )
    return max(0.5, long / 2 / network.layers)

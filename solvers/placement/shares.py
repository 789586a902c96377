"""Shares: what part of all requests takes each link, when every node takes a given part of them.

Sets       e = (i,j)   links: j begins where i ends; SOURCE before the first layer, SINK after the last
Data       through[i]  share of the requests at node i      speed[e]  tokens/s
Choose     s[e] >= 0   share of the requests on e           v  >= 0  load of the busiest link
minimise   v
out[i]     sum(j) s[i,j]   == through[i]        in[j]    sum(i) s[i,j]  == through[j]
load[e]    s[e] / speed[e] <= v

Solved where two stages meet over links that differ; elsewhere all pairs, in proportion: requests that part
meet fewer prompts.
"""

from __future__ import annotations

from collections.abc import Mapping

from solvers.linear import Limits, Linear, total
from solvers.placement.types import Interval, Network

Route = tuple[int, int]
"""From node to node."""
SOURCE, SINK = -1, -2
LEAST = 1e-6


def balanced(
    network: Network, intervals: Mapping[int, Interval], through: Mapping[int, float]
) -> dict[Route, float]:
    """Shares of all links, the source's and the sink's with them."""
    shares: dict[Route, float] = {}
    for boundary in range(network.layers + 1):
        ends = [i for i, (_, e) in intervals.items() if e == boundary]
        starts = [i for i, (s, _) in intervals.items() if s == boundary]
        if boundary == 0:
            shares |= {(SOURCE, j): through[j] for j in starts}
        elif boundary == network.layers:
            shares |= {(i, SINK): through[i] for i in ends}
        elif ends:
            shares |= _joined(network, ends, starts, through)
    return {route: s for route, s in shares.items() if s > LEAST}


def _joined(
    network: Network, ends: list[int], starts: list[int], through: Mapping[int, float]
) -> dict[Route, float]:
    regions = network.regions
    shares: dict[Route, float] = {}
    crossing = {regions[i] for i in ends} != {regions[j] for j in starts}
    if not crossing:
        for region in {regions[i] for i in ends}:
            into = {j: through[j] for j in starts if regions[j] == region}
            for i in ends:
                if regions[i] == region:
                    shares |= {(i, j): through[i] * t / sum(into.values()) for j, t in into.items()}
        return shares
    widest = max(network.link[i, j] for i in ends for j in starts)
    m = Linear("shares")
    s = m.reals("s", [(i, j) for i in ends for j in starts if network.link[i, j] > 0])
    v = m.reals("v", [""])[""]
    m.minimise([v * 1.0])
    scale = sum(through[i] for i in ends) / sum(through[j] for j in starts)
    for i in ends:
        m.add("out", i, total(s[e] for e in s if e[0] == i).equals(through[i]))
    for j in starts:
        m.add("in", j, total(s[e] for e in s if e[1] == j).equals(through[j] * scale))
    for e in s:
        m.add("load", e, total([s[e] * (widest / float(network.link[e])), v * -1.0]) <= 0)
    outcome = m.relax(Limits())
    return outcome.of(s) if outcome.has_values else {}

"""Chains: the shares of links as whole ways from the first layer to the last, the widest first.

Each chain takes the way whose narrowest link has the largest share left, and takes all of that share, so one
link at least is used up by each: chains reproduce the shares exactly, and the first few carry most requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solvers.placement.shares import SINK, SOURCE, Route
from solvers.placement.types import Interval

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

"""Lanes of equal steps, and pairs of them side by side as blocks (`placement_blocks`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from benchmarks.formulations.placement_blocks import ROUND, Block, Lane, Prices, lane_of
from solvers.linear import Floats
from solvers.placement.patterns import extended, trace
from solvers.placement.types import Network


def lanes(network: Network, prices: Prices) -> list[Lane]:
    """In each region, by length and step: the node sets that no other beats in both reach and worth."""
    found = []
    for region in sorted(set(network.regions)):
        counts = {kind: len(n) for (r, kind), n in network.groups.items() if r == region}
        longest = min(network.layers, max(len(network.capacity[kind]) for kind in counts))
        for step in range(1, longest + 1):
            kinds = [
                k for k in counts if step <= len(network.capacity[k]) and network.capacity[k][step - 1] > 0
            ]
            if not kinds:
                continue
            capacity = np.array([network.capacity[kind][step - 1] for kind in kinds])
            worth = np.array([prices.worth[kind] for kind in kinds])
            for chosen in cheapest_by_reach(capacity, worth, prices.flow, step + prices.slack):
                nodes = tuple(sorted(Counter(kinds[i] for i in chosen).items()))
                for steps in range(1, longest // step + 1):
                    if all(n * steps <= counts[kind] for kind, n in nodes):
                        found.append(lane_of(network, region, step, steps, nodes, prices.worth))
    return found


def doubled(network: Network, found: Iterable[Lane], prices: Prices, *, mixed: bool) -> list[Block]:
    """Pairs of lanes that carry the flow together, in one region or (`mixed`) in two."""
    by: dict[tuple[int, int], list[Lane]] = {}
    for lane in found:
        if lane.reach < prices.flow * ROUND:
            by.setdefault((lane.region, lane.length), []).append(lane)
    blocks = []
    for (region, length), firsts in sorted(by.items()):
        for (other, long), seconds in sorted(by.items()):
            if long != length or (other != region) != mixed:
                continue
            ranked = sorted(seconds, key=lambda lane: lane.cost)
            for first in firsts:
                need = prices.flow * ROUND - first.reach
                second = next((b for b in ranked if b.reach >= need), None)
                if second is None or (not mixed and second.step > first.step):
                    continue
                block = Block((first, second))
                enough = all(n <= len(network.groups[g]) for g, n in block.uses.items())
                if enough and block.cost <= length + prices.slack + 1e-7:
                    blocks.append(block)
    return blocks


def cheapest_by_reach(capacity: Floats, cost: Floats, flow: float, limit: float) -> list[list[int]]:
    """Multisets of items that no other beats in both capacity (up to `flow`) and cost, below `limit`."""
    reach, paid = np.zeros(1), np.zeros(1)
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    states: list[tuple[float, float, int, int]] = []
    while len(reach):
        reach, paid, before, item = extended(reach, paid, capacity, cost, flow, limit)
        steps.append((before, item))
        states += [(c, r, len(steps), i) for i, (c, r) in enumerate(zip(paid, reach, strict=True))]
        if len(reach) and reach.min() >= flow:
            break
    best, most = [], 0.0
    for _, reached, count, at in sorted(states, key=lambda s: (s[0], -s[1])):
        if reached > most:
            best.append(trace(steps[:count], at))
            most = reached
    return best

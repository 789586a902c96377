"""Re-plan: what to load where after nodes have left, so that most of the flow is kept and little is moved.

Only the regions that lost nodes change. In each, a layer should carry the part of the flow that it did,
less what the lost nodes were of the region's work; nodes move one by one (`Cover`), each time the
one that relieves most for what it loads. Of a few such repairs, to higher and lower targets, the one with
the most flow is kept, and of those nearly as good the one that loads the fewest layers. Every layer is kept
on `least` nodes where the nodes left can hold that.

A layer is *short* by what its nodes' capacities miss of `target[l]`, and by one whole flow for each node
that it misses of `least[l]`. All windows of a kind of node are priced at once. Links play no part here: what
flows over them is measured afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Floats
from solvers.placement.routing import flow
from solvers.placement.types import Interval, Network

TARGETS = (0.0, 0.5, 1.0, 1.25, 2.0, 3.0)
"""Parts of the work lost that targets are lowered by. Where few nodes hold many layers each, those left must
hold far more than is good for them."""
LOWEST = 0.05
"""The lowest target, as a part of what a layer carried."""
NEARLY = 0.995
"""Part of the best flow that a repair must keep which loads less."""
MOVES = 60
LOAD = 0.02
"""What must be gained for each layer loaded, as a part of a layer's target."""


@dataclass(frozen=True)
class Replanned:
    """Intervals without the nodes that left, layers that nodes must load, tokens/s before and after."""

    intervals: Mapping[int, Interval]
    loaded: Mapping[int, int]
    before: float
    after: float
    thin: tuple[int, ...]
    """Layers on fewer than `least` nodes."""

    @property
    def moved_layers(self) -> int:
        return sum(self.loaded.values())


def replan(
    network: Network, intervals: Mapping[int, Interval], gone: Collection[int], least: int = 1
) -> Replanned:
    """The placement repaired; `network` still has the nodes `gone`."""
    before = flow(network, intervals)
    kept = {i: interval for i, interval in intervals.items() if i not in gone}
    found = [_stated(network, kept, kept, before, least)]
    for lowered in TARGETS:
        repaired = dict(kept)
        for region in sorted({network.regions[i] for i in gone} or set(network.regions)):
            repaired |= _repaired(network, intervals, gone, region, lowered, before, least)
        found.append(_stated(network, kept, repaired, before, least))
    fewest = min(len(f.thin) for f in found)
    able = [f for f in found if len(f.thin) == fewest]
    best = max(f.after for f in able)
    return min((f for f in able if f.after >= NEARLY * best), key=lambda f: (f.moved_layers, -f.after))


def _stated(
    network: Network, kept: Mapping[int, Interval], found: Mapping[int, Interval], before: float, least: int
) -> Replanned:
    loaded = {i: n for i, interval in found.items() if (n := _new(kept.get(i, (0, 0)), interval))}
    count = np.zeros(network.layers, int)
    for start, end in found.values():
        count[start:end] += 1
    thin = tuple(int(layer) for layer in np.flatnonzero(count < least))
    return Replanned(dict(found), loaded, before, flow(network, found), thin)


def _new(old: Interval, new: Interval) -> int:
    return (new[1] - new[0]) - max(0, min(old[1], new[1]) - max(old[0], new[0]))


def _repaired(
    network: Network,
    intervals: Mapping[int, Interval],
    gone: Collection[int],
    region: int,
    lowered: float,
    before: float,
    least: int,
) -> dict[int, Interval]:
    """The region's nodes, moved until no layer is short or no move relieves enough."""
    mine = {i: interval for i, interval in intervals.items() if network.regions[i] == region}
    was, all_of_it = Cover(network, mine), Cover(network, intervals)
    cover = Cover(network, {i: interval for i, interval in mine.items() if i not in gone})
    lost = 1 - cover.carried.sum() / max(was.carried.sum(), 1e-300)
    part: Floats = was.carried / np.maximum(all_of_it.carried, 1e-300)
    target = before * part * max(LOWEST, 1 - lowered * lost)
    here = np.where(was.count > 0, least, 0)
    nodes = [i for i, r in enumerate(network.regions) if r == region and i not in gone]
    for _ in range(MOVES):
        short = cover.short(target, here)
        price = LOAD * float(target.max(initial=0.0))
        moves = [m for m in cover.moves(target, here, nodes, price) if m.left + price * m.loaded < short]
        if short <= 1e-9 * target.sum() or not moves:
            break
        best = max(moves, key=lambda m: ((short - m.left) / max(m.loaded, 0.5), -m.node))
        cover.put(best.node, best.interval)
    return cover.intervals


@dataclass(frozen=True)
class Move:
    """`node` takes `interval`, of which `loaded` layers are new; `left` is then short, summed over layers."""

    node: int
    interval: Interval
    left: float
    loaded: int


class Cover:
    """A placement that is being changed: its intervals and what is on each layer."""

    def __init__(self, network: Network, intervals: Mapping[int, Interval]) -> None:
        self.network = network
        self.table = {t: np.array(network.capacity[t][: network.layers]) for t in set(network.kinds)}
        self.intervals: dict[int, Interval] = {}
        self.carried: Floats = np.zeros(network.layers)
        self.count: NDArray[np.int64] = np.zeros(network.layers, int)
        for node, interval in intervals.items():
            self.put(node, interval)

    def put(self, node: int, interval: Interval) -> None:
        """Give the node these layers in place of its own."""
        if node in self.intervals:
            self._add(node, self.intervals[node], -1)
        self.intervals[node] = interval
        self._add(node, interval, 1)

    def _add(self, node: int, interval: Interval, sign: int) -> None:
        start, end = interval
        self.carried[start:end] += sign * self.table[self.network.kinds[node]][end - start - 1]
        self.count[start:end] += sign

    def short(self, target: Floats, least: NDArray[np.int64]) -> float:
        """What all layers miss together."""
        missed = np.maximum(0, least - self.count).sum() * target.max()
        return float(np.maximum(0.0, target - self.carried).sum() + missed)

    def moves(
        self, target: Floats, least: NDArray[np.int64], nodes: list[int], price: float = 0.0
    ) -> Iterator[Move]:
        """The best move of each kind of node among `nodes`; a layer to load costs `price` tokens/s."""
        seen = set()
        for node in nodes:
            like = (self.network.kinds[node], self.intervals.get(node))
            if like not in seen:
                seen.add(like)
                yield self._best(node, target, least, price)

    def _best(self, node: int, target: Floats, least: NDArray[np.int64], price: float) -> Move:
        table, layers = self.table[self.network.kinds[node]], self.network.layers
        carried, count = self.carried.copy(), self.count.copy()
        start, end = self.intervals.get(node, (0, 0))
        if end:
            carried[start:end] -= table[end - start - 1]
            count[start:end] -= 1
        short, missed = np.maximum(0.0, target - carried), np.maximum(0, least - count)
        relief = np.minimum(short, table[:, None]) + np.minimum(missed, 1) * target.max()
        sums = np.concatenate([np.zeros((len(table), 1)), np.cumsum(relief, axis=1)], axis=1)
        long, first = np.arange(1, len(table) + 1)[:, None], np.arange(layers)[None, :]
        last = np.minimum(first + long, layers)
        new = long - np.maximum(0, np.minimum(last, end) - np.maximum(first, start))
        gain = np.take_along_axis(sums, last, axis=1) - sums[:, :layers] - price * new
        gain[(first + long > layers) | (first == start) & (last == end) | (table[:, None] <= 0)] = -np.inf
        k, s = divmod(int(gain.argmax()), layers)
        left = short.sum() + missed.sum() * target.max() - gain[k, s] - price * new[k, s]
        return Move(node, (s, s + k + 1), float(left), int(new[k, s]))

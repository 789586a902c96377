"""Moves: a node takes other layers, where that leaves least short.

A layer is *short* by what its nodes' capacities miss of `target[l]`, and by one whole flow for each node
that it misses of `least[l]`. All windows of a kind of node are priced at once.

Links play no part here: what flows over them is measured afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Floats
from solvers.placement.types import Interval, Network


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

"""Moves: one node after another takes other layers, until all layers are carried evenly.

A layer is *short* by what its nodes' capacities miss of `target[l]`, and by one whole flow for each node
that it misses of `least[l]`. The move taken is the one that leaves the smallest sum of shortages; a node
that moved stays for a while, so that others must follow (tabu search). All windows of a kind of node are
priced at once.

Links play no part here: what flows over them is measured afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linear import Floats
from solvers.placement_types import Interval, Network

STAY = 7
"""Moves that a node stays for at least; up to twice that."""
MOVES, TRIES = 200, 2
"""Moves towards one target, and how often a target may be missed before a nearer one is set."""
STEP, FINE = 0.02, 0.0005
"""Of the flow: the first step up, and the last one tried."""


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


def evened(network: Network, intervals: Mapping[int, Interval], deadline: float) -> dict[int, Interval]:
    """A placement whose least carried layer carries as much as is found before `deadline`."""
    best, least = dict(intervals), Cover(network, intervals).carried.min(initial=np.inf)
    step, missed = STEP, 0
    while step > FINE and time.perf_counter() < deadline:
        found, reached = _towards(network, best, least * (1 + step), missed)
        if reached > least * (1 + 1e-9):
            best, least, missed = found, reached, 0
        elif (missed := missed + 1) == TRIES:
            step, missed = step / 2, 0
    return best


def _towards(
    network: Network, intervals: Mapping[int, Interval], target: float, seed: int
) -> tuple[dict[int, Interval], float]:
    """The best placement on the way to `target` on every layer, and its least carried layer."""
    cover, draw = Cover(network, intervals), np.random.default_rng(seed)
    stays = np.zeros(len(network.kinds), int)
    wanted, least_nodes = np.full(network.layers, target), np.zeros(network.layers, int)
    best, least = dict(intervals), float(cover.carried.min())
    for at in range(MOVES):
        free = [i for i in range(len(stays)) if stays[i] <= at]
        if not free or least >= target * (1 - 1e-9):
            break
        move = min(cover.moves(wanted, least_nodes, free), key=lambda m: (m.left, m.node))
        cover.put(move.node, move.interval)
        stays[move.node] = at + 1 + int(draw.integers(STAY, 2 * STAY + 1))
        if cover.carried.min() > least:
            best, least = dict(cover.intervals), float(cover.carried.min())
    return best, least

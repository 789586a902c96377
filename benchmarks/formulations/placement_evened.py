"""Moves (`solvers.placement.replan`) until all layers are carried evenly.

The one that leaves the smallest sum of shortages is taken; a node that moved stays for a while, so that
others must follow (tabu search).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from solvers.placement.replan import Cover
from solvers.placement.types import Interval, Network

STAY = 7
"""Moves that a node stays for at least; up to twice that."""


MOVES, TRIES = 200, 2
"""Moves towards one target, and how often a target may be missed before a nearer one is set."""


STEP, FINE = 0.02, 0.0005
"""Of the flow: the first step up, and the last one tried."""


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

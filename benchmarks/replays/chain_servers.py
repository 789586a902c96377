"""Servers and links of a chain in a replay: what one message or one step takes, and what cache is held."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from benchmarks.replays.chain_net import Hop, Node


@dataclass
class Wire:
    """Something used by one after the other: how long it was busy, and until when."""

    busy_s: float = 0.0
    free_s: float = 0.0

    def take(self, at_s: float, seconds: float) -> float:
        """Use it as soon as it is free; when that is over."""
        self.busy_s += seconds
        self.free_s = max(self.free_s, at_s) + seconds
        return self.free_s

    def used_s(self, at_s: float) -> float:
        """Seconds of use until now: what is ahead is one piece."""
        return self.busy_s - max(0.0, self.free_s - at_s)


@dataclass
class Server(Wire):
    """One copy of a node."""

    node: Node = field(kw_only=True)
    index: int = field(kw_only=True)
    waiting: deque[int] = field(default_factory=deque)
    batch: list[int] = field(default_factory=list)
    idle: bool = True
    held: float = 0.0
    held_peak: float = 0.0
    inside: int = 0
    peak: int = 0
    layer_s: dict[int, float] = field(default_factory=lambda: {0: 0.0})

    def fits(self, tokens: float) -> bool:
        rules = self.node
        room = self.inside + 1 <= rules.places and self.held + tokens <= rules.kv_tokens
        return room or not self.inside

    def hold(self, tokens: float, requests: int) -> None:
        """Requests enter (or leave: negative) with their cache."""
        self.held += tokens
        self.inside += requests
        self.peak, self.held_peak = max(self.peak, self.inside), max(self.held_peak, self.held)

    def decode_s(self, visits: Sequence[tuple[int, int]]) -> float:
        """Seconds of the tokens of a pass, by the layers that each runs."""
        counts = Counter(visits)
        edges = sorted({edge for visit in counts for edge in visit})
        return sum(
            (b - a) * self._layer_s(sum(n for (f, e), n in counts.items() if f <= a and b <= e))
            for a, b in pairwise(edges)
        )

    def _layer_s(self, tokens: int) -> float:
        if tokens not in self.layer_s:
            self.layer_s[tokens] = float(np.interp(tokens, *np.array(self.node.decode).T))
        return self.layer_s[tokens]


def held_part(server: Server, hop: Hop) -> float:
    """Of a node's layers, the part that a hop runs."""
    return (hop.layers[1] - hop.layers[0]) / server.node.layers

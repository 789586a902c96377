"""Queues, batches and caches of a replay over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.designs.shape import Floats
from planner.simulate.pools import Pool

SAMPLES = 240
"""Times at which queues, batches and caches are looked at; twice as many where the span is not known."""

LOOKS = 100_000
"""At servers, in all: of large fleets fewer times are seen."""


@dataclass(frozen=True)
class Series:
    """At `times_s` (k,), by group, all servers together: requests that wait, that are in work, and the share
    of the cache that is held, (k,) each."""

    times_s: Floats
    waiting: Mapping[str, Floats]
    running: Mapping[str, Floats]
    held: Mapping[str, Floats]


class Sampler:
    """Looks at all servers at even times; where it goes on, ever more seldom."""

    def __init__(self, pools: Mapping[str, Pool], span_s: float) -> None:
        self.pools = pools
        servers = sum(len(pool.servers) for pool in pools.values())
        self.samples = int(np.clip(LOOKS / max(servers, 1), SAMPLES // 4, SAMPLES))
        self.every_s = span_s / self.samples if span_s > 0 else 1e-3
        self.next_s = 0.0
        self.rows: list[tuple[float, ...]] = []

    def until(self, now_s: float) -> None:
        """All looks due before this second."""
        while self.next_s <= now_s < math.inf:
            row = [self.next_s]
            for pool in self.pools.values():
                seen = [s.seen(self.next_s) for s in pool.servers]
                room = max(pool.group.rules.kv_tokens * len(pool.servers), 1.0)
                row.append(float(sum(s.queue for s in pool.servers)))
                row.append(float(sum(running for running, _ in seen)))
                row.append(sum(held for _, held in seen) / room)
            self.rows.append(tuple(row))
            self.next_s += self.every_s
            if len(self.rows) >= 2 * self.samples:
                self.rows, self.every_s = self.rows[::2], 2 * self.every_s
                self.next_s = self.rows[-1][0] + self.every_s

    def series(self) -> Series:
        """What was seen."""
        table = np.array(self.rows or [(0.0,) * (1 + 3 * len(self.pools))])
        parts = [{name: table[:, 1 + 3 * i + j] for i, name in enumerate(self.pools)} for j in range(3)]
        return Series(table[:, 0], *parts)

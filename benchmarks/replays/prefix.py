"""Replay of a trace through a prefix cache of several tiers: what is found there, request by request.

Each request finds its leading blocks that some tier holds; then all its blocks are in the first tier, the
last-used of all. A tier above its room hands blocks down to the next, the last drops them.

`lru`: block by block, the least recently used first: of a prompt its first blocks before its last.
`by_expiry`: leaves first (blocks that no other block of the tier continues), so that what a block builds on
is never in a slower tier than itself; of the leaves the one that expires first, `keep_s` after its last use:
the same for all is LRU as engines do it, more for what is dear or comes back often is FLOP-aware eviction
(Marconi, arXiv:2411.19379; a score linear in recency and in value). Blocks of the request in work stay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from planner.inputs.traces import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Replayed:
    """Blocks that each request found, by tier: (requests, tiers); `held` (tiers,) at the end."""

    hits: Ints
    held: tuple[int, ...]


def lru(trace: Trace, room: Sequence[int]) -> Replayed:
    """Blocks by last use in one list, whose parts are the tiers of `room` blocks each."""
    total, edges = sum(room), np.cumsum(room)
    if len(room) == 1:
        return _one_list(trace, total)
    parts = [_one_list(trace, int(edge)).hits[:, 0] for edge in edges]  # each list holds the ones before it
    hits = np.diff(np.stack([np.zeros_like(parts[0]), *parts]), axis=0).T
    full = min(total, int(trace.block.max(initial=-1)) + 1)
    held = np.diff([0, *np.minimum(edges, full)])
    return Replayed(hits, tuple(int(n) for n in held))


def _one_list(trace: Trace, room: int) -> Replayed:
    cache: OrderedDict[int, None] = OrderedDict()
    blocks, start, hits = (
        trace.block.tolist(),
        trace.start.tolist(),
        np.zeros((len(trace), 1), dtype=np.int64),
    )
    for i in range(len(trace)):
        prompt = blocks[start[i] : start[i + 1]]
        found = 0
        for b in prompt:
            if b not in cache:
                break
            found += 1
        hits[i, 0] = found
        for b in prompt:
            cache[b] = None
            cache.move_to_end(b)
        while len(cache) > room:
            cache.popitem(last=False)
    return Replayed(hits, (len(cache),))


def by_expiry(trace: Trace, room: Sequence[int], keep_s: Floats | float = 0.0) -> Replayed:
    """Leaves first by expiry; `keep_s` for each entry of `trace.block`, or one for all."""
    keep = np.broadcast_to(np.asarray(keep_s, dtype=float), trace.block.shape).tolist()
    blocks, start = trace.block.tolist(), trace.start.tolist()
    cache = Tree.empty(int(trace.block.max(initial=-1)) + 1, room)
    hits = np.zeros((len(trace), len(room)), dtype=np.int64)
    for i, now in enumerate(trace.arrival_s.tolist()):
        at = slice(start[i], start[i + 1])
        for tier in cache.found(blocks[at]):
            hits[i, tier] += 1
        cache.use(blocks[at], [now + k for k in keep[at]])
    return Replayed(hits, tuple(cache.held))


@dataclass
class Tree:
    """Which tier each block is in (-1: none), when it expires, how many continue it in each tier."""

    room: Sequence[int]
    tier: list[int]
    parent: list[int]
    expiry: list[tuple[float, int]]
    children: list[list[int]]  # by tier, of each block
    held: list[int]
    queues: list[list[tuple[float, int, int]]] = field(default_factory=list)  # by tier; stale entries stay in
    uses: int = 0

    @staticmethod
    def empty(blocks: int, room: Sequence[int]) -> Tree:
        tiers = range(len(room))
        return Tree(
            room,
            [-1] * blocks,
            [-1] * blocks,
            [(0.0, 0)] * blocks,
            [[0 for _ in tiers] for _ in range(blocks)],
            [0 for _ in tiers],
            [[] for _ in tiers],
        )

    def found(self, prompt: Sequence[int]) -> list[int]:
        """Tiers of the leading blocks that are held."""
        tiers = []
        for b in prompt:
            if self.tier[b] < 0:
                break
            tiers.append(self.tier[b])
        return tiers

    def use(self, prompt: Sequence[int], expiry: Sequence[float]) -> None:
        """All blocks of a prompt into the first tier, then every tier within its room."""
        before = -1
        self.uses += 1
        for b, until in zip(prompt, expiry, strict=True):
            self.parent[b] = before
            self.expiry[b] = (until, self.uses)
            self._move(b, 0)
            before = b
        for b in prompt[-1:]:
            self._queue(b)
        busy = set(prompt)
        for tier in range(len(self.room)):
            self._shrink(tier, busy)
            if len(self.queues[tier]) > 4 * self.held[tier] + 1000:
                self._tidy(tier)

    def _shrink(self, tier: int, busy: set[int]) -> None:
        """Hand down what expires first; of the prompt in work only where nothing else is left."""
        aside: list[tuple[float, int, int]] = []
        below = tier + 1 if tier + 1 < len(self.room) else -1
        while self.held[tier] > self.room[tier]:
            if not self.queues[tier]:
                busy, aside, self.queues[tier] = set(), [], aside
                heapify(self.queues[tier])
            entry = heappop(self.queues[tier])
            b = entry[2]
            if not self._leaf(b, tier) or self.expiry[b] != entry[:2]:
                continue
            if b in busy:
                aside.append(entry)
                continue
            self._move(b, below)
            for other in (self.parent[b], b if below >= 0 else -1):
                if other >= 0 and self._leaf(other, self.tier[other]):
                    self._queue(other)
        for entry in aside:
            heappush(self.queues[tier], entry)

    def _leaf(self, b: int, tier: int) -> bool:
        return tier >= 0 and self.tier[b] == tier and self.children[b][tier] == 0

    def _queue(self, b: int) -> None:
        heappush(self.queues[self.tier[b]], (*self.expiry[b], b))

    def _move(self, b: int, to: int) -> None:
        """Into a tier, or out of all (-1)."""
        was, parent = self.tier[b], self.parent[b]
        if was == to:
            return
        for tier, step in ((was, -1), (to, 1)):
            if tier >= 0:
                self.held[tier] += step
                if parent >= 0:
                    self.children[parent][tier] += step
        self.tier[b] = to

    def _tidy(self, tier: int) -> None:
        """Drop stale entries."""
        kept = {e for e in self.queues[tier] if self._leaf(e[2], tier) and self.expiry[e[2]] == e[:2]}
        self.queues[tier] = sorted(kept)

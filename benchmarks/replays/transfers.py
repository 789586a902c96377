"""Transfers that share links, and how caches get from one server to another where they do not: the truth that
`planner.cost.transfer` and `planner.simulate.links` are tested against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop

import numpy as np

from planner.designs.shape import Floats
from planner.simulate.links import SENT, Transfer, fair_rates


def replay_transfers(
    start_s: Floats, sent_bytes: Floats, over: Sequence[Sequence[int]], bytes_per_s: Floats
) -> Floats:
    """When each transfer is through, (n,): `sent_bytes` from `start_s` on over the links `over[i]` at once,
    of `bytes_per_s` (links,).

    >>> two = np.array([0.0, 0.0]), np.array([1.0, 2.0]), [[0], [0]], np.array([1.0])
    >>> replay_transfers(*two).tolist()  # halves until the first is through
    [2.0, 3.0]
    """
    coming = [(float(at), i) for i, at in enumerate(start_s)]
    heapify(coming)
    left, end_s, now = dict[int, float](), np.full(len(start_s), np.nan), 0.0
    room = dict(enumerate(bytes_per_s.tolist()))
    while coming or left:
        rates = fair_rates({i: over[i] for i in left}, room)
        first = min(((left[i] / rates[i], i) for i in left), default=(np.inf, -1))
        until = coming[0][0] if coming else np.inf
        gone = now + first[0] <= until
        spent = first[0] if gone else until - now
        left = {i: b - rates[i] * spent for i, b in left.items()}
        now += spent
        if gone:
            del left[first[1]]
            end_s[first[1]] = now
        else:
            _, i = heappop(coming)
            left[i] = float(sent_bytes[i])
    return end_s


class Beside:
    """Transfers that do not meet: each over its slowest wire alone."""

    def __init__(self, at: Callable[[float, int, str], None]) -> None:
        self.at = at

    def send(self, one: Transfer, now_s: float) -> None:
        seconds = max((one.sent_bytes / rate for rate in one.over.values()), default=0.0)
        self.at(now_s + seconds + one.latency_s, one.request, SENT)

    def through(self, request: int, now_s: float) -> float | None:
        return now_s

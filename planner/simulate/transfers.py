"""Replay of transfers that share links: the truth that `planner.cost.transfer` is tested against.

Transfers start at given times and go over given links. Between two events every one has its max-min fair
rate: all rates rise together until a link is full, whose transfers then stay as they are, the others rise on
(progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop

import numpy as np

from planner.cost.shape import Floats


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
    while coming or left:
        rates = fair_rates({i: over[i] for i in left}, bytes_per_s)
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


def fair_rates(over: dict[int, Sequence[int]], bytes_per_s: Floats) -> dict[int, float]:
    """Max-min fair rate of each transfer over its links."""
    room, rates = {k: float(b) for k, b in enumerate(bytes_per_s)}, dict[int, float]()
    rising = set(over)
    while rising:
        users = {k: [i for i in rising if k in over[i]] for k in room}
        level, k = min((room[k] / len(own), k) for k, own in users.items() if own)
        for i in users[k]:
            rates[i] = level
            rising.discard(i)
            for link in over[i]:
                room[link] = max(room[link] - level, 0.0)
    return rates

"""Transfers that share links: their fair rates, and a replay of transfers alone, the truth that
`planner.cost.transfer` is tested against.

Transfers start at given times and go over given links. Between two events every one has its max-min fair
rate: all rates rise together until a link is full, whose transfers then stay as they are, the others rise on
(progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from heapq import heapify, heappop
from typing import Any

import numpy as np

from planner.designs.shape import Floats


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


def fair_rates(over: Mapping[int, Sequence[Hashable]], bytes_per_s: Mapping[Any, float]) -> dict[int, float]:
    """Max-min fair rate of each transfer over its links.

    >>> fair_rates({0: ["a"], 1: ["a", "b"]}, {"a": 10.0, "b": 3.0})  # what b keeps 1 from, 0 has
    {1: 3.0, 0: 7.0}
    """
    room, rates = dict(bytes_per_s), dict[int, float]()
    rising = {i: set(links) for i, links in over.items()}
    users: dict[Hashable, set[int]] = {}
    for i, links in rising.items():
        for link in links:
            users.setdefault(link, set()).add(i)
    while rising:
        level, full = math.inf, next(iter(users))
        for link, own in users.items():
            if own and room[link] / len(own) < level:
                level, full = room[link] / len(own), link
        for i in sorted(users[full]):
            rates[i] = level
            for link in rising.pop(i):
                room[link] = max(room[link] - level, 0.0)
                users[link].discard(i)
    return rates

"""How the caches of prompts get from one server to another, as events of a replay.

`Shared`: a prefill server sends its caches one after the other, over the wires on the way: its own NICs (or
scale-up links), a declared link between places, the decode server's NICs. Senders that meet on a wire share
it max-min fairly, at every moment (`fair_rates`): no wire ever carries more than it can.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SENT = "sent"
"""What comes when a transfer may be through: the loop's word for it."""


@dataclass(frozen=True)
class Wire:
    """How caches get from a server of one group to one of another: what the one sends and the other receives
    at most, and the declared `link` between them (None: there is none), which all share. `times` a cache's
    bytes cross: more than once where ranks fetch what each of them keeps, or with a draft model's cache."""

    out_bytes_per_s: float
    in_bytes_per_s: float
    latency_s: float
    link: str | None = None
    link_bytes_per_s: float = math.inf
    times: float = 1.0

    def over(self, sender: int, receiver: int) -> dict[Hashable, float]:
        """The wires between two servers, by name."""
        ends: dict[Hashable, float] = {
            ("out", sender): self.out_bytes_per_s,
            ("in", receiver): self.in_bytes_per_s,
        }
        return ends if self.link is None else ends | {self.link: self.link_bytes_per_s}


@dataclass(frozen=True)
class Transfer:
    """The cache of a request: `sent_bytes` from a server over wires by name with bytes/s each; `latency_s`
    beside."""

    request: int
    sender: Hashable
    sent_bytes: float
    over: Mapping[Hashable, float]
    latency_s: float = 0.0


class Transfers(Protocol):
    """What carries caches. `at(second, request, what)` tells the loop."""

    def send(self, one: Transfer, now_s: float) -> None:
        """From now on."""

    def through(self, request: int, now_s: float) -> float | None:
        """SENT came for the request: when its cache is there, or None where it isn't through yet."""


@dataclass(slots=True)
class _Moving:
    """A transfer under way: `left` bytes at `since_s`, at that rate [bytes/s] from there on, through at
    `done_s`."""

    one: Transfer
    left: float
    since_s: float
    rate: float = 0.0
    done_s: float = math.nan


class Shared:
    """Transfers that share wires. `carried` [bytes] by wire is what went over it so far."""

    def __init__(self, at: Callable[[float, int, str], None]) -> None:
        self.at = at
        self.line: dict[Hashable, deque[Transfer]] = {}  # by sender, the first is under way
        self.moving: dict[int, _Moving] = {}
        self.users: dict[Hashable, set[int]] = {}  # of each wire
        self.carried: dict[Hashable, float] = {}

    def send(self, one: Transfer, now_s: float) -> None:
        line = self.line.get(one.sender)
        if line is None:
            line = self.line[one.sender] = deque()
        line.append(one)
        if len(line) == 1:
            self._begin(one, now_s)

    def through(self, request: int, now_s: float) -> float | None:
        moving = self.moving.get(request)
        if moving is None or moving.done_s != now_s:
            return None  # others came or went meanwhile: it takes longer, or took less
        one, met = moving.one, False
        del self.moving[request]
        for wire in one.over:
            users = self.users[wire]
            users.discard(request)
            met = met or bool(users)
            self.carried[wire] = self.carried.get(wire, 0.0) + one.sent_bytes
        if met:
            self._share(one.over, now_s)
        line = self.line[one.sender]
        line.popleft()
        if line:
            self._begin(line[0], now_s)
        return now_s + one.latency_s

    def _begin(self, one: Transfer, now_s: float) -> None:
        moving = self.moving[one.request] = _Moving(one, one.sent_bytes, now_s)
        met = False
        for wire in one.over:
            users = self.users.get(wire)
            if users is None:
                users = self.users[wire] = set()
            met = met or bool(users)
            users.add(one.request)
        if met:
            self._share(one.over, now_s)
        else:
            self._set(moving, min(one.over.values()), now_s)

    def _share(self, wires: Mapping[Hashable, float], now_s: float) -> None:
        """New rates for all that shares a wire, directly or by others, with what has come or gone."""
        over, room = self._meeting(wires)
        for request, rate in fair_rates(over, room).items():
            moving = self.moving[request]
            if moving.rate != rate:
                self._set(moving, rate, now_s)

    def _set(self, moving: _Moving, rate: float, now_s: float) -> None:
        """Its rate from now on."""
        moving.left = max(moving.left - moving.rate * (now_s - moving.since_s), 0.0)
        moving.rate, moving.since_s = rate, now_s
        moving.done_s = now_s + moving.left / rate
        self.at(moving.done_s, moving.one.request, SENT)

    def _meeting(
        self, wires: Mapping[Hashable, float]
    ) -> tuple[dict[int, Sequence[Hashable]], dict[Hashable, float]]:
        """Transfers that share a wire with those, directly or by others, with their wires; and what these
        carry."""
        over: dict[int, Sequence[Hashable]] = {}
        room: dict[Hashable, float] = {}
        new = list(wires)
        while new:
            wire = new.pop()
            if wire in room:
                continue
            for request in self.users.get(wire, ()):
                own = self.moving[request].one.over
                room[wire] = own[wire]
                if request not in over:
                    over[request] = list(own)
                    new += own
        return dict(sorted(over.items())), room


def fair_rates(over: Mapping[int, Sequence[Hashable]], bytes_per_s: Mapping[Any, float]) -> dict[int, float]:
    """Max-min fair rate of each transfer over its links: all rates rise together until a link is full, whose
    transfers then stay as they are, the others rise on (progressive filling: Bertsekas and Gallager, Data
    Networks, 6.5.2).

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

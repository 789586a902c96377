"""How the caches of prompts get from one server to another, as events of a replay.

`Shared`: a prefill server sends its caches one after the other, over the wires on the way: its own NICs (or
scale-up links), a declared link between places, the decode server's NICs. Senders that meet on a wire share
it max-min fairly, at every moment (`fair_rates`): no wire ever carries more than it can. `Beside`: each takes
its own time, whatever else is under way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.simulate.transfers import fair_rates

SENT = ">"
"""What comes when a transfer may be through: the loop's word for it."""


@dataclass(frozen=True)
class Wire:
    """How caches get from a server of one group to one of another: what the one sends and the other receives
    at most, and the declared `link` between them (None: there is none), which all share."""

    out_bytes_per_s: float
    in_bytes_per_s: float
    latency_s: float
    link: str | None = None
    link_bytes_per_s: float = math.inf

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


class Beside:
    """Transfers that do not meet: each over its slowest wire alone."""

    def __init__(self, at: Callable[[float, int, str], None]) -> None:
        self.at = at

    def send(self, one: Transfer, now_s: float) -> None:
        seconds = max((one.sent_bytes / rate for rate in one.over.values()), default=0.0)
        self.at(now_s + seconds + one.latency_s, one.request, SENT)

    def through(self, request: int, now_s: float) -> float | None:
        return now_s


class Shared:
    """Transfers that share wires. `carried` [bytes] by wire is what went over it so far."""

    def __init__(self, at: Callable[[float, int, str], None]) -> None:
        self.at = at
        self.line: dict[Hashable, deque[Transfer]] = {}  # by sender, the first is under way
        self.under_way: dict[int, Transfer] = {}
        self.left: dict[int, float] = {}  # bytes
        self.rate: dict[int, float] = {}
        self.since_s: dict[int, float] = {}  # when `left` was so much
        self.done_s: dict[int, float] = {}
        self.users: dict[Hashable, set[int]] = {}  # of each wire
        self.carried: dict[Hashable, float] = {}

    def send(self, one: Transfer, now_s: float) -> None:
        line = self.line.setdefault(one.sender, deque())
        line.append(one)
        if len(line) == 1:
            self._begin(one, now_s)

    def through(self, request: int, now_s: float) -> float | None:
        if self.done_s.get(request) != now_s:
            return None  # others came meanwhile: it takes longer
        one = self.under_way.pop(request)
        for wire in one.over:
            self.users[wire].discard(request)
            self.carried[wire] = self.carried.get(wire, 0.0) + one.sent_bytes
        for each in (self.left, self.rate, self.since_s, self.done_s):
            del each[request]
        self._share(one.over, now_s)
        line = self.line[one.sender]
        line.popleft()
        if line:
            self._begin(line[0], now_s)
        return now_s + one.latency_s

    def _begin(self, one: Transfer, now_s: float) -> None:
        self.under_way[one.request] = one
        self.left[one.request], self.since_s[one.request] = one.sent_bytes, now_s
        for wire in one.over:
            self.users.setdefault(wire, set()).add(one.request)
        self._share(one.over, now_s)

    def _share(self, wires: Mapping[Hashable, float], now_s: float) -> None:
        """New rates for all that shares a wire, directly or by others, with what has come or gone."""
        for request, rate in self._rates(self._meeting(wires)).items():
            if request in self.rate:
                if self.rate[request] == rate:
                    continue
                self.left[request] -= self.rate[request] * (now_s - self.since_s[request])
            self.rate[request], self.since_s[request] = rate, now_s
            done_s = now_s + max(self.left[request], 0.0) / rate
            self.done_s[request] = done_s
            self.at(done_s, request, SENT)

    def _meeting(self, wires: Mapping[Hashable, float]) -> set[int]:
        found: set[int] = set()
        seen, new = set[Hashable](), list(wires)
        while new:
            wire = new.pop()
            if wire in seen:
                continue
            seen.add(wire)
            for request in self.users.get(wire, ()):
                if request not in found:
                    found.add(request)
                    new += self.under_way[request].over
        return found

    def _rates(self, requests: set[int]) -> dict[int, float]:
        if len(requests) == 1:
            (one,) = requests
            return {one: min(self.under_way[one].over.values(), default=math.inf)}
        over: dict[int, Sequence[Hashable]] = {i: list(self.under_way[i].over) for i in sorted(requests)}
        room = {k: rate for i in over for k, rate in self.under_way[i].over.items()}
        return fair_rates(over, room)

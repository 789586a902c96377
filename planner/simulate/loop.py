"""The event loop of every replay: whichever comes first, something that comes, or the beginning of a step.

What comes (requests, caches of prompts, failures) is told to a *desk*, which says where it goes. A server
says itself when it next has to be looked at; what happens in between is nobody else's affair. At the same
moment what comes is before steps that begin: they see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

Event = tuple[float, int, str]
"""When, which request (negative: none), and what comes: a word of the desk's own."""


class Machine(Protocol):
    """What the loop knows of a server."""

    now_s: float
    due_s: float  # when it next has to be looked at; inf: never, by itself
    inside: int  # unfinished requests that were sent here
    steps: int
    preemptions: int
    busy_s: float

    @property
    def queue(self) -> int:
        """Requests that wait."""

    def take(self, request: int, at_s: float) -> None:
        """A request arrives."""

    def step(self) -> list[int]:
        """The step that begins at `due_s`; the requests that it finishes."""

    def seen(self, at_s: float) -> tuple[int, float]:
        """Requests in work and tokens of cache held at that second."""

    def leave_all(self) -> list[int]:
        """The server fails: the requests that it had."""


class Desk(Protocol):
    """Who decides."""

    def comes(self, request: int, what: str, at_s: float) -> Machine | None:
        """What comes goes to that server (None: to none)."""

    def finished(self, server: Machine, requests: Sequence[int]) -> None:
        """A server's step ends them there."""


class Looks(Protocol):
    """Who looks at the servers now and then."""

    next_s: float

    def until(self, now_s: float) -> None:
        """All looks due before this second."""


class Loop:
    """One run of `servers`."""

    def __init__(self, servers: Sequence[Machine]) -> None:
        self.servers, self.index = list(servers), {id(s): i for i, s in enumerate(servers)}
        self.coming: list[Event] = []  # heap
        self.ready: list[tuple[float, int]] = []  # heap of (due, server); stale where it is due elsewhen

    def at(self, at_s: float, request: int, what: str) -> None:
        """Something is going to come."""
        heappush(self.coming, (at_s, request, what))

    def run(self, desk: Desk, looks: Looks, tell: Callable[[float], None] | None = None) -> None:
        """Until nothing comes and no server has work. `tell` hears the second now and then."""
        coming, ready, servers, index = self.coming, self.ready, self.servers, self.index
        turns = 0
        while coming or ready:
            comes_s = coming[0][0] if coming else math.inf
            due_s = ready[0][0] if ready else math.inf
            now_s = comes_s if comes_s <= due_s else due_s
            if now_s > looks.next_s:
                looks.until(now_s)
            turns += 1
            if tell is not None and not turns & 0x3FFF:
                tell(now_s)
            if comes_s <= due_s:
                at_s, request, what = heappop(coming)
                server = desk.comes(request, what, at_s)
                if server is None:
                    continue
                before_s = server.due_s
                server.take(request, at_s)
                if server.due_s != before_s:
                    heappush(ready, (server.due_s, index[id(server)]))
                continue
            _, i = heappop(ready)
            server = servers[i]
            if server.due_s != due_s:
                continue
            finished = server.step()
            if server.due_s < math.inf:
                heappush(ready, (server.due_s, i))
            if finished:
                desk.finished(server, finished)

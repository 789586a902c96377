"""Discrete events of a whole plan: its groups of servers, the way that each request takes through them.

Who a request goes to: `planner.simulate.routing`. What a server does with it: `planner.simulate.server`. How
caches of prompts travel: `planner.simulate.links`. In a closed loop a request goes where one of its bucket
has just ended, as plans have it. The first token of a prompt that is computed apart is there when its cache
is, as plans count it (`first_waits`). A server that fails takes its requests with it: they begin again where
their bucket's ways lead; caches on their way to it go to another one of its group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.designs.shape import Floats
from planner.errors import InputError
from planner.simulate.links import SENT, Shared, Transfer, Transfers, Wire
from planner.simulate.loop import Loop, Machine
from planner.simulate.pools import Group, Load, Pool, Sampler, Series, Trouble, known_tokens
from planner.simulate.routing import Planned, Router, View, Way

Tell = Callable[[int, int], None]
"""Hears now and then how many requests have ended, of how many."""

COMES, AGAIN, DONE, THERE, FAILS = "comes", "again", "done", "there", "fails "
"""What comes: a request, in its order or at some other time; the end of a prompt that is computed apart, and
its cache; a failure (before the group's name)."""


@dataclass(frozen=True)
class Site:
    """What is built: groups, the ways of each bucket, how caches travel between two groups, and their bytes
    by request (n,) from each group."""

    groups: Sequence[Group]
    ways: Sequence[Sequence[Way]]
    wires: Mapping[tuple[str, str], Wire]
    sent_bytes: Mapping[str, Floats]
    first_waits: bool = True


@dataclass(frozen=True)
class Rules:
    """How it is run."""

    router: Callable[[View], Router] = Planned
    trouble: Sequence[Trouble] = ()
    transfers: Callable[[Callable[[float, int, str], None]], Transfers] = Shared
    tell: Tell | None = None


@dataclass(frozen=True)
class Outcome:
    """Seconds of every request (n,): arrival, first token, end; the servers' steps, times that sequences lost
    their room, busy shares by group, the share of prompt tokens found in caches (None: not followed), the
    busy share of each shared wire, and the series."""

    arrival_s: Floats
    first_s: Floats
    end_s: Floats
    osl: Floats
    steps: int
    preempted: int
    busy: Mapping[str, float]
    found: float | None
    wires: Mapping[str, float]
    series: Series

    @property
    def ttft_s(self) -> Floats:
        """Arrival to first token."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """(end - first token) / (osl - 1), NaN where osl is 1."""
        return (self.end_s - self.first_s) / np.where(self.osl > 1, self.osl - 1, np.nan)


class Fleet:
    """One replay of `load` on `site`."""

    def __init__(self, site: Site, load: Load, rules: Rules = Rules()) -> None:
        self.site, self.load, self.tell = site, load, rules.tell
        self.pools = {g.id: Pool(g, load, rules.trouble) for g in site.groups}
        self.of = {id(s): p for p in self.pools.values() for s in p.servers}
        self.loop = Loop([s for p in self.pools.values() for s in p.servers])
        view = View(self.pools, site.ways, load)
        self.router, self.view = rules.router(view), view
        self.transfers = rules.transfers(self.loop.at)
        n = len(load.requests)
        self.arrival_s, self.first_s, self.end_s = ([math.nan] * n for _ in range(3))
        self.way: list[Way | None] = [None] * n
        self.led: dict[int, tuple[Way, Machine]] = {}
        self.lost = ""  # the group that has no servers any more
        self.to: dict[int, Machine] = {}  # where caches under way go, and
        self.sender: dict[int, int] = {}  # where they come from
        self.over: dict[tuple[int, int], Mapping[Hashable, float]] = {}  # wires between two servers
        self.sent_bytes = {name: sizes.tolist() for name, sizes in site.sent_bytes.items()}
        self.at, self.isl = load.requests.arrival_s.tolist(), load.requests.isl.tolist()
        self.first_to_come, self.ended = 0, 0  # of those that come at their times
        self.next = min(n, load.in_flight or n)  # of a closed loop's others
        self.timed = self.next
        self._next_comes()
        for one in rules.trouble:
            if one.fails_s is not None:
                self.loop.at(one.fails_s, -1, FAILS + one.group)
        self.span_s = load.span_s if load.in_flight is not None else self.at[-1] - self.at[0]

    def _next_comes(self) -> None:
        """The next request that comes at its time: one is under way at a time, so that few events wait."""
        i = self.first_to_come
        if i < self.timed:
            self.arrival_s[i] = self.at[i]
            self.loop.at(self.at[i], i, COMES)
            self.first_to_come = i + 1

    def run(self) -> Outcome:
        """All requests to their end."""
        sampler = Sampler(self.pools, self.span_s)
        tell = self.tell
        told = None if tell is None else (lambda _: tell(self.ended, len(self.load.requests)))
        self.loop.run(self, sampler, told)
        return self._outcome(sampler.series())

    def comes(self, request: int, what: str, at_s: float) -> Machine | None:
        """A request, a cache or a failure."""
        if what == COMES:
            self._next_comes()
            return self._begins(request)
        if what == AGAIN:
            return self._begins(request)
        if what == DONE:
            self._sends(request, at_s)
            return None
        if what == SENT:
            there_s = self.transfers.through(request, at_s)
            if there_s is not None:
                self.loop.at(there_s, request, THERE)
            return None
        if what == THERE:
            return self._goes_on(request, at_s)
        self._fail(self.pools[what[len(FAILS) :]], at_s)
        return None

    def _begins(self, request: int) -> Machine:
        """A request comes: where it goes."""
        found = self._led(request) or self.router.first(request)
        if found is None:
            text = f"no server is left for a request: the last one of `{self.lost}` has failed"
            raise InputError(text, "--fail", "let fewer servers fail")
        way, server = found
        if request < self.load.met and way.second is not None:
            server = self.router.second(request, way) or server
        self.way[request] = way
        self.of[id(server)].sent(server)
        return server

    def _led(self, request: int) -> tuple[Way, Machine] | None:
        """In a closed loop: where the one before it has ended."""
        way, server = self.led.pop(request, (None, None))
        if way is None or server is None or not self.view.stands(way):
            return None
        pool = self.pools[way.first]
        return way, server if pool.has(server) else pool.least

    def _goes_on(self, request: int, at_s: float) -> Machine | None:
        """Its cache is there: where its tokens are made."""
        way, server = self.way[request], self.to.pop(request)
        if way is None or way.second is None:
            raise RuntimeError("a cache has come for a request that sent none")
        if self.site.first_waits:
            self._first(request, at_s, self.pools[way.first])
        pool = self.pools[way.second]
        if pool.has(server):
            return server
        other = self.router.second(request, way)  # it failed meanwhile
        if other is None:
            self.loop.at(at_s, request, AGAIN)
            return None
        pool.sent(other)
        return other

    def _fail(self, pool: Pool, at_s: float) -> None:
        if pool.servers:
            for request in pool.fail():
                self.loop.at(at_s, request, AGAIN)  # begins again, from its prompt
            if not pool.servers:
                self.view.whole, self.lost = False, pool.group.id

    def finished(self, server: Machine, requests: Sequence[int]) -> None:
        """What a server has finished: prompts travel, requests end; in a closed loop each lets one in."""
        pool = self.of[id(server)]
        book, group = pool.ledger, pool.group
        pool.changed(server)
        for request in requests:
            way, end_s = self.way[request], book.end_s[request]
            if way is None:
                continue
            begins = way.first == group.id
            if begins and way.second is not None and book.osl[request] > 1:
                self.sender[request] = id(server)
                self.loop.at(end_s, request, DONE)
                continue
            if begins:
                self._first(request, book.first_s[request], pool)
            self.end_s[request] = end_s + self._started_s(request, pool)
            self.ended += 1
            if self.load.in_flight is not None and self.next < len(self.load.requests):
                self._lets_in(request, way, server)

    def _lets_in(self, request: int, way: Way, server: Machine) -> None:
        """The next request of a closed loop comes."""
        self.arrival_s[self.next] = server.now_s
        if self.view.bucket[self.next] == self.view.bucket[request]:
            self.led[self.next] = way, server
        self.loop.at(server.now_s, self.next, AGAIN)
        self.next += 1

    def _started_s(self, request: int, pool: Pool) -> float:
        return pool.group.started_s(self.isl[request])

    def _first(self, request: int, at_s: float, pool: Pool) -> None:
        if math.isnan(self.first_s[request]):
            self.first_s[request] = at_s + self._started_s(request, pool)

    def _sends(self, request: int, at_s: float) -> None:
        """A prompt is computed: its cache leaves for where its tokens are made."""
        way = self.way[request]
        two = self.router.second(request, way) if way is not None else None
        if way is None or two is None:
            self.loop.at(at_s, request, AGAIN)
            return
        if not self.site.first_waits:
            self._first(request, at_s, self.pools[way.first])
        self.of[id(two)].sent(two)
        self.to[request] = two
        sender, ends = self.sender.pop(request), (way.first, str(way.second))
        wire = self.site.wires[ends]
        size = self.sent_bytes[way.first][request] * wire.times
        over = self.over.get((sender, id(two)))
        if over is None:
            over = self.over[sender, id(two)] = wire.over(sender, id(two))
        self.transfers.send(Transfer(request, sender, size, over, wire.latency_s), at_s)

    def _outcome(self, series: Series) -> Outcome:
        end_s, first_s = np.array(self.end_s), np.array(self.first_s)
        arrival_s = np.array(self.arrival_s)
        span_s = float(np.nanmax(end_s) - np.nanmin(arrival_s))
        servers = {name: [*p.servers, *p.gone] for name, p in self.pools.items()}
        every = [s for all_ in servers.values() for s in all_]
        asked, found = known_tokens(every)
        return Outcome(
            arrival_s=arrival_s,
            first_s=first_s,
            end_s=end_s,
            osl=self.load.requests.osl,
            steps=sum(s.steps for s in every),
            preempted=sum(s.preemptions for s in every),
            busy={name: sum(s.busy_s for s in all_) / span_s / len(all_) for name, all_ in servers.items()},
            found=found / asked if asked else None,
            wires=self._wires(span_s),
            series=series,
        )

    def _wires(self, span_s: float) -> dict[str, float]:
        """Of each declared link, the share of what it could have carried."""
        if not isinstance(self.transfers, Shared):
            return {}
        rates = {w.link: w.link_bytes_per_s for w in self.site.wires.values() if w.link is not None}
        return {name: self.transfers.carried.get(name, 0.0) / rate / span_s for name, rate in rates.items()}

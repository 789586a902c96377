"""Discrete events of a whole plan: its groups of servers, the way that each request takes through them.

Whichever comes first happens: an arrival (of a request at its first server, of its prompt's cache at its
second, or a failure), or the beginning of a server's next step. Steps are those of `planner.simulate.server`.

Routing *planned*: each bucket's requests take the plan's ways in the plan's shares (the way that is furthest
behind its share), and inside a group the server with the fewest unfinished requests. *least-load*: of all
servers that any way of the bucket begins at, the one with the fewest unfinished requests for what the plan
sends it. In a closed loop a request goes where one of its bucket has just ended, as plans have it.

A prompt's cache leaves its server's wire, then the declared link, one after the other in each; its first
token is there when the cache is, as plans count it. A server that fails takes its requests with it: they
begin again where their bucket's ways lead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Literal

import numpy as np

from planner.cost.shape import Floats, Ints
from planner.errors import InputError
from planner.simulate.groups import Group, Way, Wire
from planner.simulate.requests import Requests, StepCosts
from planner.simulate.server import Ledger, Server

Routing = Literal["planned", "least-load"]
SAMPLES = 240
"""Times at which queues, batches and caches are looked at."""


@dataclass(frozen=True)
class Load:
    """Requests in order of arrival, each of a `bucket` (n,); `new` prompt tokens computed by group (n,).
    `in_flight`: a closed loop: so many come at their times, each of the others when one ends (None: all come
    at their times)."""

    requests: Requests
    bucket: Ints
    new: Mapping[str, Floats]
    in_flight: int | None = None


@dataclass(frozen=True)
class Trouble:
    """One server of a group `fails` at that second (None: none does), or is `slower` by a factor all
    along."""

    group: str
    fails_s: float | None = None
    slower: float = 1.0


@dataclass(frozen=True)
class Series:
    """At `times_s` (k,), by group, all servers together: requests that wait, that are in work, and the share
    of the cache that is held, (k,) each."""

    times_s: Floats
    waiting: Mapping[str, Floats]
    running: Mapping[str, Floats]
    held: Mapping[str, Floats]


@dataclass(frozen=True)
class Outcome:
    """Seconds of every request (n,): arrival, first token, end; the servers' steps, times that sequences lost
    their room, busy shares by group, and the series."""

    arrival_s: Floats
    first_s: Floats
    end_s: Floats
    osl: Floats
    steps: int
    preempted: int
    busy: Mapping[str, float]
    series: Series

    @property
    def ttft_s(self) -> Floats:
        """Arrival to first token."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """(end - first token) / (osl - 1), NaN where osl is 1."""
        return (self.end_s - self.first_s) / np.where(self.osl > 1, self.osl - 1, np.nan)


class Pool:
    """The servers of a group."""

    def __init__(self, group: Group, load: Load, trouble: Sequence[Trouble]) -> None:
        r = load.requests
        osl = r.osl if group.emitted == 1 else 1 + np.ceil((r.osl - 1) / group.emitted)
        lengths = (r.isl, osl, load.new[group.id])
        self.group, self.ledger = group, Ledger(*(a.astype(np.int64).tolist() for a in lengths))
        self.servers = [
            Server(group.step, group.rules, self.ledger, group.role) for _ in range(group.servers)
        ]
        for one in trouble:
            if one.group == group.id and one.slower != 1.0:
                self.servers[0].step = slowed(group, one.slower)
        self.gone: list[Server] = []

    @property
    def least(self) -> Server:
        """The server with the fewest unfinished requests."""
        return min(self.servers, key=lambda s: len(s.waiting) + len(s.batch))

    def fail(self) -> list[int]:
        """Its last server fails; the requests that it had."""
        server = self.servers.pop()
        self.gone.append(server)
        lost = [*server.batch, *server.waiting]
        server.waiting.clear()
        server.batch.clear()
        return lost


def slowed(group: Group, by: float) -> StepCosts:
    """The group's step, so many times as long."""
    s = group.step
    times = {k: getattr(s, k) * by for k in ("t0_s", "token_s", "pair_s", "sequence_s", "context_s")}
    return replace(s, **times)


class Fleet:
    """One replay of `load` on `groups`."""

    def __init__(
        self,
        groups: Sequence[Group],
        ways: Sequence[Sequence[Way]],
        wires: Mapping[tuple[str, str], Wire],
        sent_bytes: Mapping[str, Floats],
        load: Load,
        routing: Routing = "planned",
        trouble: Sequence[Trouble] = (),
    ) -> None:
        self.load, self.routing, self.wires, self.sent_bytes = load, routing, wires, sent_bytes
        self.pools = {g.id: Pool(g, load, trouble) for g in groups}
        self.ways = [list(each) for each in ways]
        self.sent = [[0.0] * len(each) for each in ways]
        n = len(load.requests)
        self.arrival_s, self.first_s, self.end_s = ([math.nan] * n for _ in range(3))
        self.way: list[Way | None] = [None] * n
        self.bucket = load.bucket.tolist()
        self.led: dict[int, tuple[Way, Server]] = {}
        self.wire_free: dict[object, float] = {}
        self.coming: list[
            tuple[float, int, str]
        ] = []  # heap of (time, request, group); request < 0: a failure
        self.next = 0
        at = load.requests.arrival_s.tolist()
        for _ in range(min(n, load.in_flight or n)):
            self._send(at[self.next])
        heapify(self.coming)
        for one in trouble:
            if one.fails_s is not None:
                heappush(self.coming, (one.fails_s, -1, one.group))
        self.span_s = (at[-1] - at[0]) if load.in_flight is None else math.nan

    def _send(self, at_s: float) -> None:
        """The next request arrives."""
        self.arrival_s[self.next] = at_s
        self.coming.append((at_s, self.next, ""))
        self.next += 1

    def run(self) -> Outcome:
        """All requests to their end."""
        feeding = any(way.second for each in self.ways for way in each)
        closed = self.load.in_flight is not None
        feeders = [s for p in self.pools.values() for s in p.servers if closed or p.group.role == "prefill"]
        feeders = feeders if feeding or closed else []
        of = {id(s): p for p in self.pools.values() for s in p.servers}
        ready: list[tuple[float, int, Server]] = []  # heap: each server with work once
        queued: set[int] = set()
        order = {id(s): i for i, s in enumerate(s for p in self.pools.values() for s in p.servers)}
        sampled = _Sampler(self.pools, self.span_s)
        while True:
            next_s = self.coming[0][0] if self.coming else math.inf
            begins_s = ready[0][0] if ready else math.inf
            if next_s == math.inf and begins_s == math.inf:
                break
            sampled.until(min(next_s, begins_s))
            if next_s <= begins_s:
                at_s, request, name = heappop(self.coming)
                if request < 0:
                    self._fail(name, at_s)
                    continue
                server = self._server(request, name)
                server.take(request, at_s)
                if id(server) not in queued:
                    queued.add(id(server))
                    heappush(ready, (server.now_s, order[id(server)], server))
                continue
            _, _, server = heappop(ready)
            queued.discard(id(server))
            if not server.has_work:
                continue  # it failed
            until_s = next_s
            for other in feeders:
                if other is not server and other.has_work and other.now_s < until_s:
                    until_s = other.now_s
            pool, finished = of[id(server)], server.run(until_s)
            sampled.during(pool, server, finished)
            self._pass_on(pool, server, finished)
            if server.has_work:
                queued.add(id(server))
                heappush(ready, (server.now_s, order[id(server)], server))
        return self._outcome(sampled)

    def _server(self, request: int, name: str) -> Server:
        """Where a request goes: to its first server, or in the group `name` for its tokens."""
        if name:
            return self.pools[name].least
        if (led := self.led.pop(request, None)) is not None and self._alive(led[0]):
            self.way[request] = led[0]
            pool = self.pools[led[0].first]
            return led[1] if any(s is led[1] for s in pool.servers) else pool.least
        ways, sent = self.ways[self.bucket[request]], self.sent[self.bucket[request]]
        alive = [i for i, way in enumerate(ways) if self._alive(way)]
        if not alive:
            raise InputError("no server is left for a request", "--fail", "let fewer servers fail")
        if self.load.in_flight is not None:
            best = min(alive, key=lambda i: (sent[i] + 1) / self._places(ways[i]))
        elif self.routing == "planned":
            best = min(alive, key=lambda i: (sent[i] + 1) / ways[i].share)
        else:
            best = min(alive, key=lambda i: self._crowd(ways[i]))
        sent[best] += 1
        self.way[request] = ways[best]
        return self.pools[ways[best].first].least

    def _alive(self, way: Way) -> bool:
        return bool(self.pools[way.first].servers) and (
            way.second is None or bool(self.pools[way.second].servers)
        )

    def _places(self, way: Way) -> float:
        """Sequences that a way's servers were planned to have in flight: how a closed loop is spread."""
        groups = [self.pools[name].group for name in (way.first, way.second) if name]
        return sum(g.servers * min(g.rules.max_sequences, 1e9) for g in groups)

    def _crowd(self, way: Way) -> float:
        """Unfinished requests of the emptiest server, for what the plan sends one."""
        pool = self.pools[way.first]
        s = pool.least
        return (len(s.waiting) + len(s.batch) + 1) * pool.group.servers / max(pool.group.rps, 1e-12)

    def _fail(self, name: str, at_s: float) -> None:
        pool = self.pools[name]
        if not pool.servers:
            return
        for request in pool.fail():
            heappush(self.coming, (at_s, request, ""))  # begins again, from its prompt

    def _pass_on(self, pool: Pool, server: Server, finished: Sequence[int]) -> None:
        """What a server has finished: prompts travel, requests end; in a closed loop each lets one in."""
        book = pool.ledger
        for request in finished:
            way = self.way[request]
            if pool.group.role == "prefill" and way is not None and way.second and book.osl[request] > 1:
                there_s = self._sent(server, way, request, book.end_s[request])
                self._first(request, there_s + pool.group.request_s)
                heappush(self.coming, (there_s, request, way.second))
                continue
            late_s = pool.group.request_s
            if pool.group.role != "decode":
                self._first(request, book.first_s[request] + late_s)
            self.end_s[request] = book.end_s[request] + late_s
            if self.load.in_flight is not None and self.next < len(self.load.requests):
                self.arrival_s[self.next] = server.now_s
                if way is not None and self.bucket[self.next] == self.bucket[request]:
                    self.led[self.next] = way, server
                heappush(self.coming, (server.now_s, self.next, ""))
                self.next += 1

    def _first(self, request: int, at_s: float) -> None:
        if math.isnan(self.first_s[request]):
            self.first_s[request] = at_s

    def _sent(self, server: Server, way: Way, request: int, at_s: float) -> float:
        """When the cache of a prompt is at the other end."""
        wire = self.wires[way.first, str(way.second)]
        size = float(self.sent_bytes[way.first][request])
        done_s = max(at_s, self.wire_free.get(id(server), 0.0)) + size / wire.bytes_per_s
        self.wire_free[id(server)] = done_s
        if wire.link is not None:
            start_s = max(at_s, self.wire_free.get(wire.link, 0.0))
            self.wire_free[wire.link] = start_s + size / wire.link_bytes_per_s
            done_s = max(done_s, self.wire_free[wire.link])
        return done_s + wire.latency_s

    def _outcome(self, sampled: _Sampler) -> Outcome:
        end_s, first_s = np.array(self.end_s), np.array(self.first_s)
        arrival_s = np.array(self.arrival_s)
        span_s = float(np.nanmax(end_s) - np.nanmin(arrival_s))
        servers = {name: [*p.servers, *p.gone] for name, p in self.pools.items()}
        busy = {
            name: sum(s.busy_s for s in all_) / span_s / max(len(all_), 1) for name, all_ in servers.items()
        }
        return Outcome(
            arrival_s=arrival_s,
            first_s=first_s,
            end_s=end_s,
            osl=self.load.requests.osl,
            steps=sum(s.steps for all_ in servers.values() for s in all_),
            preempted=sum(s.preemptions for all_ in servers.values() for s in all_),
            busy=busy,
            series=sampled.series(),
        )


class _Sampler:
    """Looks at all servers at even times; in a closed loop, whose span nobody knows, ever more seldom."""

    def __init__(self, pools: Mapping[str, Pool], span_s: float) -> None:
        self.pools = pools
        self.every_s = span_s / SAMPLES if span_s > 0 else 1e-3
        self.open = span_s > 0
        self.next_s = 0.0
        self.rows: list[tuple[float, ...]] = []
        self.in_step: dict[
            int, tuple[float, int, int]
        ] = {}  # server: (end of its step, requests, tokens held)

    def during(self, pool: Pool, server: Server, finished: Sequence[int]) -> None:
        """A server's step, which took `finished` with it: until its end they are seen."""
        book = pool.ledger
        left = sum(book.isl[i] + (book.osl[i] if server.role != "prefill" else 1) for i in finished)
        self.in_step[id(server)] = server.now_s, len(server.batch) + len(finished), server.held + left

    def _seen(self, server: Server) -> tuple[int, int]:
        """Requests in work and tokens held now."""
        end_s, running, held = self.in_step.get(id(server), (-1.0, 0, 0))
        return (running, held) if end_s > self.next_s else (len(server.batch), server.held)

    def until(self, now_s: float) -> None:
        """All looks due before this second."""
        while self.next_s <= now_s < math.inf:
            row = [self.next_s]
            for pool in self.pools.values():
                row.append(float(sum(len(s.waiting) for s in pool.servers)))
                seen = [self._seen(s) for s in pool.servers]
                row.append(float(sum(running for running, _ in seen)))
                room = max(pool.group.rules.kv_tokens * len(pool.servers), 1.0)
                row.append(sum(held for _, held in seen) / room)
            self.rows.append(tuple(row))
            self.next_s += self.every_s
            if len(self.rows) >= 2 * SAMPLES:
                self.rows, self.every_s = self.rows[::2], 2 * self.every_s
                self.next_s = self.rows[-1][0] + self.every_s

    def series(self) -> Series:
        """What was seen."""
        table = np.array(self.rows or [(0.0,) * (1 + 3 * len(self.pools))])
        parts = [{name: table[:, 1 + 3 * i + j] for i, name in enumerate(self.pools)} for j in range(3)]
        return Series(table[:, 0], *parts)

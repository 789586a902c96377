"""Groups of equal servers, as the loop has them; their queues, batches and caches over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from operator import attrgetter

import numpy as np

from planner.designs.shape import Floats, Ints
from planner.simulate.caches import Blocks, PrefixCache
from planner.simulate.loop import Machine
from planner.simulate.requests import Ledger, Requests, Role, Settings, StepCosts
from planner.simulate.server import Server

INSIDE = attrgetter("inside")
FEW = 32
"""Servers among which the emptiest is looked for one by one."""


@dataclass(frozen=True)
class Group:
    """Equal servers: `servers` of them, each with `step` and `rules`; `request_s` that the engine takes for a
    request beside its steps, and `text_token_s` for each token of its prompt; `emitted` tokens that a decode
    step gives a sequence; `rps` as the plan says; `stay_s`: how long a request is there, as the plan has it;
    `beside_tokens` of idle cache outside GPU memory. `machine`: servers of another make, by their ledger and
    their number (None: engines' own rules, `Server`)."""

    id: str
    role: Role
    servers: int
    step: StepCosts
    rules: Settings
    request_s: float = 0.0
    emitted: float = 1.0
    rps: float = 1.0
    stay_s: float = 1.0
    beside_tokens: float = 0.0
    text_token_s: float = 0.0
    machine: Callable[[Ledger, int], Machine] | None = None

    def started_s(self, isl: float) -> float:
        """Seconds beside the steps of a request with a prompt of `isl` tokens."""
        return self.request_s + self.text_token_s * isl


@dataclass(frozen=True)
class Load:
    """Requests in order of arrival, each of a `bucket` (n,); `new` prompt tokens computed by group (n,), or
    what is found is followed by `blocks`. `in_flight`: a closed loop: so many come at their times, each of
    the others when one ends (None: all come at their times), and the first `met` are met in the middle of
    their answers: they are with who makes their tokens. `span_s`: how long it will take, about (0: nobody
    knows)."""

    requests: Requests
    bucket: Ints
    new: Mapping[str, Floats]
    in_flight: int | None = None
    blocks: Blocks | None = None
    met: int = 0
    span_s: float = 0.0


@dataclass(frozen=True)
class Trouble:
    """One server of a group `fails` at that second (None: none does), or is `slower` by a factor all
    along; each of several is another server, slow ones the first and failing ones the last of their group."""

    group: str
    fails_s: float | None = None
    slower: float = 1.0


class Pool:
    """The servers of a group."""

    def __init__(self, group: Group, load: Load, trouble: Sequence[Trouble]) -> None:
        r = load.requests
        osl = r.osl if group.emitted == 1 else 1 + np.ceil((r.osl - 1) / group.emitted)
        lengths = (r.isl, osl, load.new.get(group.id, r.computed))
        self.group, self.ledger = group, Ledger(*(a.astype(np.int64).tolist() for a in lengths))
        slower = [t.slower for t in trouble if t.group == group.id and t.slower != 1.0]
        steps = [slowed(group.step, by) for by in slower[: group.servers]]
        steps += [group.step] * (group.servers - len(steps))
        made = group.machine
        self.servers: list[Machine] = [
            self._server(step, load.blocks) if made is None else made(self.ledger, i)
            for i, step in enumerate(steps)
        ]
        self.gone: list[Machine] = []
        self.place = {id(s): i for i, s in enumerate(self.servers)}
        self.emptiest = [(0, i) for i in range(len(self.servers))]  # heap; stale where `inside` is another

    def _server(self, step: StepCosts, blocks: Blocks | None) -> Server:
        group, cache = self.group, None
        if blocks is not None and group.role != "decode":
            cache = PrefixCache(blocks, self.ledger.isl, int(group.beside_tokens // blocks.tokens))
        return Server(step, group.rules, self.ledger, group.role, group.emitted, cache)

    @property
    def least(self) -> Machine:
        """The server with the fewest unfinished requests, the first of them."""
        servers, heap = self.servers, self.emptiest
        if len(servers) <= FEW:
            return min(servers, key=INSIDE)
        while True:
            inside, i = heap[0]
            if i < len(servers) and servers[i].inside == inside:
                return servers[i]
            heappop(heap)

    def sent(self, server: Machine) -> None:
        """A request is on its way to a server."""
        server.inside += 1
        self.changed(server)

    def changed(self, server: Machine) -> None:
        """A server has another number of unfinished requests."""
        if len(self.servers) > FEW:
            heappush(self.emptiest, (server.inside, self.place[id(server)]))

    def has(self, server: Machine) -> bool:
        """Whether a server is one of those that are left."""
        return self.place.get(id(server), len(self.servers)) < len(self.servers)

    def fail(self) -> list[int]:
        """Its last server fails; the requests that it had."""
        server = self.servers.pop()
        self.gone.append(server)
        return server.leave_all()


def slowed(s: StepCosts, by: float) -> StepCosts:
    """Steps so many times as long."""
    times = {k: getattr(s, k) * by for k in ("t0_s", "token_s", "pair_s", "sequence_s", "context_s")}
    return replace(s, **times, alone_s=tuple(x * by for x in s.alone_s))


def known_tokens(servers: Sequence[Machine]) -> tuple[int, int]:
    """Prompt tokens that the servers' caches were asked for, and those found."""
    caches = [s.cache for s in servers if isinstance(s, Server) and s.cache is not None]
    return sum(c.asked_tokens for c in caches), sum(c.found_tokens for c in caches)


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

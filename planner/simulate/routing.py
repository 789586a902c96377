"""Which servers a request goes to: the ways of a plan, and who chooses among them.

*planned*: each bucket's requests take the plan's ways in the plan's shares (the way that is furthest behind
its share), and inside a group the server with the fewest unfinished requests. *least-load*: of all servers
that any way of the bucket begins at, the one with the fewest unfinished requests for what the plan sends it.
*prefix-aware*: the server that has most of the prompt in its cache, as long as loads are even; else as
least-load (the rule of SGLang's router, with its thresholds as defaults). *random*: any way and any server,
by the plan's shares: what the plan's formulas are for, as each server then has random arrivals of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from planner.errors import InputError
from planner.simulate.loop import Machine
from planner.simulate.pools import Load, Pool
from planner.simulate.server import Server

Routing = Literal["planned", "least-load", "prefix-aware", "random"]

APART, TIMES = 64, 1.5
"""Loads are uneven where servers differ by more than so many requests and by more than so many times."""


@dataclass(frozen=True)
class Way:
    """A `share` of the requests of a bucket goes to `first`, and to `second` for its tokens where that is
    another group."""

    share: float
    first: str
    second: str | None = None


class Router(Protocol):
    """Who chooses."""

    def first(self, request: int) -> tuple[Way, Machine] | None:
        """Where a request goes for its prompt, and on which way; None: no server is left."""

    def second(self, request: int, way: Way) -> Machine | None:
        """Where it goes for its tokens, of a way that has two ends; chosen when the prompt is done."""


@dataclass
class View:
    """What routers see: pools by group, the ways of each bucket, the load. `whole`: every group has servers
    left."""

    pools: Mapping[str, Pool]
    ways: Sequence[Sequence[Way]]
    load: Load
    whole: bool = True

    def __post_init__(self) -> None:
        self.bucket: list[int] = self.load.bucket.tolist()

    def alive(self, request: int) -> Sequence[Way]:
        """Ways of its bucket on which servers are left."""
        ways = self.ways[self.bucket[request]]
        return ways if self.whole else [way for way in ways if self.stands(way)]

    def stands(self, way: Way) -> bool:
        """Whether a way has a server at each end."""
        ends = (way.first, way.second)
        return all(self.pools[name].servers for name in ends if name is not None)


class Planned:
    """By the plan's shares; in a closed loop by how many requests the plan has on each way."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.sent: dict[tuple[int, Way], float] = {}

    def first(self, request: int) -> tuple[Way, Machine] | None:
        alive = self.view.alive(request)
        if not alive:
            return None
        way = alive[0]
        if len(alive) > 1:
            bucket = self.view.bucket[request]
            way = min(alive, key=lambda w: (self.sent.get((bucket, w), 0.0) + 1) / self.part(w))
            self.sent[bucket, way] = self.sent.get((bucket, way), 0.0) + 1
        return way, self.choose(self.view.pools[way.first])

    def second(self, request: int, way: Way) -> Machine | None:
        pool = self.view.pools[str(way.second)]
        return self.choose(pool) if pool.servers else None

    def choose(self, pool: Pool) -> Machine:
        """A server of a group."""
        return pool.least

    def part(self, way: Way) -> float:
        """What a way is to get, for that of others."""
        if self.view.load.in_flight is None:
            return way.share
        return way.share * sum(self.view.pools[name].group.stay_s for name in (way.first, way.second) if name)


class LeastLoad(Planned):
    """To whichever server has the fewest for what it was planned for."""

    def first(self, request: int) -> tuple[Way, Machine] | None:
        found = [(way, self.view.pools[way.first].least) for way in self.view.alive(request)]
        return min(found, key=self.crowd, default=None)

    def crowd(self, where: tuple[Way, Machine]) -> float:
        """Unfinished requests of a server, with the next one, for what the plan sends one."""
        group = self.view.pools[where[0].first].group
        return (where[1].inside + 1) * group.servers / max(group.rps, 1e-12)


class PrefixAware(LeastLoad):
    """To the server that knows most of the prompt, while loads are even."""

    def first(self, request: int) -> tuple[Way, Machine] | None:
        ways = {way.first: way for way in self.view.alive(request)}
        servers = [(way, s) for way in ways.values() for s in self.view.pools[way.first].servers]
        if not servers:
            return None
        inside = [s.inside for _, s in servers]
        if max(inside) - min(inside) > APART and max(inside) > TIMES * min(inside):
            return super().first(request)
        return min(servers, key=lambda each: (-_known(each[1], request), self.crowd(each)))


class AtRandom(Planned):
    """To any server, whatever waits there, by what the plan sends it."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.rng = Random(0)

    def first(self, request: int) -> tuple[Way, Machine] | None:
        alive = self.view.alive(request)
        if not alive:
            return None
        way = self.rng.choices(alive, [self.part(way) for way in alive])[0]
        return way, self.choose(self.view.pools[way.first])

    def choose(self, pool: Pool) -> Machine:
        return self.rng.choice(pool.servers)


def _known(server: Machine, request: int) -> int:
    cache = server.cache if isinstance(server, Server) else None
    return cache.match(request) if cache is not None else 0


ROUTERS: dict[str, Callable[[View], Router]] = {
    "planned": Planned,
    "least-load": LeastLoad,
    "prefix-aware": PrefixAware,
    "random": AtRandom,
}


def router(name: str, view: View) -> Router:
    """The one of that name. Raises InputError where nothing says what prompts share."""
    if name == "prefix-aware" and view.load.blocks is None:
        text = "prefix-aware routing needs to know which prompts begin alike, and these requests do not say"
        raise InputError(text, "--routing", "give a trace with `prefix_id`, or one with `hash_ids`")
    return ROUTERS[name](view)

"""Replay of requests on chains of nodes: the truth that `--engine chains` is tested against.

A closed loop, as in offline serving: `in_flight` requests at a time, the next one enters where one ends.

- **Chain.** Each request takes one by its share: of the chains with room the one furthest behind its share
  (smooth weighted round robin), so figures do not depend on luck. It holds a place and its cache on every
  node of it, from entry to its last token. A node has room while fewer than `places` requests are in flight
  on it and their cache fits `kv_tokens`; an empty one takes any.
- **Way.** Its prompt passes the nodes whole, one after the other, and makes the first token; then every token
  passes them once. A token is made when it is back where requests come from, and only then the next one
  starts.
- **Pass.** An idle node takes what waits, in order: all tokens, and prompts while they fit `prompt_tokens`
  (at least one). One pass lasts

      pass_s + sum over layers (decode_s(tokens in that layer) + prompt_s of each prompt in it)

  and all of it leaves at its end, in the order in which it came: tokens wait behind prompts and travel with
  them. What comes meanwhile waits for the next pass.
- **Wire.** Messages go one by one, first come first served, `token_bytes` for each token; each then takes
  `latency_s` more. Ways to and from the nodes (`away_s`, `back_s`) carry token ids and take no bandwidth.

Figures are of the time from `warm_s` on. Error: none against these rules. Not modelled: cache beyond what a
request counts for (its growth is averaged), prompts cut in chunks, nodes that fail.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from benchmarks.replays.chain_net import Chain, Leg, Net, Result
from benchmarks.replays.chain_servers import Server, Wire, held_part
from planner.designs.shape import Floats
from planner.errors import InputError
from planner.simulate.requests import Requests


def replay(
    net: Net,
    requests: Requests,
    held_tokens: Floats,
    in_flight: float,
    window: tuple[float, float] = (0.0, math.inf),
) -> Result:
    """Replay until the window's end, or the last request's. `held_tokens` (requests,): the cache that each
    counts for on every node.

    >>> from benchmarks.replays.chain_net import Hop, Node
    >>> one = Node("n", 10, decode=[(1, 1e-3)], prompt=[(0, 0.0), (100, 10e-3)], pass_s=5e-3)
    >>> net = Net([one], [], [Chain(1.0, [Hop(0, (0, 10))], [])], token_bytes=0.0)
    >>> lone = Requests(np.array([0.0]), np.array([100]), np.array([11]))
    >>> result = replay(net, lone, lone.isl, in_flight=1)  # 5 + 10 x 10 ms, then 10 steps of 5 + 10 x 1 ms
    >>> round(result.ttft_s, 6), round(result.tpot_s, 6), round(float(result.end_s[0]), 6)
    (0.105, 0.015, 0.255)
    """
    run = _Run(net, requests, held_tokens, in_flight)
    return run.result(*run.until(*window))


@dataclass(frozen=True)
class _Sums:
    """What has been counted until a moment."""

    at_s: float
    steps: int
    steps_s: float
    prompts: int
    prompts_s: float
    inside_s: float
    servers: list[float]
    wires: list[float]


class _Run:
    """The event loop: (time, whether after all others of that time, number, what, of which request or
    server)."""

    def __init__(self, net: Net, requests: Requests, held_tokens: Floats, in_flight: float) -> None:
        self.net, self.most = net, in_flight
        self.isl, self.osl, self.new = (
            [int(x) for x in a] for a in (requests.isl, requests.osl, requests.computed)
        )
        self.tokens = [float(x) for x in held_tokens]
        if len(self.tokens) != len(requests):
            raise InputError("`held_tokens` needs one figure a request", "held_tokens")
        number = count()
        self.copies = [
            [Server(node=node, index=next(number)) for _ in range(node.copies)] for node in net.nodes
        ]
        self.servers = [server for copies in self.copies for server in copies]
        self.wires = [Wire() for _ in net.wires]
        self.behind, self.taken = [0.0] * len(net.chains), [0] * len(net.chains)
        self.chain, self.way = [0] * len(requests), [list[Server]() for _ in range(len(requests))]
        self.hop, self.made = [0] * len(requests), [0] * len(requests)
        self.entry_s, self.first_s, self.end_s, self.sent_s = ([math.nan] * len(requests) for _ in range(4))
        self.events: list[tuple[float, bool, int, Callable[[int], None], int]] = []
        self.number, self.now_s, self.entered, self.inside = count(), 0.0, 0, 0
        self.steps = self.prompts = 0
        self.steps_s = self.prompts_s = self.inside_s = 0.0
        self.prompt_s = [np.array(node.prompt).T for node in net.nodes]

    def until(self, warm_s: float, end_s: float) -> tuple[_Sums, _Sums]:
        """The counts at both ends of the window."""
        self._admit(0)
        self._before(warm_s)
        if not self.events:
            raise InputError(f"all requests have ended before the warm-up of {warm_s:g} s", "window")
        self._pass_to(warm_s)
        begun = self._sums()
        self._before(end_s)
        if self.events:
            self._pass_to(end_s)
        return begun, self._sums()

    def _before(self, end_s: float) -> None:
        """All that happens until then."""
        while self.events and self.events[0][0] < end_s:
            at_s, *_, what, which = heappop(self.events)
            self._pass_to(at_s)
            what(which)

    def _pass_to(self, at_s: float) -> None:
        self.inside_s += self.inside * (at_s - self.now_s)
        self.now_s = at_s

    def _at(self, at_s: float, what: Callable[[int], None], which: int) -> None:
        heappush(self.events, (at_s, what == self._start, next(self.number), what, which))

    def _admit(self, _: int) -> None:
        """Requests enter in order while there is a chain with room for the next."""
        while self.inside < self.most and self.entered < len(self.isl):
            ways = [self._free(chain, self.tokens[self.entered]) for chain in self.net.chains]
            behind = [b + chain.share for b, chain in zip(self.behind, self.net.chains, strict=True)]
            able = [i for i, way in enumerate(ways) if way]
            if not able:
                return
            chosen = max(able, key=lambda i: behind[i])
            behind[chosen] -= 1.0
            self.behind = behind
            self._enter(self.entered, chosen, ways[chosen])

    def _free(self, chain: Chain, tokens: float) -> list[Server]:
        """The emptiest copy of every node of a chain; none where one has no room."""
        way = [min(self.copies[hop.node], key=lambda s: s.inside) for hop in chain.hops]
        fits = all(s.fits(held_part(s, hop) * tokens) for s, hop in zip(way, chain.hops, strict=True))
        return way if fits else []

    def _enter(self, request: int, chosen: int, way: list[Server]) -> None:
        self.entered += 1
        self.inside += 1
        self.taken[chosen] += 1
        self.chain[request], self.way[request] = chosen, way
        self.entry_s[request] = self.sent_s[request] = self.now_s
        self._hold(request, 1)
        self._at(self.now_s + self.net.chains[chosen].away_s, self._arrive, request)

    def _hold(self, request: int, sign: int) -> None:
        hops = self.net.chains[self.chain[request]].hops
        for server, hop in zip(self.way[request], hops, strict=True):
            server.hold(sign * held_part(server, hop) * self.tokens[request], sign)

    def _arrive(self, request: int) -> None:
        """A prompt or token is at its next node."""
        server = self.way[request][self.hop[request]]
        server.waiting.append(request)
        if server.idle:
            self._wake(server)

    def _wake(self, server: Server) -> None:
        """A pass begins once all that comes at this moment is there."""
        server.idle = False
        self._at(self.now_s, self._start, server.index)

    def _start(self, index: int) -> None:
        """A pass over what waits: all tokens, and prompts as far as they fit."""
        server = self.servers[index]
        left, later, visits = server.node.prompt_tokens, deque[int](), list[tuple[int, int]]()
        seconds, prompts = server.node.pass_s, 0
        for request in server.waiting:
            hop = self.net.chains[self.chain[request]].hops[self.hop[request]]
            if self.made[request]:
                visits.append(hop.layers)
            elif not prompts or (not later and self.new[request] <= left):
                prompts, left = prompts + 1, left - self.new[request]
                each = float(np.interp(self.new[request], *self.prompt_s[hop.node]))
                seconds += (hop.layers[1] - hop.layers[0]) * each
            else:
                later.append(request)
                continue
            server.batch.append(request)
        server.waiting = later
        end_s = server.take(self.now_s, seconds + server.decode_s(visits))
        self._at(end_s, self._leave, server.index)

    def _leave(self, index: int) -> None:
        """A pass is over."""
        server = self.servers[index]
        batch, server.batch = server.batch, []
        sent: dict[tuple[Leg, int], list[int]] = {}
        for place, request in enumerate(batch):
            chain, hop = self.net.chains[self.chain[request]], self.hop[request]
            if hop + 1 == len(chain.hops):
                self._at(self.now_s + chain.back_s, self._home, request)
                continue
            self.hop[request] = hop + 1
            message = chain.hops[hop + 1].node if self.net.together else -1 - place
            sent.setdefault((chain.legs[hop], message), []).append(request)
        for (leg, _), requests in sent.items():
            tokens = sum(1 if self.made[r] else self.new[r] for r in requests)
            seconds = tokens * self.net.token_bytes / leg.bytes_per_s
            there_s = self.wires[leg.wire].take(self.now_s, seconds) + leg.latency_s
            for request in requests:
                self._at(there_s, self._arrive, request)
        server.idle = True
        if server.waiting:
            self._wake(server)

    def _home(self, request: int) -> None:
        """A token is made; the next one starts, or the request ends."""
        took_s, self.sent_s[request] = self.now_s - self.sent_s[request], self.now_s
        self.made[request] += 1
        if self.made[request] == 1:
            self.first_s[request] = self.now_s
            self.prompts, self.prompts_s = self.prompts + 1, self.prompts_s + took_s
        else:
            self.steps, self.steps_s = self.steps + 1, self.steps_s + took_s
        if self.made[request] < self.osl[request]:
            self.hop[request] = 0
            self._at(self.now_s + self.net.chains[self.chain[request]].away_s, self._arrive, request)
            return
        self.end_s[request] = self.now_s
        self.inside -= 1
        self._hold(request, -1)
        if self.entered < len(self.isl):
            self._at(self.now_s + self.net.pause_s, self._admit, request)

    def _sums(self) -> _Sums:
        lines = [[line.used_s(self.now_s) for line in lines] for lines in (self.servers, self.wires)]
        done = self.steps, self.steps_s, self.prompts, self.prompts_s, self.inside_s
        return _Sums(self.now_s, *done, *lines)

    def result(self, begun: _Sums, ended: _Sums) -> Result:
        """What was counted between two moments."""
        span_s = ended.at_s - begun.at_s
        steps, prompts = ended.steps - begun.steps, ended.prompts - begun.prompts
        busy = np.subtract(ended.servers, begun.servers) / span_s
        use = np.subtract(ended.wires, begun.wires) / span_s
        named = [(c[0].node.name, c) for c in self.copies]
        return Result(
            entry_s=np.array(self.entry_s),
            first_s=np.array(self.first_s),
            end_s=np.array(self.end_s),
            made=np.array(self.made, dtype=float),
            span_s=span_s,
            decode_tok_per_s=steps / span_s,
            tpot_s=(ended.steps_s - begun.steps_s) / steps if steps else math.nan,
            ttft_s=(ended.prompts_s - begun.prompts_s) / prompts if prompts else math.nan,
            in_flight=(ended.inside_s - begun.inside_s) / span_s,
            busy={name: float(np.mean([busy[s.index] for s in copies])) for name, copies in named},
            wire_use=dict(zip(self.net.wires, use.tolist(), strict=True)),
            taken=self.taken,
            peak={name: max(s.peak for s in copies) for name, copies in named},
            kv_peak_tokens={name: max(s.held_peak for s in copies) for name, copies in named},
        )

"""Prediction: tokens/s and latency of requests that stay on their nodes until they are answered.

A request holds KV cache on every node of its route, so memory fixes how many are in flight, and Little's law
does the rest. With shares s[i] of the requests through node i (k[i] layers) and s[e] over link e:

    N    = min over nodes of room[i] / s[i]          room[i] requests fit on node i with k[i] layers
    T    = sum s[i] t[i] (1 + met[i] busy[i] / 2) + sum s[e] hop[e]   a token's trip where no prompt is ahead,
           t[i] = k[i] decode[i], busy[i] = t / (t + exp(-a t) / a), a = X s[i]: a node passes its layers in
           turn, and tokens that come meanwhile wait half a pass
    met[i] = 1 - TOGETHER sum(j) (s[j,i] / s[i])^2                    tokens of one node leave it together and
           do not wait for each other at the next (before the first node stand the last ones)
    D[i] = k[i] prompt[i],  D[e] = a prompt's seconds on e          what a prompt's trip takes beyond that
    x[i] = rate s[i] D[i] + F[i] + B[i],  rate = X / output         prompts that a token may stand behind
    F[i] = sum(j) (s[i,j] / s[i])^2 (rate s[e] D[e] + rate s[j] D[j] + F[j]), B[i] alike backwards: where
           routes fork, a token and the prompt ahead stay together only by chance
    W    = sum s[i] D[i] behind(x[i]) / (1 - rate s[i] D[i] - BESIDE X s[i] t[i])
           + LINKED * sum s[e] D[e] behind(x[e]) / (1 - rate s[e] D[e])
    tau  = T + W,  X = N / (tau + (T + D) / output)

where 1 / (1 - load) is the queue of prompts, which decodes beside them lengthen. `behind(x)` is
1 - (1 - exp(-x)) / x for prompts of one length (a token waits for what is left of the prompt ahead, then
travels with it) and gamma + ln x + E1(x) for exponential ones; SPREAD of the latter is mixed in.

Source: Helix's simulator and lengths. SPREAD, LINKED, TOGETHER and BESIDE are fitted, on fifty replays of
plans on its six public clusters (40-900 tokens/s); docs/placement.md states how far X is off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import exp1

from solvers.placement.service import Service
from solvers.placement.shares import SINK, SOURCE, Route
from solvers.placement.types import Interval

SPREAD = 0.2
"""How far prompts' lengths are from one length (0) towards exponential ones (1)."""
LINKED = 0.5
"""Part of the time that tokens would wait on links which they do wait."""
TOGETHER = 0.75
"""Part of the tokens that left a node together which reach the next one together."""
BESIDE = 0.15
"""Part of a node's decode work that prompts queue for as for prompts."""
FREE = 0.05
"""Part of a node's time that prompts leave at least: a fuller node is not told apart."""


@dataclass(frozen=True)
class Served:
    """A plan and what it is predicted to serve."""

    intervals: Mapping[int, Interval]
    shares: Mapping[Route, float]
    in_flight: float
    tokens_per_s: float
    decode_s: float
    prompt_s: float


def behind(x: float) -> float:
    """The part of a prompt's time that a token waits when `x` prompts arrive in that time.

    >>> round(behind(0.0), 3), round(behind(1.0), 3)
    (0.0, 0.454)
    """
    if x < 1e-6:
        return 0.0
    same = 1 - (1 - math.exp(-x)) / x
    spread = float(np.euler_gamma + math.log(x) + exp1(x))
    return (1 - SPREAD) * same + SPREAD * spread


def queued(load: float) -> float:
    """How many times longer prompts hold up tokens where they fill `load` of a node's time, and so queue."""
    return 1 / max(FREE, 1 - load)


def predict(service: Service, intervals: Mapping[int, Interval], shares: Mapping[Route, float]) -> Served:
    """The closed form for a placement and the shares of its links (fractions of all requests)."""
    net = service.network
    trip = _Trip(service, intervals, shares)
    held = {i: service.room[net.kinds[i]][e - s - 1] for i, (s, e) in intervals.items()}
    covered = (sum(held[i] for i, (s, e) in intervals.items() if s <= at < e) for at in range(net.layers))
    in_flight = min(min(covered), *(held[i] / share for i, share in trip.through.items() if share > 0))
    served = in_flight
    for _ in range(25):
        alone, wait = trip.alone(served), trip.wait(served / service.output)
        served = (served + in_flight / (alone + wait + (alone + trip.prompt) / service.output)) / 2
    return Served(dict(intervals), dict(shares), in_flight, served, alone + wait, alone + trip.prompt)


class _Trip:
    """The sums of the docstring for one placement."""

    def __init__(
        self, service: Service, intervals: Mapping[int, Interval], shares: Mapping[Route, float]
    ) -> None:
        self.service, self.intervals, self.shares = service, intervals, shares
        kinds = service.network.kinds
        self.through = dict.fromkeys(intervals, 0.0)
        for (_, to), share in shares.items():
            if to != SINK:
                self.through[to] += share
        self.held = {i: (e - s) * service.prompt_s[kinds[i]] for i, (s, e) in intervals.items()}
        self.hop, self.sent = 0.0, dict[Route, float]()
        for route, share in shares.items():
            latency, token = _link(service, *route)
            self.hop += share * (latency + token)
            self.sent[route] = service.prompt * token
        with_it = dict.fromkeys(intervals, 0.0)
        last = sum(share**2 for (_, to), share in shares.items() if to == SINK)
        for (a, b), share in shares.items():
            if b != SINK:
                with_it[b] += last if a == SOURCE else (share / self.through[b]) ** 2
        self.met = {i: 1 - TOGETHER * same for i, same in with_it.items()}
        self.prompt = sum(self.through[i] * d for i, d in self.held.items())
        self.prompt += sum(shares[e] * d for e, d in self.sent.items())

    def alone(self, tokens_per_s: float) -> float:
        kinds = self.service.network.kinds
        passes = (
            share * pass_s(self.service, kinds[i], end - start, tokens_per_s * share, self.met[i])
            for (i, (start, end)), share in zip(self.intervals.items(), self.through.values(), strict=True)
        )
        return self.hop + sum(passes)

    def wait(self, rate: float) -> float:
        """W: what tokens wait behind prompts."""
        share = self.through
        node = {i: rate * share[i] * d for i, d in self.held.items()}
        link = {e: rate * self.shares[e] * d for e, d in self.sent.items()}
        beside = {i: self._beside(i, rate) for i in self.held}
        ahead, back = dict.fromkeys([SINK, *node], 0.0), dict.fromkeys([SOURCE, *node], 0.0)
        node[SOURCE] = node[SINK] = 0.0
        leaving = sorted(self.shares, key=lambda e: -self.intervals[e[0]][1] if e[0] >= 0 else 1)
        for a, b in leaving:
            if a >= 0:
                ahead[a] += (self.shares[a, b] / share[a]) ** 2 * (link[a, b] + node[b] + ahead[b])
        for a, b in sorted(self.shares, key=lambda e: self.intervals[e[1]][0] if e[1] >= 0 else math.inf):
            if b >= 0:
                back[b] += (self.shares[a, b] / share[b]) ** 2 * (link[a, b] + node[a] + back[a])
        wait = sum(
            share[i] * d * behind(node[i] + ahead[i] + back[i]) * queued(node[i] + beside[i])
            for i, d in self.held.items()
        )
        for (a, b), d in self.sent.items():
            on = self.shares[a, b]
            met = link[a, b]
            met += on / share[b] * (node[b] + ahead[b]) if b >= 0 else 0.0
            met += on / share[a] * (node[a] + back[a]) if a >= 0 else 0.0
            wait += LINKED * on * d * behind(met) * queued(link[a, b])
        return wait

    def _beside(self, node: int, rate: float) -> float:
        start, end = self.intervals[node]
        served = rate * self.service.output * self.through[node]
        return beside(self.service, self.service.network.kinds[node], end - start, served)


def beside(service: Service, kind: str, layers: int, arrivals: float) -> float:
    """What `arrivals` tokens/s add to the load that prompts queue for."""
    return BESIDE * min(1.0, arrivals * layers * service.decode_s(kind, 2.0))


def pass_s(service: Service, kind: str, layers: int, arrivals: float, met: float) -> float:
    """Seconds of a token on a node of `layers` that gets `arrivals` tokens/s, with its wait for a pass.

    `met`: the part of the other tokens that come from another node than it does.
    """
    first = layers * service.decode_s(kind, 2.0)
    t = layers * service.decode_s(kind, arrivals * first)
    if arrivals <= 0:
        return t
    return t * (1 + met * t / (t + math.exp(-arrivals * t) / arrivals) / 2)


def _link(service: Service, a: int, b: int) -> tuple[float, float]:
    """Latency and seconds a token."""
    net = service.network
    if a == SOURCE:
        return float(service.from_source[b]), 1 / float(net.source[b])
    if b == SINK:
        return float(service.to_sink[a]), 1 / float(net.sink[a])
    return float(service.latency[a, b]), 1 / float(net.link[a, b])


def renamed(plan: Served, nodes: Sequence[int]) -> Served:
    """The plan of a part of the cluster: its node i is `nodes[i]`."""
    shares = {
        (nodes[a] if a >= 0 else a, nodes[b] if b >= 0 else b): share for (a, b), share in plan.shares.items()
    }
    return replace(plan, intervals={nodes[i]: iv for i, iv in plan.intervals.items()}, shares=shares)


def together(plans: Sequence[Served]) -> Served:
    """Replicas that share no node, each taking requests as fast as it serves them; latencies are means."""
    total = sum(p.tokens_per_s for p in plans)
    part_of = [p.tokens_per_s / total for p in plans]
    return Served(
        {i: iv for p in plans for i, iv in p.intervals.items()},
        {e: x * share for p, x in zip(plans, part_of, strict=True) for e, share in p.shares.items()},
        sum(p.in_flight for p in plans),
        total,
        sum(x * p.decode_s for p, x in zip(plans, part_of, strict=True)),
        sum(x * p.prompt_s for p, x in zip(plans, part_of, strict=True)),
    )

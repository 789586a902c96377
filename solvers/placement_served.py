"""Served placement: tokens/s and latency of requests that stay on their nodes until they are answered.

A request holds KV cache on every node of its route, so memory fixes how many are in flight, and Little's law
does the rest. With shares s[i] of the requests through node i (k[i] layers) and s[e] over link e:

    N    = min over nodes of room[i] / s[i]          room[i] requests fit on node i with k[i] layers
    T    = sum s[i] t[i] (1 + busy[i] / 2) + sum s[e] hop[e]        a token's trip where no prompt is ahead,
           t[i] = k[i] decode[i], busy[i] = t / (t + exp(-a t) / a), a = X s[i]: a node passes its layers in
           turn, and tokens that come meanwhile wait half a pass
    D[i] = k[i] prompt[i],  D[e] = a prompt's seconds on e          what a prompt's trip takes beyond that
    x[i] = rate s[i] D[i] + F[i] + B[i],  rate = X / output         prompts that a token may stand behind
    F[i] = sum(j) (s[i,j] / s[i])^2 (rate s[e] D[e] + rate s[j] D[j] + F[j]), B[i] alike backwards: where
           routes fork, a token and the prompt ahead stay together only by chance
    W    = sum s[i] D[i] behind(x[i]) / (1 - rate s[i] D[i]) + LINKED * sum s[e] D[e] behind(x[e])
    tau  = T + W,  X = N / (tau + (T + D) / output)

where 1 / (1 - rate s D) is the queue of prompts. `behind(x)` is 1 - (1 - exp(-x)) / x for prompts of
one length (a token waits for what is left of the prompt ahead, then travels with it) and gamma + ln x + E1(x)
for exponential ones; SPREAD of the latter is mixed in.

Source: Helix's simulator and lengths. SPREAD and LINKED are fitted on twelve replays on two clusters of 24
nodes (150-345 tokens/s), where X is then -15 to +7 % off; on three other clusters -19 to +19 %.

The plan: stages (all nodes of a stage hold the same layers, shares in proportion to room) that fit N
requests, N swept for the front of throughput against latency.

Sets       r in R   regions, in groups one after another; those of a group stand side by side, share[r] of it
           b in B[r]   minimal stages that fit N * share[r] requests, of length[b] layers
Choose     z[b] integer >= 0   stages       m[g] integer >= 1   layers of group g of regions
minimise   sum(b) share * z[b] * (T[b] + D[b] * behind(x[b]) + (T[b] + D[b]) / output)
stock[r,t]  sum(b in r) nodes[b,t] * z[b]  <= nodes[r,t]
layers[r]   sum(b in r) length[b] * z[b]   == m[group of r]
all         sum(g) m[g]                    == L

x[b] as if the stages beside b were like it; the rate is the last plan's, a few times over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from scipy.special import exp1

from solvers import placement_blocks, placement_patterns
from solvers.linear import Floats, Limits, Linear, total
from solvers.placement_blocks import Block
from solvers.placement_routing import Slot, seated
from solvers.placement_shares import SINK, SOURCE, Route, balanced
from solvers.placement_types import Interval, Network, part

SPREAD = 0.2
"""How far prompts' lengths are from one length (0) towards exponential ones (1)."""
LINKED = 0.5
"""Of the time that tokens would wait on links."""
FREE = 0.05
"""Of a node's time that prompts leave at least: a fuller node is not told apart."""
ROUNDS = 2
"""Programs solved for one plan, each at the rate of the one before."""
COARSE, FINE = 4, 12
"""Numbers of requests in flight that are tried, by equal steps up to the most that could fit."""
NEARLY = 0.9
"""Of the most tokens/s: what a plan chosen for its latency must reach."""
LEAST = 0.3
"""Of the most requests that could fit: the fewest in a sweep."""
GAP, NODES = 1e-3, 200
"""Of an integer program in the sweep: what stops it."""


@dataclass(frozen=True)
class Service:
    """What serving takes. `network` gives links in tokens/s.

    `room[kind][k - 1]` requests that fit on a node of k layers; `decode[kind]` (batch, seconds) of one layer,
    batches rising; `prompt_s[kind]` seconds of a mean prompt in one layer; `prompt`, `output` mean tokens;
    `latency` (nodes, nodes), `from_source` and `to_sink` (nodes,) seconds.
    """

    network: Network
    room: Mapping[str, Sequence[float]]
    decode: Mapping[str, Sequence[tuple[float, float]]]
    prompt_s: Mapping[str, float]
    prompt: float
    output: float
    latency: Floats
    from_source: Floats
    to_sink: Floats

    @cached_property
    def memory(self) -> Network:
        """The same nodes, with requests in place of tokens/s, joined without limit."""
        free = placement_patterns.without_links(self.network)
        return replace(free, capacity=self.room)

    @cached_property
    def alone(self) -> dict[int, Network]:
        """`memory` of each region."""
        region = self.network.regions
        return {
            r: part(self.memory, [i for i, q in enumerate(region) if q == r]) for r in sorted(set(region))
        }

    @cached_property
    def knots(self) -> dict[str, tuple[Floats, Floats]]:
        """Batches above one, and the seconds of a layer: a batch of one takes as long as the next."""
        given = {kind: [k for k in knots if k[0] > 1] for kind, knots in self.decode.items()}
        return {kind: (np.array([b for b, _ in k]), np.array([s for _, s in k])) for kind, k in given.items()}

    def decode_s(self, kind: str, batch: float) -> float:
        """Seconds of a layer."""
        return float(np.interp(batch, *self.knots[kind]))


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
        self.prompt = sum(self.through[i] * d for i, d in self.held.items())
        self.prompt += sum(shares[e] * d for e, d in self.sent.items())

    def alone(self, tokens_per_s: float) -> float:
        kinds = self.service.network.kinds
        passes = (
            share * _pass_s(self.service, kinds[i], end - start, tokens_per_s * share)
            for (i, (start, end)), share in zip(self.intervals.items(), self.through.values(), strict=True)
        )
        return self.hop + sum(passes)

    def wait(self, rate: float) -> float:
        """W: what tokens wait behind prompts."""
        share = self.through
        node = {i: rate * share[i] * d for i, d in self.held.items()}
        link = {e: rate * self.shares[e] * d for e, d in self.sent.items()}
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
            share[i] * d * behind(node[i] + ahead[i] + back[i]) * queued(node[i])
            for i, d in self.held.items()
        )
        for (a, b), d in self.sent.items():
            on = self.shares[a, b]
            met = link[a, b]
            met += on / share[b] * (node[b] + ahead[b]) if b >= 0 else 0.0
            met += on / share[a] * (node[a] + back[a]) if a >= 0 else 0.0
            wait += LINKED * on * d * behind(met)
        return wait


def _pass_s(service: Service, kind: str, layers: int, arrivals: float) -> float:
    """Seconds of a token on a node of `layers` that gets `arrivals` tokens/s, with its wait for a pass."""
    first = layers * service.decode_s(kind, 2.0)
    t = layers * service.decode_s(kind, arrivals * first)
    if arrivals <= 0:
        return t
    return t * (1 + t / (t + math.exp(-arrivals * t) / arrivals) / 2)


def _link(service: Service, a: int, b: int) -> tuple[float, float]:
    """Latency and seconds a token."""
    net = service.network
    if a == SOURCE:
        return float(service.from_source[b]), 1 / float(net.source[b])
    if b == SINK:
        return float(service.to_sink[a]), 1 / float(net.sink[a])
    return float(service.latency[a, b]), 1 / float(net.link[a, b])


def chosen(plans: Sequence[Served]) -> Served:
    """Of the plans with nearly the most tokens/s, the best trade: 3 % of latency for 2 % of tokens/s."""
    most = max(p.tokens_per_s for p in plans)
    return max(
        (p for p in plans if p.tokens_per_s >= NEARLY * most),
        key=lambda p: p.tokens_per_s / p.decode_s ** (2 / 3),
    )


def front(service: Service) -> list[Served]:
    """Plans that no other beats in both tokens/s and decode latency, fastest first; none where nothing fits.

    A coarse sweep over all layouts, then a fine one over those that are on the front.
    """
    coarse = [(plan, layout) for layout in _layouts(service) for plan in _swept(service, layout, COARSE, 1)]
    kept = [layout for _, layout in _undominated(coarse)]
    fine = [(p, layout) for layout in dict.fromkeys(kept) for p in _swept(service, layout, FINE, ROUNDS)]
    return [plan for plan, _ in _undominated(coarse + fine)]


def _undominated(found: Sequence[tuple[Served, Layout]]) -> list[tuple[Served, Layout]]:
    best: list[tuple[Served, Layout]] = []
    for plan, layout in sorted(found, key=lambda f: (f[0].decode_s, -f[0].tokens_per_s)):
        if not best or plan.tokens_per_s > best[-1][0].tokens_per_s:
            best.append((plan, layout))
    return best


@dataclass(frozen=True)
class Layout:
    """Regions by group, and the share of the requests of each region in its group."""

    groups: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[int, float], ...]

    @cached_property
    def share(self) -> dict[int, float]:
        return dict(self.shares)


def _layouts(service: Service) -> Iterator[Layout]:
    """Every order of groups of regions; in a group, shares by what the regions hold."""
    net = service.network
    hold = dict.fromkeys(sorted(set(net.regions)), 0.0)
    for (region, kind), nodes in net.groups.items():
        hold[region] += len(nodes) * max(k * r for k, r in enumerate(service.room[kind], start=1))
    for groups in _ordered(tuple(hold)):
        held = {r: alone.most for r, alone in service.alone.items()} if len(groups) == 1 else hold
        shares = tuple((r, held[r] / sum(held[q] for q in group)) for group in groups for r in group)
        yield Layout(groups, shares)


def _ordered(regions: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ordered partitions of some of the regions.

    >>> list(_ordered((0, 1)))
    [((1,),), ((1,), (0,)), ((0,),), ((0,), (1,)), ((0, 1),)]
    """
    for chosen in product((False, True), repeat=len(regions)):
        group = tuple(r for r, c in zip(regions, chosen, strict=True) if c)
        if group:
            rest = tuple(r for r in regions if r not in group)
            yield (group,)
            for more in _ordered(rest):
                yield (group, *more)


def _swept(service: Service, layout: Layout, levels: int, rounds: int) -> Iterator[Served]:
    """The plan at each number of requests in flight, as far as there is one."""
    used = [i for i, r in enumerate(service.network.regions) if r in layout.share]
    most = part(service.memory, used).most
    for in_flight in np.linspace(LEAST, 1.0, levels) * most:
        plan = _planned(service, layout, float(in_flight), rounds)
        if plan is not None:
            yield plan


def _planned(service: Service, layout: Layout, in_flight: float, rounds: int) -> Served | None:
    """Stages that fit `in_flight`, of the least time."""
    blocks = {r: _stages(service, layout, r, in_flight * share) for r, share in layout.shares}
    if not all(blocks.values()):
        return None
    plan, served = None, in_flight
    for _ in range(rounds):
        chosen = _cheapest(service, layout, blocks, served)
        if chosen is None:
            return plan
        found = predict(service, *_laid(service, layout, chosen))
        if plan is None or found.tokens_per_s > plan.tokens_per_s:
            plan = found
        served = found.tokens_per_s
    return plan


def _stages(service: Service, layout: Layout, region: int, room: float) -> list[Block]:
    """All minimal stages of the region that fit `room` requests."""
    alone = service.alone[region]
    free = placement_patterns.verdict(alone, room)
    need = service.network.layers if len(layout.shares) == 1 else 0
    if free.layers < max(need, 1):
        return []
    prices = placement_blocks.Prices(room, free.worth, free.layers - need)
    found = placement_blocks.stages(alone, prices)
    wider = [w for b in found for w in _widened(alone, b)]
    unique = dict.fromkeys(
        replace(b, lanes=tuple(replace(x, region=region) for x in b.lanes)) for b in found + wider
    )
    return [b for b in unique if b.cost <= b.length + prices.slack + 1e-7]


def _widened(network: Network, block: Block) -> Iterator[Block]:
    """The stage with up to two nodes more of a kind: requests part, and meet fewer prompts."""
    lane = block.lanes[0]
    have = dict(lane.nodes)
    for kind in have:
        for more in (1, 2):
            if have[kind] + more <= network.kinds.count(kind):
                nodes = tuple(sorted((have | {kind: have[kind] + more}).items()))
                capacity = network.capacity[kind][lane.step - 1]
                capacities = tuple(sorted((*lane.capacities, *[capacity] * more), reverse=True))
                cost = lane.cost * (1 + more / sum(have.values()))
                yield Block((replace(lane, nodes=nodes, capacities=capacities, cost=cost),))


def _stage_s(service: Service, layout: Layout, block: Block, served: float) -> float:
    """Seconds that a stage adds to the trips of all requests."""
    lane, part_of = block.lanes[0], layout.share[block.region]
    rate = served / service.output
    seconds = 0.0
    apart = sum((c / lane.reach) ** 2 for c in lane.capacities)
    like = min(service.network.kinds.count(kind) / n for kind, n in lane.nodes)
    run = 1 + 2 / (1 / apart - 1 + 2 / like)
    for kind, n in lane.nodes:
        share = service.room[kind][lane.step - 1] / lane.reach
        alone = _pass_s(service, kind, lane.step, served * part_of * share)
        prompt = lane.step * service.prompt_s[kind]
        load = rate * part_of * share * prompt
        wait = prompt * behind(load * run) * queued(load)
        seconds += n * share * (alone + wait + (alone + prompt) / service.output)
    return part_of * seconds


def _cheapest(
    service: Service, layout: Layout, blocks: Mapping[int, list[Block]], served: float
) -> dict[Block, int] | None:
    """The integer program of the docstring."""
    m = Linear("served stages")
    z = m.integers("z", [b for mine in blocks.values() for b in mine])
    depth = m.integers("m", range(len(layout.groups)), service.network.layers)
    m.minimise([z[b] * _stage_s(service, layout, b, served) for b in z])
    for (region, kind), nodes in service.network.groups.items():
        taken = [z[b] * b.uses[region, kind] for b in blocks.get(region, []) if b.uses[region, kind]]
        m.add("stock", (region, kind), total(taken) <= len(nodes))
    for at, group in enumerate(layout.groups):
        for r in group:
            held = [z[b] * b.length for b in blocks[r]]
            m.add("layers", r, total([*held, depth[at] * -1.0]).equals(0.0))
    m.add("all", "", total(depth.values()).equals(service.network.layers))
    outcome = m.solve(Limits(gap=GAP, work=NODES))
    return outcome.counts(z) if outcome.has_values else None


def _laid(
    service: Service, layout: Layout, chosen: Mapping[Block, int]
) -> tuple[dict[int, Interval], dict[Route, float]]:
    """Layers of each node and shares of each link: the widest stages stand where regions meet."""
    slots: list[Slot] = []
    weight: list[float] = []
    first = 0
    for group in layout.groups:
        depth = 0
        for r in group:
            at = first
            for block in _arranged([b for b, n in chosen.items() if b.region == r for _ in range(n)]):
                lane = block.lanes[0]
                for kind, n in lane.nodes:
                    slots += [((r, kind), (at, at + lane.step))] * n
                    weight += [layout.share[r] * service.room[kind][lane.step - 1] / lane.reach] * n
                at += lane.step
            depth = at
        first = depth
    intervals = seated(service.network, slots)
    through = dict(zip(intervals, weight, strict=True))
    return intervals, balanced(service.network, intervals, through)


def _arranged(stages: list[Block]) -> list[Block]:
    """Most nodes at both ends."""
    ranked = sorted(stages, key=lambda b: (-len(b.ends), b.length, b.lanes[0].nodes))
    return ranked[::2] + ranked[1::2][::-1]

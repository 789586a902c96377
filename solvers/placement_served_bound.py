"""A bound on what any placement serves by the closed form of `placement_served` (not on a replay of it).

Sets       t in T  kinds of node      k  layers of a node
Data       room[t,k]  requests on a node      nodes[t]     layers L     N in flight     rate  prompts/s
Choose     x[t,k] >= 0   nodes of t with k layers        a[t,k] >= 0  shares of requests through them, summed
           w[t,k] >= 0   what tokens wait there for prompts
minimise   sum k a (decode + (decode + prompt) / output) + sum w                      [s]
all        sum k a                      == L           a layer's shares add up to 1
fit[t,k]   N a[t,k]                     <= room x[t,k] a node's share of N requests fits on it
stock[t]   sum(k) x[t,k]                <= nodes[t]
wait[t,k,p] w >= slope[p] a - at[p] x  tangents of the convex s k prompt * behind(rate s k prompt): its
                                       own prompts alone

For a throughput X to be reached with N to N' requests in flight, N' / (the least time at N, rate X / output)
is at least X. The largest such X over a grid of N is the bound; links, positions and forks are dropped.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from solvers.linear import Limits, Linear, Term, total
from solvers.placement_served import Service, behind

CELLS = 16
STEPS = 14
TANGENTS = (0.05, 0.2, 0.5, 1.0)
"""Shares of a node's requests at which the wait is linearised."""


def bound(service: Service, least: float) -> float:
    """Tokens/s that no placement exceeds by the closed form; `least` is known to be reached."""
    most = service.memory.most
    best = least
    for low, high in pairwise([0.0, *np.geomspace(most / 32, most, CELLS + 1)]):
        if high / _least_s(service, low, best / service.output) < best:
            continue
        below, above = best, high / _least_s(service, low, 0.0)
        for _ in range(STEPS):
            served = (below + above) / 2
            reached = high / _least_s(service, low, served / service.output) >= served
            below, above = (served, above) if reached else (below, served)
        best = above
    return best


def _least_s(service: Service, in_flight: float, rate: float) -> float:
    """The linear program of the docstring; infinite where the requests do not fit."""
    net = service.network
    items = [
        (t, k) for t in dict.fromkeys(net.kinds) for k in range(1, min(len(service.room[t]), net.layers) + 1)
    ]
    m = Linear("least time")
    x, a, w = m.reals("x", items), m.reals("a", items), m.reals("w", items)
    cost: list[Term] = [w[i] * 1.0 for i in items]
    for t, k in items:
        decode = min(seconds for batch, seconds in service.decode[t] if batch > 1)
        cost.append(a[t, k] * (k * (decode + (decode + service.prompt_s[t]) / service.output)))
    m.minimise(cost)
    m.add("all", "", total(a[t, k] * k for t, k in items).equals(net.layers))
    for t, k in items:
        m.add(
            "fit",
            (t, k),
            total(
                [
                    a[t, k] * (in_flight / most_of(service)),
                    x[t, k] * -(service.room[t][k - 1] / most_of(service)),
                ]
            )
            <= 0,
        )
        prompt = k * service.prompt_s[t]
        for p in TANGENTS:
            wait, slope = _tangent(prompt, rate, p)
            m.add(
                "wait", (t, k, p), total([a[t, k] * slope, x[t, k] * (wait - slope * p), w[t, k] * -1.0]) <= 0
            )
    for t in dict.fromkeys(net.kinds):
        m.add("stock", t, total(x[i] for i in items if i[0] == t) <= net.kinds.count(t))
    outcome = m.relax(Limits())
    hops = float(service.from_source.min() + service.to_sink.min())
    return np.inf if outcome.value is None else outcome.value + hops


def most_of(service: Service) -> float:
    """Scale of the rows."""
    return max(max(r) for r in service.room.values())


def _tangent(prompt: float, rate: float, share: float) -> tuple[float, float]:
    """Value and slope of what tokens wait, at `share` of the requests."""
    step = 1e-4

    def wait(s: float) -> float:
        return s * prompt * behind(rate * s * prompt)

    return wait(share), (wait(share + step) - wait(share - step)) / (2 * step)

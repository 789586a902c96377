"""A bound on what any placement serves by the closed form of `placement_predict` (not on a replay of it).

A replica that serves x tokens/s keeps x * H requests in flight, H the seconds that one holds its memory for
each token; on average l[t] of a request's layers are on kind t. Whatever the routes, H is at least `seconds`,
and all the replicas together fit in the memory of all the nodes:

Sets       t in T  kinds    k  layers of a node    v in V  corners of { sum(t) l = L, 0 <= l[t] <= holds[t] }
Data       room[t,k]  requests on a node     nodes[t]     holds[t]  layers that all nodes of t can hold
           seconds[v] sum(t) l[v,t] * (decode + (decode + prompt) / output) + latency of source and sink
Choose     x[v] >= 0  tokens/s of replicas with these layers by kind    n[t,k] >= 0  nodes of t with k layers
maximise   sum(v) x[v]
fit[t]     sum(v) x[v] * seconds[v] * l[v,t]  <= sum(k) n[t,k] * k * room[t,k]
stock[t]   sum(k) n[t,k]                      <= nodes[t]
hold       sum(t,k) k * n[t,k]                >= L

Corners are enough: a column costs seconds(l) * sum(t) price[t] * l[t], a product of two linear positive sums,
which is least at a corner. Dropped, so that the bound is loose: waiting for prompts and batches, links,
positions, that every replica needs weights of its own, and that batches grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations

from solvers.linear import Limits, Linear, total
from solvers.placement.service import Service


def bound(service: Service, least: float) -> float:
    """Tokens/s that no placement exceeds by the closed form; `least` is known to be reached."""
    net = service.network
    nodes = Counter(net.kinds)
    table = {t: service.room[t][: net.layers] for t in nodes}
    holds = {t: float(min(net.layers, n * len(table[t]))) for t, n in nodes.items()}
    if sum(holds.values()) < net.layers:
        return least
    each = {t: _layer_s(service, t) for t in nodes}
    hop = float(service.from_source.min() + service.to_sink.min())
    corners = list(_corners(float(net.layers), holds))
    seconds = [hop + sum(each[t] * k for t, k in v.items()) for v in corners]
    unit = max(max(k * r for k, r in enumerate(rooms, start=1)) for rooms in table.values() if rooms)
    held = [(t, k) for t in nodes for k in range(1, len(table[t]) + 1)]
    m = Linear("most served")
    x, n = m.reals("x", range(len(corners))), m.reals("n", held)
    m.minimise([x[v] * -1.0 for v in x])
    for t, count in nodes.items():
        taken = [x[v] * (seconds[v] * corners[v][t] / unit) for v in x if corners[v].get(t, 0.0)]
        room = [n[t, k] * -(k * r / unit) for k, r in enumerate(table[t], start=1)]
        m.add("fit", t, total([*taken, *room]) <= 0)
        m.add("stock", t, total(n[t, k] for k in range(1, len(table[t]) + 1)) <= count)
    m.add("hold", "", total(n[t, k] * k for t, k in held) >= net.layers)
    outcome = m.relax(Limits())
    if outcome.bound is None:  # the time ended first: all that nodes can hold, at the fewest seconds
        each_node = {t: max((k * r for k, r in enumerate(table[t], start=1)), default=0.0) for t in nodes}
        return max(least, sum(n * each_node[t] for t, n in nodes.items()) / (net.layers * min(seconds)))
    return max(least, -outcome.bound)


def _layer_s(service: Service, kind: str) -> float:
    """Seconds that a request holds a layer for each token, at the least."""
    decode = min(seconds for batch, seconds in service.decode[kind] if batch > 1)
    return decode + (decode + service.prompt_s[kind]) / service.output


def _corners(layers: float, holds: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """Some kinds hold all they can, one the rest.

    >>> list(_corners(10.0, {"a": 4.0, "b": 8.0}))
    [{'a': 4.0, 'b': 6.0}, {'b': 8.0, 'a': 2.0}]
    """
    for count in range(len(holds)):
        for full in combinations(holds, count):
            rest = layers - sum(holds[t] for t in full)
            if rest <= 0:
                continue
            for last in holds:
                if last not in full and rest <= holds[last]:
                    yield {**{t: holds[t] for t in full}, last: rest}

"""Units that may hold layers, and what the replicas that they form carry: of links, nodes and cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from planner.cost.model import CostModel
from planner.designs.shape import like
from solvers.placement.predict import Served, predict, renamed, together
from solvers.placement.routing import Chain, decomposed
from solvers.placement.service import Service
from solvers.placement.shares import SINK, SOURCE

KEPT = 0.8
"""Share of the cache that is filled: Helix's own setting (arXiv:2406.01566)."""


FULLEST = 0.95
"""Share of the cache that requests in flight may fill where some chains keep them longer than the mean."""


@dataclass(frozen=True)
class Unit:
    """`tp` GPUs of node `node` (its index in the class)."""

    node_class: str
    node: int
    tp: int


@dataclass(frozen=True)
class Posed:
    """The service, its units in the order of its nodes, and what they were made from. `shared`: tokens/s of
    each declared link, one way, and the pairs of units that it joins (units, units)."""

    service: Service
    units: tuple[Unit, ...]
    models: dict[str, CostModel]
    token_budget: dict[str, int]
    tp: dict[str, int]
    shared: tuple[tuple[float, NDArray[np.bool_]], ...]

    def replicas(self, served: Served, room: float = 1.0) -> list[Served]:
        """Parts of a plan that share no unit, each with its own figures where `room` of the cache is used."""
        used = {g: tuple(room * r for r in mine) for g, mine in self.service.room.items()}
        service, size = replace(self.service, room=used), len(self.units)
        joined = np.zeros((size, size), dtype=np.int8)
        for a, b in served.shares:
            if min(a, b) >= 0:
                joined[a, b] = 1
        _, part = connected_components(joined, directed=False)
        found, passed = [], sorted({i for e in served.shares for i in e if i >= 0})
        for p in sorted({int(part[i]) for i in passed}):
            nodes = [i for i in passed if part[i] == p]
            at = {i: n for n, i in enumerate(nodes)} | {SOURCE: SOURCE, SINK: SINK}
            own = {e: x for e, x in served.shares.items() if max(e) in nodes}
            whole = sum(x for (a, _), x in own.items() if a == SOURCE)
            shares = {(at[a], at[b]): x / whole for (a, b), x in own.items()}
            intervals = {at[i]: served.intervals[i] for i in nodes}
            found.append(renamed(predict(service.of(nodes), intervals, shares), nodes))
        return found

    def link_load(self, served: Served) -> float:
        """Use of the fullest declared link, each direction: 1 = exactly full."""
        service, size = self.service, len(self.units)
        on = np.zeros((size, size))
        for (a, b), share in served.shares.items():
            if a >= 0 and b >= 0:
                on[a, b] = share
        tokens_per_s = served.tokens_per_s * (1 + service.prompt / service.output)
        return max((tokens_per_s * float(on[over].sum()) / most for most, over in self.shared), default=0.0)

    def node_load(self, served: Served) -> float:
        """Busy share of the busiest unit of one replica: prompts, and tokens in steps of all in flight,
        with the engine's own seconds of each and the LM head on the last layers."""
        service, kinds, busiest = self.service, self.service.network.kinds, 0.0
        rate = served.tokens_per_s / service.output
        for i, (start, end) in served.intervals.items():
            share = sum(x for (_, to), x in served.shares.items() if to == i)
            batch = max(1.0, served.in_flight * share)
            own_s = self.models[kinds[i]].tuning.step_s
            token_s = (
                (end - start) * service.decode_s(kinds[i], batch) + own_s + self._head_s(i, end, batch)
            ) / batch
            request_s = (end - start) * service.prompt_s[kinds[i]] + own_s + service.output * token_s
            busiest = max(busiest, rate * share * request_s)
        return busiest

    def _head_s(self, unit: int, end: int, batch: float) -> float:
        """Seconds of the LM head in a step of a unit whose layers end at `end`; 0 where others follow."""
        model, tp = self.models[self.units[unit].node_class], self.units[unit].tp
        last = end == len(model.card.stack)
        return float(model.layers.head_s(np.array([batch]), like(1, tp))[0]) if last else 0.0

    def ways(self, replica: Served) -> list[tuple[Chain, float, float]]:
        """Chains of one replica, with seconds of a prompt and of a token: the replica's, longer or shorter as
        a chain's own way is."""
        found = decomposed(replica.intervals, replica.shares)
        shares = np.array([c.share for c in found]) / sum(c.share for c in found)
        alone = np.array([self._alone_s(replica, c) for c in found])  # (chains, prompt and token)
        slower = alone / (shares @ alone) * np.array([replica.prompt_s, replica.decode_s])
        return [
            (replace(c, share=float(share)), float(prompt), float(token))
            for c, share, (prompt, token) in zip(found, shares, slower, strict=True)
        ]

    def _alone_s(self, replica: Served, chain: Chain) -> tuple[float, float]:
        """Seconds of a prompt and of a token through a chain that nobody else uses, but for the batch."""
        service, kinds = self.service, self.service.network.kinds
        prompt = token = 0.0
        for i, (start, end) in chain.hops:
            share = sum(x for (_, to), x in replica.shares.items() if to == i)
            prompt += (end - start) * service.prompt_s[kinds[i]]
            token += (end - start) * service.decode_s(kinds[i], replica.in_flight * share)
        for (i, _), (j, _) in pairwise(chain.hops):
            message_s = 1 / float(service.network.link[i, j])
            prompt += float(service.latency[i, j]) + service.prompt * message_s
            token += float(service.latency[i, j]) + message_s
        return prompt, token

    def held_load(self, replica: Served) -> float:
        """Requests that chains keep on the fullest unit, over those that fit."""
        service, held = self.service, dict.fromkeys(replica.intervals, 0.0)
        rate = replica.tokens_per_s / service.output
        for chain, prompt, token in self.ways(replica):
            for i, _ in chain.hops:
                held[i] += rate * chain.share * (prompt + service.output * token)
        kinds = service.network.kinds
        room = {i: service.room[kinds[i]][e - s - 1] for i, (s, e) in replica.intervals.items()}
        return max(KEPT * n / room[i] for i, n in held.items())

    def carried(self, replicas: Sequence[Served]) -> bool:
        """Whether links and units have the time, and units the room."""
        if self.link_load(together(replicas)) > 1.0:
            return False
        return all(self.node_load(s) <= 1.0 and self.held_load(s) <= FULLEST for s in replicas)

    def eased(self, served: Served, prompt_s: float = math.inf, decode_s: float = math.inf) -> list[Served]:
        """The plan's replicas with as few requests in flight as links and units carry, and as keep these
        seconds of a prompt and of a token where any do, by bisection."""

        def fits(replicas: Sequence[Served]) -> bool:
            whole = together(replicas)
            return self.carried(replicas) and whole.prompt_s <= prompt_s and whole.decode_s <= decode_s

        best = self.replicas(served)
        if fits(best):
            return best
        low, high = 0.0, 1.0
        for _ in range(12):
            middle = (low + high) / 2
            tried = self.replicas(served, middle)
            low, high, best = (middle, high, tried) if fits(tried) else (low, middle, best)
        limited = min(prompt_s, decode_s) < math.inf
        return self.eased(served) if limited and not fits(best) else best

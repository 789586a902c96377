"""Balance and traffic of one layer together: exchanges of experts between nodes, then between GPUs.

A token visits node n with probability 1 - prod(e in T) (1 - s[e,n]), s[e,n] the share of e's replicas on n.
That is linear in the shares of each expert alone, so with the others as they are

    nodes per token = const + sum(n) A[e,n] s[e,n]
    A[e,n] = mean over T of [e in T] prod(f in T, f != e) (1 - s[f,n])

and the slopes A price every move at once; a move that looks good is valued exactly before it is taken.
Moves      slots p and q exchange their experts; or slot p drops e, which has another replica, and takes f.
minimise   weight * nodes per token + sum(u) max(0, time[u]/mean - cap) + sum(e) max(0, replica of e - limit)

with u first the nodes (then GPUs inside them are packed), then the GPUs. As the sum of what is above the cap
is at least the largest, this is never below what it stands for: hottest / mean - cap + weight * nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solvers.experts.types import Floats, Ints, counts

GAIN = 1e-7
VALUED, TAKEN = 48, 6
"""Moves valued exactly, and taken, each time all are priced."""


class Traffic:
    """Nodes per token of shares (experts, nodes), and its slopes, kept as shares change."""

    def __init__(self, tokens: Ints, experts: int, nodes: int) -> None:
        self.tokens = np.asarray(tokens, dtype=np.int64)
        self.count, self.each = self.tokens.shape
        self.nodes = nodes
        flat = self.tokens.ravel()
        order = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[order], np.arange(experts + 1))
        self._of = [order[a:b] // self.each for a, b in pairwise(starts)]
        self.slopes = np.zeros((experts, nodes))
        self._without = np.zeros((self.count, self.each, nodes))
        self._per_token = np.zeros(self.count)
        self.value = 0.0

    def start(self, shares: Floats) -> None:
        self.slopes[:] = 0.0
        self._without[:] = 0.0
        self._per_token[:] = 0.0
        self.value = 0.0
        self._renew(shares, np.arange(self.count))

    def moved(self, shares: Floats, e: int, f: int) -> None:
        """Shares of `e` and `f` are new."""
        self._renew(shares, self._with(e, f))

    def of(self, shares: Floats) -> float:
        """Nodes per token of any shares."""
        return float(self.nodes - np.prod(1 - shares[self.tokens], axis=1).sum(1).mean())

    def after(self, shares: Floats, e: int, f: int) -> float:
        """What `value` would be with new shares of `e` and `f`."""
        rows = self._with(e, f)
        per_token = self.nodes - np.prod(1 - shares[self.tokens[rows]], axis=1).sum(1)
        return float(self.value + (per_token - self._per_token[rows]).sum() / self.count)

    def _with(self, e: int, f: int) -> Ints:
        return np.unique(np.concatenate([self._of[e], self._of[f]]))

    def _renew(self, shares: Floats, rows: Ints) -> None:
        stay = 1 - shares[self.tokens[rows]]
        without, behind = np.ones(stay.shape), np.ones(stay.shape)
        np.cumprod(stay[:, :-1], axis=1, out=without[:, 1:])
        behind[:, :-1] = np.cumprod(stay[:, :0:-1], axis=1)[:, ::-1]
        without *= behind
        change = (without - self._without[rows]) / self.count
        np.add.at(self.slopes, self.tokens[rows].ravel(), change.reshape(-1, self.nodes))
        self._without[rows] = without
        per_token = self.nodes - (without[:, 0] * stay[:, 0]).sum(1)
        self.value += float((per_token - self._per_token[rows]).sum() / self.count)
        self._per_token[rows] = per_token


@dataclass(frozen=True)
class Surroundings:
    """Units (nodes or GPUs) that have a time: `unit`, `node` (slots,), `pace` (units,): 1/(speed * mean)."""

    load: Floats
    unit: Ints
    node: Ints
    pace: Floats
    weight: float
    cap: float
    limit: float
    """Load of a replica above which it costs: it would not fit beside others."""
    scale: float
    """1 / mean load of a GPU, for replicas."""


class Descent:
    """Experts in slots (slots,), improved by moves until none helps."""

    def __init__(self, s: Surroundings, traffic: Traffic, expert: Ints) -> None:
        self.s, self.traffic, self.expert = s, traffic, expert.copy()
        self.on_node = counts(expert, s.node, (len(s.load), traffic.nodes))
        self.on_unit = counts(expert, s.unit, (len(s.load), len(s.pace)))
        self.shares = self.on_node / self.on_node.sum(1)[:, None]
        self._pointless = (s.unit[:, None] == s.unit) | np.tri(len(expert), dtype=bool)
        traffic.start(self.shares)

    @property
    def copies(self) -> Ints:
        return np.asarray(self.on_node.sum(1))

    def _over(self, time: Floats) -> Floats:
        return np.maximum(0.0, time - self.s.cap)

    def _bulky(self, replica: Floats) -> Floats:
        return np.maximum(0.0, replica * self.s.scale - self.s.limit)

    def _times(self) -> tuple[Floats, Floats]:
        """Load of a replica of each expert, and time of each unit."""
        replica = self.s.load / self.copies
        return replica, (replica @ self.on_unit) * self.s.pace

    def value(self, nodes_per_token: float) -> float:
        """What is minimised, at that traffic."""
        replica, time = self._times()
        return float(self.s.weight * nodes_per_token + self._over(time).sum() + self._bulky(replica).sum())

    def run(self, most: int) -> int:
        """Take moves until none helps, or all were priced `most` times."""
        for turn in range(most):
            if not self._take(self._promising()):
                return turn
        return most

    def _promising(self) -> list[tuple[float, int, int, bool]]:
        """The best moves at the present slopes: price, slot, other slot or new expert, is it an exchange."""
        found = [(*m, True) for m in _lowest(self._exchanges())]
        slots, prices = self._changes()
        found += [(v, int(slots[i]), f, False) for v, i, f in _lowest(prices)]
        return sorted(found)[:VALUED]

    def _exchanges(self) -> Floats:
        s, expert = self.s, self.expert
        replica, time = self._times()
        slopes = s.weight * self.traffic.slopes
        move = (slopes[expert] - slopes[expert, s.node][:, None]) / self.copies[expert][:, None]
        x = replica[expert]
        price = move[:, s.node]
        change = (x[None, :] - x[:, None]) * s.pace[s.unit][:, None]
        price += self._over(time[s.unit][:, None] + change) - self._over(time)[s.unit][:, None]
        price = price + price.T
        price[self._pointless | (expert[:, None] == expert)] = np.inf
        return price

    def _changes(self) -> tuple[Ints, Floats]:
        """Slots whose expert has another replica, and the price of expert f there (slots, experts)."""
        s, copies, on = self.s, self.copies, self.on_unit
        replica, time = self._times()
        slots = np.flatnonzero(copies[self.expert] > 1)
        e, n, u = self.expert[slots], s.node[slots], s.unit[slots]
        fewer = s.load / np.maximum(copies - 1, 1)
        more = s.load / (copies + 1)
        slopes = s.weight * self.traffic.slopes
        here = (slopes * self.shares).sum(1)
        grows, shrinks = on * (fewer - replica)[:, None] * s.pace, on * (more - replica)[:, None] * s.pace
        over = self._over(time)
        up, down = self._over(time + grows) - over, self._over(time + shrinks) - over
        out = (here[e] - slopes[e, n]) / np.maximum(copies[e] - 1, 1) + up.sum(1)[e] - up[e, u]
        out += (self._bulky(fewer) - self._bulky(replica))[e]
        into = (slopes - here[:, None]) / (copies + 1)[:, None]
        rest = (down.sum(1) - down.T) + (self._bulky(more) - self._bulky(replica))
        own = time[u][:, None] + (grows[e, u] - fewer[e] * s.pace[u])[:, None]
        own = own + shrinks[:, u].T + more[None, :] * s.pace[u][:, None]
        price = out[:, None] + into[:, n].T + rest[u] + self._over(own) - over[u][:, None]
        price[np.arange(len(slots)), e] = np.inf
        return slots, price

    def _take(self, moves: list[tuple[float, int, int, bool]]) -> int:
        """Take those that help, none of an expert that has just moved."""
        touched: set[int] = set()
        now, taken = self.value(self.traffic.value), 0
        for _, p, other, exchange in moves:
            e, f = int(self.expert[p]), int(self.expert[other]) if exchange else other
            if taken == TAKEN:
                break
            if e in touched or f in touched:
                continue
            self._set(p, e, f)
            if exchange:
                self._set(other, f, e)
            shares = self.shares[[e, f]].copy()
            self.shares[[e, f]] = self.on_node[[e, f]] / self.on_node[[e, f]].sum(1)[:, None]
            then = self.value(self.traffic.after(self.shares, e, f))
            if then < now - GAIN:
                self.traffic.moved(self.shares, e, f)
                now, taken = then, taken + 1
                touched |= {e, f}
            else:
                self.shares[[e, f]] = shares
                self._set(p, f, e)
                if exchange:
                    self._set(other, e, f)
        return taken

    def _set(self, slot: int, old: int, new: int) -> None:
        self.expert[slot] = new
        self.on_node[old, self.s.node[slot]] -= 1
        self.on_node[new, self.s.node[slot]] += 1
        self.on_unit[old, self.s.unit[slot]] -= 1
        self.on_unit[new, self.s.unit[slot]] += 1


def _lowest(price: Floats) -> list[tuple[float, int, int]]:
    """The promising entries of a table of prices."""
    flat, columns = price.ravel(), price.shape[1]
    some = np.flatnonzero(flat < -GAIN)
    if some.size > VALUED:
        some = some[np.argpartition(flat[some], VALUED)[:VALUED]]
    return [(float(flat[i]), int(i) // columns, int(i) % columns) for i in some]

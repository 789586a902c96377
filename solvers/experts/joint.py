"""Balance and traffic of one layer: whole groups on nodes, then experts on GPUs, then again from the best.

0. GPUs of the best balance change nodes, for less traffic.
1. Home: experts that tokens use together on one node.
2. Moves between nodes (`experts_traffic`), until no node is above the cap that a move could mend.
3. Each node's replicas packed on its GPUs (`experts_balance`).
4. Moves between GPUs.
5. Some exchanges at random, another cap near the balance reached, and 4 again; kept when better.

Home: with groups, whole groups are dealt to nodes, largest first, then exchanged while that lowers
    nodes that hold a group of the token, mean over tokens + experts a token * load beyond nodes' fair parts
(the second is about what leaves home for balance's sake, and each such visits a node more). Where there are
fewer groups than nodes they are cut first. Without groups every expert, largest first,
goes where most of those are that share tokens with it. Then each node has its slots filled by `apportion`.
"""

from __future__ import annotations

import numpy as np

from solvers.experts.balance import apportion, pack
from solvers.experts.traffic import Descent, Surroundings, Traffic
from solvers.experts.types import Aim, ExpertsProblem, Floats, Ints, counts, table

CAPS = (1.003, 1.0)
"""Balance that nodes and GPUs are brought to at no cost, in the first searches."""
TURNS = 300
PASSES, EXCHANGES = 3, 24
"""Rounds of exchanges of whole GPUs between nodes, and exchanges tried in each."""
BULKY = 0.6
"""A replica above this part of a GPU's mean load leaves little choice beside it."""


class Layer:
    """The search of one layer; `best` is the placement (gpus, most slots), `value` what it is judged by."""

    def __init__(self, p: ExpertsProblem, layer: int, aim: Aim, seed: int = 0) -> None:
        assert p.tokens is not None
        self.p, self.aim, self.load = p, aim, p.load_tok[layer]
        self.speed, self.mean = p.speeds, float(p.load_tok[layer].sum() / p.speeds.sum())
        self.gpu = np.repeat(np.arange(len(p.slots)), p.slots)
        self.node = p.node[self.gpu]
        self.node_slots = np.bincount(p.node, p.slots, p.nodes).astype(np.int64)
        self.node_speed: Floats = np.bincount(p.node, self.speed, p.nodes).astype(float)
        self.traffic = Traffic(p.tokens[layer], len(self.load), p.nodes)
        self.tokens = np.asarray(p.tokens[layer], dtype=np.int64)
        self.rng = np.random.default_rng(seed + layer)
        self.best: Ints | None = None
        self.value, self.balance, self.nodes_per_token = (np.inf, np.inf), np.inf, np.inf

    def offer(self, expert: Ints) -> None:
        """Keep `expert` (slots,) if it is the best so far."""
        copies = np.bincount(expert, minlength=len(self.load))
        time = np.bincount(self.gpu, (self.load / copies)[expert], len(self.speed)) / self.speed
        balance, nodes = float(time.max() / self.mean), self.traffic.of(self._shares(expert))
        value = self._judged(balance, nodes)
        if value < self.value:
            self.best, self.value = expert.copy(), value
            self.balance, self.nodes_per_token = balance, nodes

    def _shares(self, expert: Ints) -> Floats:
        on = counts(expert, self.node, (len(self.load), self.p.nodes))
        return np.asarray(on / on.sum(1)[:, None])

    def _judged(self, balance: float, nodes: float) -> tuple[float, float]:
        if self.aim.objective == "combined":
            return balance + self.aim.traffic_weight * nodes, balance
        cap = self.aim.balance_cap
        return (0.0, nodes) if balance <= cap * (1 + 1e-9) else (balance - cap, nodes)

    def first(self, cap: float) -> None:
        """Search from home, with that cap or the one asked for."""
        cap = cap if self.aim.objective == "combined" else self.aim.balance_cap - CAPS[0] + cap
        order = np.argsort(self.node, kind="stable")
        expert = np.zeros(len(self.gpu), dtype=np.int64)
        expert[order] = start(self.load, self.tokens, self.p.group, self.node_slots, self.node_speed)
        descent = Descent(self._surroundings(nodes=True, cap=cap), self.traffic, expert)
        descent.run(TURNS)
        self.settle(self._packed(descent), cap)

    def settle(self, expert: Ints, cap: float) -> None:
        descent = Descent(self._surroundings(nodes=False, cap=cap), self.traffic, expert)
        descent.run(TURNS)
        self.offer(descent.expert)

    def again(self) -> None:
        """Disturb the best and search on."""
        assert self.best is not None
        expert = self.best.copy()
        for _ in range(int(self.rng.integers(0, 5))):
            a, b = self.rng.integers(0, len(expert), 2)
            expert[a], expert[b] = expert[b], expert[a]
        cap = max(1.0, self.balance + float(self.rng.choice([-0.002, -0.001, 0.0, 0.001, 0.003])))
        self.settle(expert, cap if self.aim.objective == "combined" else self.aim.balance_cap)

    def _surroundings(self, nodes: bool, cap: float) -> Surroundings:
        mean = self.load.sum() / len(self.speed)
        limit = np.inf
        if nodes:
            least = (self.load / apportion(self.load[None], len(self.gpu))[0]).max() / mean
            limit = max(BULKY, float(least))
        speed = self.node_speed if nodes else self.speed
        weight = self.aim.traffic_weight
        unit = self.node if nodes else self.gpu
        return Surroundings(self.load, unit, self.node, 1 / (speed * self.mean), weight, cap, limit, 1 / mean)

    def _packed(self, descent: Descent) -> Ints:
        """The node's replicas on its GPUs, alike nodes together."""
        expert, p = descent.expert.copy(), self.p
        alike: dict[tuple[tuple[int, ...], tuple[float, ...]], list[int]] = {}
        for n in range(p.nodes):
            own = np.flatnonzero(p.node == n)
            alike.setdefault((tuple(p.slots[own]), tuple(self.speed[own])), []).append(n)
        for (slots, speed), nodes in alike.items():
            ids = np.stack([descent.expert[self.node == n] for n in nodes])
            here = (self.load / descent.copies * descent.on_node.T)[nodes]
            pace = np.array(speed)
            placed = pack(here, ids, np.array(slots), pace, here.sum(1) / pace.sum())
            for n, row in zip(nodes, placed, strict=True):
                expert[self.node == n] = row[row >= 0]
        return expert

    def regroup(self) -> None:
        """GPUs change nodes as they are, which leaves the balance alone; then moves that the cap allows."""
        assert self.best is not None
        expert, slots = self.best.copy(), [np.flatnonzero(self.gpu == g) for g in range(len(self.speed))]
        for _ in range(PASSES):
            self.traffic.start(self._shares(expert))
            now, gone = self.traffic.value, set[int]()
            for _, g, h in self._likely_exchanges(expert):
                if g in gone or h in gone:
                    continue
                expert[slots[g]], expert[slots[h]] = expert[slots[h]], expert[slots[g]]
                if (then := self.traffic.of(self._shares(expert))) < now - 1e-7:
                    now, gone = then, gone | {g, h}
                else:
                    expert[slots[g]], expert[slots[h]] = expert[slots[h]], expert[slots[g]]
            if not gone:
                break
        self.offer(expert)
        assert self.best is not None
        cap = self.balance if self.aim.objective == "combined" else self.aim.balance_cap
        descent = Descent(self._surroundings(nodes=False, cap=cap), self.traffic, self.best)
        descent.run(PASSES)
        self.offer(descent.expert)

    def _likely_exchanges(self, expert: Ints) -> list[tuple[float, int, int]]:
        """GPUs of equal slots and speed on two nodes that the slopes say should change places, best first."""
        node, slopes = self.p.node, self.traffic.slopes
        copies = np.bincount(expert, minlength=len(self.load))
        change = (slopes[expert] - slopes[expert, self.node][:, None]) / copies[expert][:, None]
        moved = np.zeros((len(self.speed), self.p.nodes))
        np.add.at(moved, self.gpu, change)
        price = moved[:, node]
        price = price + price.T
        alike = (self.speed[:, None] == self.speed) & (self.p.slots[:, None] == self.p.slots)
        price[~alike | (node[:, None] == node) | np.tri(len(node), dtype=bool)] = np.inf
        order = np.argsort(price, axis=None)[:EXCHANGES]
        pairs = [(int(i) // len(node), int(i) % len(node)) for i in order]
        return [(float(price[g, h]), g, h) for g, h in pairs if price[g, h] < 0]

    def table(self) -> Ints:
        """The best as (gpus, most slots), -1 where there is none."""
        assert self.best is not None
        return table(self.best, self.p.slots)


def start(load: Floats, tokens: Ints, group: Ints | None, slots: Ints, speed: Floats) -> Ints:
    """Experts in all slots, node after node; `slots` and `speed` (nodes,) of a node's GPUs together."""
    home = None if group is None else _dealt(load, tokens, group, slots, speed)
    if home is None:
        home = _beside_their_like(load, tokens, slots, speed)
    filled = []
    for n in range(len(slots)):
        own = np.flatnonzero(home == n)
        own = own if own.size else np.array([int(load.argmax())])
        filled.append(np.repeat(own, apportion(load[own][None], int(slots[n]))[0]))
    return np.concatenate(filled)


def _dealt(load: Floats, tokens: Ints, group: Ints, slots: Ints, speed: Floats) -> Ints | None:
    parts = _parts(load, group, len(slots))
    size, weight = np.bincount(parts), np.bincount(parts, load)
    uses = np.zeros((len(tokens), len(size)), dtype=bool)
    uses[np.arange(len(tokens))[:, None], parts[tokens]] = True
    node = np.full(len(size), -1)
    for p in np.argsort(-weight):
        held = np.bincount(node[node >= 0], size[node >= 0], len(slots))
        carried = np.bincount(node[node >= 0], weight[node >= 0], len(slots))
        done = np.where(held + size[p] <= slots, (carried + weight[p]) / speed, np.inf)
        if not np.isfinite(done).any():
            return None
        node[p] = done.argmin()
    fair = load.sum() * speed / speed.sum()

    def cost() -> float:
        held = np.bincount(node, size, len(slots))
        if (held > slots).any():
            return np.inf
        visits = sum(float(uses[:, node == n].any(1).mean()) for n in range(len(slots)))
        beyond = np.maximum(0, np.bincount(node, weight, len(slots)) - fair).sum() / load.sum()
        return float(visits + tokens.shape[1] * beyond)

    best, better = cost(), True
    while better:
        better = False
        for a in range(len(size)):
            for b in range(a):
                node[[a, b]] = node[[b, a]]
                if (now := cost()) < best - 1e-9:
                    best, better = now, True
                else:
                    node[[a, b]] = node[[b, a]]
    return np.asarray(node[parts])


def _parts(load: Floats, group: Ints, nodes: int) -> Ints:
    """Groups, each cut into as many parts of about equal load as nodes are to each group."""
    groups = int(group.max()) + 1
    cuts = max(1, nodes // groups)
    part = np.zeros(len(load), dtype=np.int64)
    for g in range(groups):
        own = np.flatnonzero(group == g)
        carried, held = np.zeros(cuts), np.zeros(cuts)
        for e in own[np.argsort(-load[own])]:
            at = np.where(held < -(-len(own) // cuts), carried, np.inf).argmin()
            part[e] = g * cuts + at
            carried[at] += load[e]
            held[at] += 1
    return np.unique(part, return_inverse=True)[1]


def _beside_their_like(load: Floats, tokens: Ints, slots: Ints, speed: Floats) -> Ints:
    experts, nodes = len(load), len(slots)
    share = np.zeros((len(tokens), experts))
    np.add.at(share, (np.arange(len(tokens))[:, None], tokens), 1.0)
    together = share.T @ share
    room = np.ceil(experts * slots / slots.sum())
    home, member = np.full(experts, -1), np.zeros((experts, nodes))
    carried, held = np.zeros(nodes), np.zeros(nodes)
    for e in np.argsort(-load, kind="stable"):
        like = together[e] @ member - 1e-3 * carried / speed / max(load.sum(), 1e-300)
        n = int(np.where(held < room, like, -np.inf).argmax())
        home[e], member[e, n] = n, 1.0
        carried[n] += load[e]
        held[n] += 1
    return home

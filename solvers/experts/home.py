"""Where search for balance and traffic starts: experts that tokens use together on one node.

With groups, whole groups are dealt to nodes, largest first, then exchanged while that lowers

    nodes that hold a group of the token, mean over tokens + experts a token * load beyond nodes' fair parts

(the second is about what leaves home for balance's sake, and each such visits a node more). Where there are
fewer groups than nodes they are cut first. Without groups every expert, largest first,
goes where most of those are that share tokens with it. Then each node has its slots filled by `apportion`.
"""

from __future__ import annotations

import numpy as np

from solvers.experts.balance import apportion
from solvers.experts.types import Floats, Ints


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

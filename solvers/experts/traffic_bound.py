"""What J and nodes per token cannot be below: pairs of a token's experts that can meet on a node.

Data       W[e,f]  times e and f are in one sampled token, diagonal 0     d[e] = sum(f) W[e,f]
           K  slots of a node    w[e]  load    b  balance: a node carries b times its fair part of it at most
Meeting    M = sum(n) s_n' W s_n, s_n[e] the share of e's replicas on n: sum(n) s[e,n] == 1.
           With u = d / sqrt(sum(d)) and R = W - u u':   M = sum(n) (u's_n)^2 + s_n' R s_n
           u's_n <= U = max u's, 0 <= s <= 1, sum(s) <= K, w's <= b * fair: by duality, for every m >= 0,
                    U <= m * b * fair + the K largest (u - m w)+ together
           R <= D (as matrices, D diagonal) and sum(n) s[e,n]^2 <= 1, so the second part is <= trace(D)
           hence M <= sum(u) * max(n) U + trace(D)
Nodes      a token of k experts on x nodes has the fewest meetings when they are spread evenly; the lower hull
           of (meetings, x) is convex, so the mean of x is at least its value at the mean of M (Jensen).
J          >= min over b of  b + weight * nodes(b): nodes(b) falls with b, so between two values of b the
           first term is taken at the lower and the second at the upper one.

Source     R <= D with d d' taken out: the spectral bound of graph partitioning (Donath and Hoffman, 1973).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from solvers.experts.types import Floats, Ints

STEPS = 24


class Meetings:
    """The bound of one layer, for any balance."""

    def __init__(self, load: Floats, tokens: Ints, slots: Ints, speed: Floats) -> None:
        experts, (count, self.each) = len(load), tokens.shape
        uses = np.zeros((count, experts))
        np.add.at(uses, (np.arange(count)[:, None], tokens), 1.0)
        together = uses.T @ uses
        together[np.diag_indices(experts)] -= uses.sum(0)
        self.load, self.count, self.slots, self.nodes = load, count, slots, len(slots)
        self.fair = load.sum() * speed / speed.sum()
        degree = together.sum(1)
        self.weight = degree / np.sqrt(max(degree.sum(), 1e-300))
        beyond = together - np.outer(self.weight, self.weight)
        self.rest = min(_trace(beyond, degree**power) for power in (0, 0.5, 1))

    def nodes_per_token(self, balance: float) -> float:
        """At least so many when no node carries more than `balance` times its fair part."""
        if self.nodes == 1 or self.each == 1:
            return 1.0
        most = max(self._most(int(k), balance * fair) for k, fair in zip(self.slots, self.fair, strict=True))
        meetings = (self.weight.sum() * most + self.rest) / self.count
        return max(1.0, _fewest_nodes(self.each, meetings))

    def joint(self, balance: float, weight: float, known: float) -> float:
        """Bound of J where `balance` is one of the balance and `known` a J that was reached."""
        steps = np.linspace(balance, max(known - weight, balance), STEPS + 1)
        ends = pairwise(steps.tolist())
        return float(min(known, *(low + weight * self.nodes_per_token(high) for low, high in ends)))

    def _most(self, slots: int, room: float) -> float:
        ratio = self.weight / np.maximum(self.load, 1e-300)
        usual = float(self.weight.sum() / max(self.load.sum(), 1e-300))
        prices = [0.0, *usual * np.linspace(0.1, 1.5, 15), float(ratio[self.load > 0].max(initial=0.0))]
        gains = [np.sort(np.maximum(self.weight - m * self.load, 0.0))[-slots:].sum() for m in prices]
        return float(min(m * room + float(gain) for m, gain in zip(prices, gains, strict=True)))


def _trace(rest: Floats, scale: Floats) -> float:
    """Trace of the least multiple of diag(scale) that is above `rest`."""
    scale = np.maximum(scale, 1e-9 * max(float(scale.max(initial=0.0)), 1e-300))
    root = np.sqrt(scale)
    top = float(np.linalg.eigvalsh(rest / np.outer(root, root))[-1])
    return max(0.0, top) * float(scale.sum()) * (1 + 1e-9)


def _fewest_nodes(each: int, meetings: float) -> float:
    """Lower hull of the nodes of `each` experts over ordered pairs that share a node.

    >>> [_fewest_nodes(4, m) for m in (12, 4, 2, 0)]
    [1.0, 2.0, 3.0, 4.0]
    """
    fewest = []
    for x in range(1, each + 1):
        size, more = divmod(each, x)
        fewest.append((x - more) * size * (size - 1) + more * (size + 1) * size)
    at = np.array(fewest[::-1], dtype=float)
    return float(np.interp(meetings, at, np.arange(each, 0, -1)))

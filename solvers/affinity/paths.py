"""A bound for the whole chain on one node, where the sets of experts that a GPU can hold are few.

A GPU is a path: a set S[l] of q experts in each layer, worth the tokens it keeps, sum(l) m[l](S[l], S[l+1]).
G paths hold each expert of each layer once. With a price p[l,e] for that (Lagrange),

    kept <= sum(l,e) p[l,e] + G * max over paths of (worth - sum(l, e in S[l]) p[l,e])

at any prices; the best path is dynamic programming over the layers. To find good prices the maximum is made
smooth, t log sum exp(. / t) over all paths, whose slopes are the paths' shares of experts (forward-backward),
and minimised by L-BFGS with t falling. As layers share their sets, this is near what placements reach.
"""

from __future__ import annotations

import time
from itertools import combinations
from math import comb

import numpy as np
from scipy.optimize import minimize

from solvers.affinity.types import AffinityProblem, Floats

MOST_SETS = 300
COOLING, COLDEST, TURNS = 0.4, 1e-3, 80
"""How t falls from the mean worth of an expert's tokens at a boundary: factor, end, and steps at each t."""


def possible(p: AffinityProblem) -> bool:
    return p.nodes == 1 and comb(p.experts, p.per_gpu) <= MOST_SETS


def bound(p: AffinityProblem, seconds: float) -> float:
    """A cost that no placement is below."""
    stop, paths = time.perf_counter() + seconds, Paths(p)
    prices = np.zeros(p.layers * p.experts)
    first = t = max(float(p.tokens.sum()) / p.experts / len(p.tokens), 1e-9)
    kept = paths.kept(prices)
    while t > COLDEST * first and time.perf_counter() < stop:
        found = minimize(
            paths.smooth, prices, args=(t,), jac=True, method="L-BFGS-B", options={"maxiter": TURNS}
        )
        prices, t = found.x, t * COOLING
        kept = min(kept, paths.kept(prices))
    cost = p.intra_cost * (float(p.tokens.sum()) - kept)
    return max(0.0, cost - 1e-9 * abs(cost))


class Paths:
    """`sets` (sets, experts) of 0 and 1; `worth` (layers - 1, sets, sets)."""

    def __init__(self, p: AffinityProblem) -> None:
        self.p = p
        own = list(combinations(range(p.experts), p.per_gpu))
        self.sets = np.zeros((len(own), p.experts))
        self.sets[np.arange(len(own))[:, None], np.array(own)] = 1.0
        self.worth = self.sets @ p.tokens @ self.sets.T

    def kept(self, prices: Floats) -> float:
        """Tokens that no placement keeps more than."""
        own = self._paid(prices)
        reach = -own[0]
        for worth, pays in zip(self.worth, own[1:], strict=True):
            reach = (reach[:, None] + worth).max(0) - pays
        return float(prices.sum() + self.p.gpus * reach.max())

    def smooth(self, prices: Floats, t: float) -> tuple[float, Floats]:
        """The bound with all paths counted, and its slopes."""
        own, worth = -self._paid(prices) / t, self.worth / t
        ahead, behind = [own[0]], [np.zeros(len(self.sets))]
        for w, pays in zip(worth, own[1:], strict=True):
            ahead.append(_log_sum(ahead[-1][:, None] + w, 0) + pays)
        for w, pays in zip(worth[::-1], own[:0:-1], strict=True):
            behind.append(_log_sum(w + (behind[-1] + pays), 1))
        every = _log_sum(ahead[-1], 0)
        share = np.exp(np.stack(ahead) + np.stack(behind[::-1]) - every)
        slopes = 1.0 - self.p.gpus * (share @ self.sets)
        return float(prices.sum() + self.p.gpus * t * every), slopes.ravel()

    def _paid(self, prices: Floats) -> Floats:
        return np.asarray(prices.reshape(self.p.layers, -1) @ self.sets.T)


def _log_sum(x: Floats, axis: int) -> Floats:
    most = x.max(axis, keepdims=True)
    return np.asarray((most + np.log(np.exp(x - most).sum(axis, keepdims=True))).squeeze(axis))

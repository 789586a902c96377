"""What no placement along layers can beat: each boundary of two layers by itself, relaxed.

Data       m[a,b] tokens from a to b     E experts, G GPUs of q, N nodes of Q     i, x  intra cost, inter cost
           z[a,b] = 1 when a and b share a GPU, y[a,b] a node: z <= y; rows, columns of z sum to q, of y to Q
maximise   sum i m z + (x - i) m y       what is kept; the bound is x * sum(m) minus it
Weights are split, i m = A + rest, (x - i) m = B + rest, for any A and B:
spectral   z = X Y' of 0-1 matrices (E, G), rows of sum 1 and columns of sum q. Without their means these have
           G - 1 singular values sqrt(q):  sum A z <= sum(A) / G + q * the G - 1 largest of those of PAP
           (von Neumann), P taking out the means of rows and columns. B likewise with N and Q.
links      prices u[a], v[b] of the sums of z and s[a], t[b] of those of y:   sum rest <= q (sum u + sum v)
           + Q (sum s + sum t) + sum max(0, b, b + a),   a = i m - A - u - v,  b = (x - i) m - B - s - t

The sum of both is convex in (A, B, u, v, s, t) and a bound at every one of them; it is lowered by subgradient
steps to a level a little below the best, halved when that is not reached. All boundaries advance together.

Source     the links alone are the b-matching bound; the spectral part alone is Donath and Hoffman's
           (1973) for two sides. The split of one between them is ours.
"""

from __future__ import annotations

import time

import numpy as np

from solvers.affinity.types import AffinityProblem, Floats

STEPS, PATIENCE = 300, 15
LEVEL, START = 0.01, 0.15
"""How far below the best the first level is, relative; and the part of weights that is spectral at first."""


def bound(p: AffinityProblem, seconds: float) -> float:
    """A cost that no placement is below."""
    kept = Kept(p)
    stop, at = time.perf_counter() + seconds, kept.start()
    best, held = kept.value(at)[0], [x.copy() for x in at]
    level, idle = np.full(len(best), LEVEL), np.zeros(len(best))
    for _ in range(STEPS):
        if time.perf_counter() > stop:
            break
        value, slopes = kept.value(at)
        idle = np.where(value < best * (1 - level / 10), 0, idle + 1)
        for x, h in zip(at, held, strict=True):
            h[value < best] = x[value < best]
        best = np.minimum(best, value)
        tired = idle > PATIENCE
        level, idle = np.where(tired, level / 2, level), np.where(tired, 0, idle)
        for x, h in zip(at, held, strict=True):
            x[tired] = h[tired]
        steep = sum((g.reshape(len(best), -1) ** 2).sum(1) for g in slopes)
        step = np.maximum(value - best * (1 - level), 0) / np.maximum(steep, 1e-12)
        for x, g in zip(at, slopes, strict=True):
            x -= step.reshape(-1, *[1] * (x.ndim - 1)) * g
    cost = p.inter_cost * p.tokens.sum() - best.sum()
    return float(max(0.0, cost - 1e-9 * abs(cost)))


class Kept:
    """The function of the docstring and a subgradient, for all boundaries at once."""

    def __init__(self, p: AffinityProblem) -> None:
        self.p, self.near, self.far = p, p.intra_cost * p.tokens, (p.inter_cost - p.intra_cost) * p.tokens
        self.per_node = p.experts // p.nodes

    def start(self) -> list[Floats]:
        """[A, u, v] of GPUs, and [B, s, t] of nodes where there are several."""
        both = [(self.near, self.p.per_gpu), (self.far, self.per_node)][: 2 if self.p.nodes > 1 else 1]
        return [x for weight, size in both for x in _prices(weight, size)]

    def value(self, at: list[Floats]) -> tuple[Floats, list[Floats]]:
        p, (a, u, v) = self.p, at[:3]
        spread, slope = _spectral(a, p.gpus, p.per_gpu)
        value = spread + p.per_gpu * (u.sum(1) + v.sum(1))
        rest = self.near - a - u[:, :, None] - v[:, None, :]
        if p.nodes == 1:  # all are on the node
            z = (rest > 0).astype(float)
            value += (rest * z).sum((1, 2)) + self.far.sum((1, 2))
            return value, _slopes(slope, z, p.per_gpu)
        b, s, t = at[3:]
        spread, wide = _spectral(b, p.nodes, self.per_node)
        value += spread + self.per_node * (s.sum(1) + t.sum(1))
        other = self.far - b - s[:, :, None] - t[:, None, :]
        y = (other + np.maximum(rest, 0) > 0).astype(float)
        z = y * (rest > 0)
        value += (other * y + rest * z).sum((1, 2))
        return value, [*_slopes(slope, z, p.per_gpu), *_slopes(wide, y, self.per_node)]


def _prices(weight: Floats, size: int) -> list[Floats]:
    """A part of `weight`, and prices at which about `size` links of each expert are worth having."""
    rest, last = (1 - START) * weight, weight.shape[1] - size
    return [START * weight, np.sort(rest, axis=2)[:, :, last] / 2, np.sort(rest, axis=1)[:, last] / 2]


def _spectral(a: Floats, parts: int, size: int) -> tuple[Floats, Floats]:
    """sum(A) / parts + size * the parts - 1 largest singular values of PAP, and its slope in A."""
    flat = a - a.mean(1, keepdims=True)
    left, values, right = np.linalg.svd(flat - flat.mean(2, keepdims=True))
    k = parts - 1
    slope = 1 / parts + size * (left[:, :, :k] @ right[:, :k])
    return a.sum((1, 2)) / parts + size * values[:, :k].sum(1), slope


def _slopes(spectral: Floats, taken: Floats, size: int) -> list[Floats]:
    return [spectral - taken, size - taken.sum(2), size - taken.sum(1)]

"""Experts that are not all equally near: what a step still asks of those beyond the popular ones, and of
those beyond a cache.

Popularity is exponential: an expert is met λ times a token, λ a gamma of standard deviation / mean 1, and by
T tokens with 1 - e^(-λT). That is over many steps, in which what is held stays: the tokens of one step are
more alike (`experts.distinct_experts`). All shapes (n,).
"""

from __future__ import annotations

import math

import numpy as np

from planner.designs.shape import Floats

SHAPE = 1.0
"""Shape of the gamma law that the loads of experts are drawn from, one over the square of its spread."""

ALWAYS = 1e12
"""Scale of the gamma where every token meets every expert."""


def rest_touched(experts: int, top_k: int, tokens: Floats, held: Floats) -> Floats:
    """Expected distinct experts that `tokens` tokens choose beside the `held` most popular ones.

    >>> rest_touched(4, 1, np.array([1.0, 1.0, 1.0]), np.array([0, 2, 4])).round(2)
    array([1.  , 0.19, 0.  ])
    """
    from scipy.special import gammainc  # here, not above: most plans need none of it

    scale = _scale(experts, top_k)
    share, edge = _below(experts, held)
    untouched = (1 + tokens * scale) ** -SHAPE * gammainc(SHAPE, edge * (1 + tokens * scale))
    return np.asarray(experts * np.maximum(share - untouched, 0.0))


def rest_chosen(experts: int, held: Floats) -> Floats:
    """Share of all (token, expert) pairs that fall on others than the `held` most popular experts: the x most
    popular take x (1 - ln x).

    >>> rest_chosen(128, np.array([0, 32, 128])).round(3)
    array([1.   , 0.403, 0.   ])
    """
    from scipy.special import gammainc  # here, not above: most plans need none of it

    return np.asarray(gammainc(SHAPE + 1, _below(experts, held)[1]))


def missed(experts: int, top_k: int, tokens: Floats, cached: Floats) -> Floats:
    """Expected distinct experts that `tokens` tokens choose and that a cache of a share `cached` of them does
    not hold: it keeps those met last, each met again as by chance (Che's approximation of an LRU cache, so
    popular experts stay by themselves).

    >>> missed(256, 8, np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.5, 1.0])).round(2)
    array([8.  , 2.03, 0.  ])
    """
    out = np.maximum(1 - cached, 0.0)
    with np.errstate(divide="ignore"):
        age = np.where(out > 0, out, np.inf) ** (-1 / SHAPE)  # 1 + scale * tokens since the oldest was met
    age = np.where(out > 0, age, np.inf)
    return np.asarray(experts * np.maximum(out - (age + tokens * _scale(experts, top_k)) ** -SHAPE, 0.0))


def _scale(experts: int, top_k: int) -> float:
    """Scale of the gamma distribution of what experts get: one token meets top_k experts."""
    if top_k >= experts:
        return ALWAYS
    return math.expm1(-math.log1p(-top_k / experts) / SHAPE)


def _below(experts: int, held: Floats) -> tuple[Floats, Floats]:
    """Share of the experts that are not held, and their highest λ / scale."""
    from scipy.special import gammaincinv  # here, not above: most plans need none of it

    share = np.clip(1 - np.asarray(held, dtype=np.float64) / experts, 0.0, 1.0)
    return share, np.asarray(gammaincinv(SHAPE, share))

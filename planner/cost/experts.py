"""Mixture-of-experts FFNs: how many distinct experts a step touches, how full the fullest rank is, and the
seconds.

T tokens (of all attention-dp ranks of the step) choose k of E experts each. Shapes: (n,) everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np

from model_zoo.schema import MoeFfn
from planner.cost.compute import Work, kernel_s
from planner.cost.efficiency.reading import Chip, Fit
from planner.cost.popularity import Popularity
from planner.designs.shape import Designs, Floats, Ints, distinct

POPULARITY = 1.25
"""Standard deviation of experts' popularity over its mean, for how many a step touches: tokens of a batch
choose the same ones. Public runs are most probable at 1.5, nearly so at 1.25 and 2; kernels measured under a
power law of 1.2 speak for 0.6 to 1."""

AS_ASSUMED = Popularity()

NORMAL = NormalDist()

ROW_BYTES = 2.0
"""Rows between the GEMMs of an expert are in 16 bits."""


@dataclass(frozen=True)
class RankWork:
    """What the experts of one rank do in one layer. Shapes (n,).

    flops; weights: bytes of the touched experts; rows: bytes of inputs, outputs and what is between the
    GEMMs; touched, held: experts; permuted: bytes of the tokens that pass the rank and of their copies;
    split: 1 where other ranks hold other experts.
    """

    flops: Floats
    weights: Floats
    rows: Floats
    touched: Floats
    held: Floats
    permuted: Floats
    split: Floats


def distinct_experts(experts: int | Ints, top_k: int, tokens: Floats, spread: float = POPULARITY) -> Floats:
    """Expected distinct experts that `tokens` tokens choose, of experts whose popularity is a gamma with
    standard deviation / mean `spread`: E*(1 - (1 + T*c)^(-1/spread²)), c such that one token takes top_k.

    With spread 0 all are alike: E*(1 - (1 - k/E)^T).

    >>> distinct_experts(4, 1, np.array([0.0, 1.0, 2.0]), spread=0.0)
    array([0.  , 1.  , 1.75])
    >>> distinct_experts(4, 1, np.array([0.0, 1.0, 2.0]), spread=1.0).round(2)
    array([0. , 1. , 1.6])
    """
    if np.max(top_k / experts, initial=0.0) >= 1:
        return np.where(tokens > 0, np.asarray(experts, dtype=np.float64), 0.0)
    untouched = np.log1p(-top_k / experts)
    if spread == 0:
        return np.asarray(experts * -np.expm1(tokens * untouched))
    square = spread**2
    met = -np.expm1(-np.log1p(tokens * np.expm1(-square * untouched)) / square)
    return np.asarray(experts * met)


def fullest_share(experts: int, top_k: int, tokens: Floats, ep: Ints, hottest: Floats) -> Floats:
    """How many times the mean the fullest of `ep` ranks gets of the (token, expert) pairs in one step.

    Mean + sqrt(2 ln ep * variance), the usual bound on the largest of ep Gaussians; variance from drawing T*k
    pairs over the ranks, and from experts' unequal popularity: as much as makes the fullest rank `hottest`
    times the mean over many steps. At most all pairs that can fall on one rank.

    >>> fullest_share(8, 2, np.array([100.0]), np.array([1]), np.array([1.0]))
    array([1.])
    """
    mean = np.maximum(tokens * top_k / ep, 1e-9)
    drawing = (1 - 1 / ep) / mean
    most = np.minimum(top_k, experts / ep) * ep / top_k  # every token's all fit on one rank
    spread = np.sqrt(2 * np.log(ep) * drawing + (hottest - 1) ** 2)
    return np.asarray(np.minimum(1 + spread, most))


def most_touched(held: Floats, met: Floats, ep: Ints) -> Floats:
    """Distinct experts that the rank with most of them touches, of `ep` that hold `held` each, any of which
    is met with chance `met`: the mean, and what the largest of ep Gaussians is above it on average (Blom
    1958).

    >>> most_touched(np.array([32.0, 32.0, 32.0]), np.array([0.2, 0.8, 1.0]), np.array([4, 4, 4])).round(1)
    array([ 8.8, 28. , 32. ])
    """
    ranks = distinct(ep)
    above = np.array([_largest(n) for n in ranks])[np.searchsorted(ranks, ep)]
    spread = np.sqrt(held * met * np.maximum(1 - met, 0.0))
    return np.asarray(np.minimum(held * met + above * spread, held))


@cache
def _largest(of: int) -> float:
    """By how many standard deviations the largest `of` so many Gaussians is above their mean on average."""
    return NORMAL.inv_cdf((of - 0.375) / (of + 0.25)) if of > 1 else 0.0


@dataclass(frozen=True)
class Routed:
    """Routed experts of one layer and what comes to them: `tokens` (n,) of all attention ranks; bytes a
    weight."""

    ffn: MoeFfn
    hidden: int
    tokens: Floats
    designs: Designs
    weight_bytes: float
    popularity: Popularity = AS_ASSUMED


def expert_work(r: Routed) -> RankWork:
    """FLOPs and bytes of the fullest ep rank, (n,); a copy of an expert is met as an expert of its own.

    Where groups of ranks have tokens of their own, these are sent to their ranks, so a rank permutes only
    what it gets; otherwise every rank sees all tokens.
    """
    ffn, tokens, designs = r.ffn, r.tokens, r.designs
    width, ep = ffn.latent or r.hidden, designs.ep
    full = fullest_share(ffn.experts, ffn.top_k, tokens, ep, r.popularity.of(ffn.experts, designs))
    pairs = full * tokens * ffn.top_k / ep
    slots = ffn.experts + designs.redundant
    held = slots / ep
    met = distinct_experts(slots, ffn.top_k, tokens) / slots
    touched = np.minimum(most_touched(held, met, ep), pairs)
    passing = np.where(designs.groups > 1, np.minimum(1.0, ffn.top_k / ep) + ffn.top_k / ep, 1.0 + ffn.top_k)
    inner = ffn.inner / designs.moe_tp
    cells = ffn.matrices * width * inner
    return RankWork(
        flops=2 * pairs * cells,
        weights=touched * cells * r.weight_bytes,
        rows=ROW_BYTES * pairs * (2 * width + ffn.matrices * inner),
        touched=touched,
        held=held,
        permuted=ROW_BYTES * passing * tokens * width,
        split=np.where(ep > 1, 1.0, 0.0),
    )


def rank_s(fit: Fit, chip: Chip, work: RankWork) -> Floats:
    """Seconds of the fused expert kernels of one rank: GEMMs, and beside them `held_s` an expert held, tau an
    expert touched, `ep_s` to leave out what is of other ranks, the rows, and sorting tokens to experts and
    back.

    A fit without a rate of its own for rows moves them with the weights.
    """
    beside = 0.0 if fit.rows else work.rows
    gemms = Work(work.flops, work.weights + beside, np.zeros_like(work.flops))
    beside_s = fit.tau_s * work.touched + fit.held_s * work.held + fit.ep_s * work.split
    for moved, rate in ((work.rows, fit.rows), (work.permuted, fit.tokens)):
        if rate:
            beside_s = beside_s + moved / (rate * chip.bytes_per_s)
    return kernel_s(replace(fit, tau_s=0.0), chip, gemms, work.flops > 0, beside_s)


def experts_s(fit: Fit, chip: Chip, routed: Routed) -> Floats:
    """Seconds of the routed experts of one layer on the fullest rank, without communication.

    Error: 4-15 % median on measured devices, balanced routing.
    """
    return rank_s(fit, chip, expert_work(routed))

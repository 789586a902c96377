"""Mixture-of-experts FFNs: how many distinct experts a step touches, how full the fullest rank is, and the
seconds.

T tokens (of all attention-dp ranks of the step) choose k of E experts each. Shapes: (n,) everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from model_zoo.schema import MoeFfn
from planner.cost.compute import Work, kernel_s
from planner.cost.efficiency.reading import Chip, Fit
from planner.cost.shape import Designs, Floats, Ints

POPULARITY_SPREAD = 0.6
"""Standard deviation of experts' popularity around its mean, as a share of the mean, without a load report:
makes the fullest of 8 ranks of 128 experts 1.3 times the mean; measured kernels take 1.2-1.8 times as long at
power-law 1.2."""

ROW_BYTES = 2.0
"""Rows between the GEMMs of an expert are in 16 bits."""


def distinct_experts(experts: int, top_k: int, tokens: Floats) -> Floats:
    """Expected distinct experts that `tokens` tokens choose: E*(1 - (1 - k/E)^T), uniform choice.

    >>> distinct_experts(4, 1, np.array([0.0, 1.0, 2.0]))
    array([0.  , 1.  , 1.75])
    """
    if top_k >= experts:
        return np.where(tokens > 0, float(experts), 0.0)
    return experts * -np.expm1(tokens * math.log1p(-top_k / experts))


def fullest_share(experts: int, top_k: int, tokens: Floats, ep: Ints) -> Floats:
    """How many times the mean the fullest of `ep` ranks gets of the (token, expert) pairs.

    Mean + sqrt(2 ln ep * variance), the usual bound on the largest of ep Gaussians; variance from drawing T*k
    pairs over the ranks, and from experts' unequal popularity averaged over a rank's E/ep experts. At most
    all pairs that can fall on one rank.

    >>> fullest_share(8, 2, np.array([100.0]), np.array([1]))
    array([1.])
    """
    mean = np.maximum(tokens * top_k / ep, 1e-9)
    drawing = (1 - 1 / ep) / mean
    popularity = POPULARITY_SPREAD**2 * (ep - 1) / experts
    most = np.minimum(top_k, experts / ep) * ep / top_k  # every token's all fit on one rank
    share: Floats = np.minimum(1 + np.sqrt(2 * np.log(ep) * (drawing + popularity)), most)
    return share


def expert_work(
    ffn: MoeFfn, hidden: int, tokens: Floats, designs: Designs, weight_bytes: float, tile: int
) -> Work:
    """Of the fullest ep rank: FLOPs of its pairs, padded to `tile` rows an expert, and bytes of the experts
    touched.

    items = experts touched on that rank.
    """
    width, inner = ffn.latent or hidden, ffn.inner / designs.moe_tp
    full = fullest_share(ffn.experts, ffn.top_k, tokens, designs.ep)
    pairs = full * tokens * ffn.top_k / designs.ep
    touched = np.minimum(distinct_experts(ffn.experts, ffn.top_k, tokens) / designs.ep * full, pairs)
    touched = np.minimum(touched, ffn.experts / designs.ep)
    rows = np.maximum(touched * tile, pairs + touched * (tile - 1) / 2) if tile > 1 else pairs
    weights = touched * ffn.matrices * width * inner * weight_bytes
    moved = weights + 2 * ROW_BYTES * pairs * (width + inner)
    return Work(2 * ffn.matrices * rows * width * inner, moved, touched)


def experts_s(
    fit: Fit, chip: Chip, ffn: MoeFfn, hidden: int, tokens: Floats, designs: Designs, weight_bytes: float
) -> Floats:
    """Seconds of the routed experts of one layer on the fullest rank, without communication.

    The fused kernel of `forms.moe`: GEMMs + tau an expert touched + permuting tokens*(1 + top_k) rows. Under
    attention dp tokens are sent to their ranks, so a rank permutes only what it gets; otherwise every rank
    sees all tokens.
    Error: 5-20 % median on measured devices, balanced routing.
    """
    work = expert_work(ffn, hidden, tokens, designs, weight_bytes, fit.tile)
    gemms = Work(work.flops, work.bytes, work.items * 0.0)
    t = kernel_s(fit, chip, gemms, tokens > 0) + fit.tau_s * work.items
    if fit.tokens:
        here = np.where(designs.attn_dp > 1, np.minimum(1.0, ffn.top_k / designs.ep), 1.0) * tokens
        rows = here + np.where(designs.attn_dp > 1, tokens * ffn.top_k / designs.ep, tokens * ffn.top_k)
        t = t + ROW_BYTES * rows * (ffn.latent or hidden) / (fit.tokens * chip.bytes_per_s)
    return t

"""Percentiles: of the time to first token, and of a gamma variable.

TTFT = floor + Z: the floor is the request's own steps with nobody before it; Z, the rest, is a mixture. With
the chance that the clock finds a step without prompts, Z is what is left of that step, uniform on (0, D);
else it depends on whose prompt is in work, bucket j with the chance of its share of time, and Z is Weibull
with that bucket's mean and variance: the residual of the step (uniform), prompts that share the next one (as
many as arrive in a step, so narrower the smaller they are), and the line (half uniform, the rest of one long
prompt, at low load; exponential at high load). The quantile of the mixture is found by bisection.
"""

from __future__ import annotations

import numpy as np

from planner.designs.shape import Floats
from planner.queueing.line import Line
from planner.queueing.load import QUANTILE, TINY, Load, total
from planner.queueing.places import Waiting

ROUNDS = 24
"""Halvings: to 1e-7 of the largest value looked at."""


__all__ = ["QUANTILE", "gamma_of", "gamma_quantile", "ttft_quantile"]


def ttft_quantile(load: Load, line: Line, waiting: Waiting, quantile: float) -> Floats:
    """Quantile of the time to first token, (n, w), of which those that wait for a place have the mean and an
    exponential wait on top."""
    gap, beta = load.gap_s, load.full_s
    floor = line.free_s - line.free_fill_s - line.residual_s
    above = np.maximum(line.ttft_s - floor, TINY)
    piece = np.minimum(load.prompt_s, beta)
    in_time = load.rate * (gap + piece) * load.prompt_s / piece
    busy = _busy(load, line, total(in_time))
    chance = busy * in_time / total(in_time)  # that a prompt of bucket j is in work
    spread = _components(load, line, above, busy, chance)
    z = _mixture_quantile(chance, *spread, 1 - busy, gap, waiting, above, 1 - quantile)
    return np.asarray(floor + z)


def _busy(load: Load, line: Line, in_time: Floats) -> Floats:
    """Chance that the clock finds a step with prompts, (n, 1)."""
    share = np.clip(load.prompts_per_step_s**2 / line.moments.served2, 1e-9, 1.0)
    busy = np.clip(1 - (1 - share) * load.gap_s / load.step_s, 1e-6, 1.0)
    return np.asarray(np.maximum(busy, in_time / np.sqrt(1 + in_time**2)))


def _components(load: Load, line: Line, above: Floats, busy: Floats, chance: Floats) -> tuple[Floats, Floats]:
    """Scale and shape of Z given the bucket j in work, (n, w, w): [server, whose Z, j]."""
    m, gap, beta, util = line.moments, load.gap_s, load.full_s, np.clip(load.utilisation, 0.0, 1.0)
    z = np.maximum(above - (1 - busy) * gap / 2, TINY) / busy
    rest = (gap + np.minimum(load.prompt_s, beta)) / 2
    mean_rest = total(chance * rest) / busy
    common = np.maximum(z - mean_rest, 0.0)
    queue = m.left * (m.full_gap_s + beta) / load.step_s * (1 + gap / beta) / busy
    gated = np.maximum(common - queue, 0.0)
    long = np.maximum(load.prompt_s - beta, 0.0) * load.prompt_s + TINY * load.prompt_s
    by_line = util + (1 - util) * long / (total(chance * long) / busy)
    by_step = util + (1 - util) * rest / mean_rest
    rest3 = rest[:, None, :] * np.minimum(1.0, z / mean_rest)[:, :, None]
    gated3 = gated[:, :, None] * by_step[:, None, :]
    line3 = (common - gated)[:, :, None] * by_line[:, None, :]
    mean = rest3 + gated3 + line3 + TINY
    lump = (load.square_s / load.rho_p)[:, :, None]
    vary = (np.maximum(m.served2 - load.prompts_per_step_s**2, 0.0) / load.step_s**2)[:, :, None]
    u = util[:, :, None]
    even = (rest3 + line3 * (1 - u)) / 3**0.5
    wild = line3 * u + np.sqrt(np.minimum(gated3 * lump + gated3**2 * vary, gated3**2))
    variance = even**2 + wild**2 + 2 * u**4 * even * wild
    shape = (
        np.clip(variance / mean**2, 0.03, 2.0) ** -0.543
    )  # Weibull: its variation is shape^-0.92 within 3 %
    return np.asarray(mean / gamma_of(1 + 1 / shape)), np.asarray(shape)


def _mixture_quantile(
    chance: Floats,
    scale: Floats,
    shape: Floats,
    quiet: Floats,
    gap: Floats,
    waiting: Waiting,
    mean: Floats,
    tail: float,
) -> Floats:
    """z that Z is above with the chance `tail`, (n, w): P(Z > z) = Σ_j chance_j exp(-(z/scale_j)^shape_j) +
    quiet · (1 - z/gap)⁺, and of those that wait for a place that of its `mean` and their exponential wait.

    Looked for up to where no term is above tail/2, of buckets with next to no chance apart: their scale is as
    large as their chance is small, and would take all digits of the bisection."""
    matters = (chance > 1e-5 * tail)[:, None, :]
    reach = np.where(matters, scale, 0.0) * (-np.log(tail / 2)) ** (1 / shape)
    longest = waiting.given_s * np.log(np.maximum(2 * waiting.chance / tail, 1.0))
    low, high = np.zeros(scale.shape[:2]), np.maximum(reach.max(axis=2), gap)
    high = high + np.where(waiting.chance > 0, mean + longest, 0.0)
    given_s = np.maximum(waiting.given_s, TINY)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        over = (chance[:, None, :] * np.exp(-((middle[:, :, None] / scale) ** shape))).sum(axis=2)
        over = over + quiet * np.maximum(1 - middle / gap, 0.0)
        late = np.exp(-np.maximum(middle - mean, 0.0) / given_s)
        over = (1 - waiting.chance) * over + waiting.chance * late
        low, high = np.where(over > tail, middle, low), np.where(over > tail, high, middle)
    return np.asarray((low + high) / 2)


def gamma_of(x: Floats) -> Floats:
    """Γ(x) for x >= 1, by Stirling's series from x + 4 down; error below 1e-6.

    >>> [round(float(gamma_of(np.array(x))), 6) for x in (1.0, 1.5, 4.0)]
    [1.0, 0.886227, 6.0]
    """
    y = np.asarray(x) + 4.0
    series = 1 / (12 * y) - 1 / (360 * y**3) + 1 / (1260 * y**5)
    high = np.exp((y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series)
    return np.asarray(high / (x * (x + 1) * (x + 2) * (x + 3)))


SHAPES = np.array([0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.65, 1.0, 1.5, 2.5, 4.0])
"""Shapes of the gamma variables tabulated below."""

GAMMA_QUANTILES = {
    0.5: (0.0, 0.0, 0.0004, 0.0059, 0.0416, 0.1037, 0.2438, 0.4118, 0.5557, 0.6931, 0.7887, 0.8703, 0.918),
    0.9: (0.1475, 1.085, 2.158, 2.662, 2.965, 3.025, 2.949, 2.763, 2.554, 2.303, 2.084, 1.847, 1.67),
    0.95: (2.295, 4.797, 5.752, 5.804, 5.504, 5.153, 4.574, 3.988, 3.496, 2.996, 2.605, 2.214, 1.938),
    0.99: (27.94, 23.63, 18.84, 15.88, 12.87, 11.01, 8.798, 7.029, 5.759, 4.605, 3.782, 3.017, 2.511),
}
"""Quantiles of gamma variables of mean 1 and those shapes; interpolated within 1.3 % above shape 0.1 (p90 and
beyond)."""

NORMAL = {0.5: 0.0, 0.9: 1.2815516, 0.95: 1.6448536, 0.99: 2.3263479}


def gamma_quantile(shape: Floats, quantile: float) -> Floats:
    """Quantile of a gamma variable of mean 1: tabulated up to shape 4, above Wilson and Hilferty (1931), 0.2
    % off.

    >>> [round(float(gamma_quantile(np.array(k), 0.9)), 2) for k in (0.5, 1.0, 10.0)]
    [2.7, 2.3, 1.42]
    """
    k = np.maximum(np.asarray(shape, dtype=float), SHAPES[0])
    small = np.interp(np.log(k), np.log(SHAPES), np.array(GAMMA_QUANTILES[quantile]))
    large = np.maximum(1 - 1 / (9 * k) + NORMAL[quantile] / (3 * np.sqrt(k)), 0.0) ** 3
    return np.asarray(np.where(k <= SHAPES[-1], small, large), dtype=float)

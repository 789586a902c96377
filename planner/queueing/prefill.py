"""A prefill server: whole prompts in order of arrival, as many a step as fit the token budget, at least one.

The line of `planner.queueing.line` with D = t0, but a server that can be empty: then the next prompt
starts at once, alone. With P0 the chance that a step leaves nobody, x̄ and x² the prompts' mean work and its
square, β the work of a full step (for one bucket: of the whole prompts that fit), S = t0 + m:

    E[m] = (ρ t0 + P0 x̄) / (1 - ρ)                      P0 ≈ exp(-λ E[S]) while steps are not full
    E[R] = (E[S] Σλp² + ρ² (t0² + 2 t0 E[m]) + P0 x² - (1 - ρ²) E[m²]) / 2 (β - ρ (t0 + β))

An arrival finds the server busy ρ E[S]/E[m] of the time. Where one prompt fills a step this is Pollaczek and
Khinchine's formula for service t0 + p; where any number fits, a gated queue. Percentiles: Weibull above t0 +
p, its variation from the second moment of the wait of M/G/1, E[W²] = 2 E[W]² + λ E[y³] / 3 (1 - ρ) (Takács).
Error: `python -m benchmarks.queueing`.
"""

from __future__ import annotations

import numpy as np

from planner.designs.shape import Floats
from planner.queueing.line import softmin
from planner.queueing.load import TINY, Load, Parts, total
from planner.queueing.tail import QUANTILE, gamma_of


def step_shares(parts: Parts, share: Floats, budget: Floats) -> Floats:
    """Steps that a prompt of each bucket takes where all steps are full, (n, w): of equal prompts as many as
    fit share a step; of a mix, those that fit the budget less half of the next prompt, the one that did not
    fit; at most one each."""
    new = np.maximum(parts.new, TINY)
    tokens = share * new
    next_ = total(tokens * np.minimum(new, budget)) / np.maximum(total(tokens), TINY)
    mixed = np.minimum(new / np.maximum(budget - next_ / 2, TINY), 1.0)
    lone = 1 / np.maximum(np.floor(budget / new), 1.0)
    return np.where((share > 1e-6).sum(axis=1, keepdims=True) == 1, lone, mixed)


def utilisation(parts: Parts, rate: Floats, budget: Floats) -> Floats:
    """Share of time that full steps would need for the load, (n, 1)."""
    share = rate / np.maximum(total(rate), TINY)
    return total(rate * (parts.prompt_s + parts.t0_s * step_shares(parts, share, budget)))


def ttft_s(load: Load, parts: Parts, budget: Floats, percentile: str) -> Floats:
    """Time to first token, (n, w), of arrivals at random."""
    t0, rho, prompt = load.t0_s, load.rho_p, load.prompt_s
    beta = rho / total(load.rate * step_shares(parts, load.share, budget))
    biased = total(load.rate * prompt * np.maximum(prompt, beta)) / rho  # full step, by the work in it
    mean, square = rho / load.arrivals, load.square_s / load.arrivals
    served = np.minimum(mean, beta)
    for _ in range(4):
        empty = np.exp(-load.arrivals * (t0 + served))
        served = softmin((rho * t0 + empty * mean) / (1 - rho), beta)
    empty = np.clip(((1 - rho) * served - rho * t0) / mean, 0.0, 1.0)
    step = t0 + served
    fed = load.square_s * step + rho**2 * (t0**2 + 2 * t0 * served) + empty * square
    served2 = np.maximum(softmin(fed / (1 - rho**2), biased * served), served**2)
    slack = np.maximum(beta - rho * (t0 + beta), 1e-6 * beta)
    left = np.maximum(fed - (1 - rho**2) * served2, 0.0) / (2 * slack)
    busy = np.clip(rho * step / served, TINY, 1.0)
    residual = (t0**2 + 2 * t0 * served + served2) / (2 * step)
    work = left * (t0 + beta) / step + rho * residual
    later = (
        work / beta * np.exp(-np.maximum(beta - prompt, 0.0) / np.maximum(work, TINY))
    )  # steps before its own
    room = np.maximum(beta * (1 + later) - work - prompt, TINY)
    fill = room * (1 - np.exp(-rho * residual / room))
    wait = residual + work + t0 * later + fill
    floor = t0 + prompt + parts.drain_s
    if percentile == "mean":
        return np.asarray(floor + busy * wait)
    return np.asarray(floor + _quantile(load, beta, busy, wait, QUANTILE[percentile]))


def _quantile(load: Load, beta: Floats, busy: Floats, wait: Floats, quantile: float) -> Floats:
    """Quantile of a wait that is 0 with chance 1 - busy and else Weibull of mean `wait`."""
    service = load.prompt_s * (1 + load.t0_s / beta)
    utilised = np.minimum(load.utilisation, 0.999)
    first = total(load.rate * service**2) / (2 * (1 - utilised))
    second = 2 * first**2 + total(load.rate * service**3) / (3 * (1 - utilised))
    variation2 = np.clip(
        second * utilised / np.maximum(first, TINY) ** 2 - 1, 0.1, 4.0
    )  # of the wait, given one
    shape = variation2**-0.543
    scale = wait / gamma_of(1 + 1 / shape)
    return np.asarray(scale * np.maximum(np.log(busy / (1 - quantile)), 0.0) ** (1 / shape))

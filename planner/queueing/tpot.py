"""Time per output token, mean and percentiles: the mean length of the steps in which a request decodes.

Steps follow S_k = t0 + decodes + prompts, where an arrival in one step adds its prompt to the next and its
decodes to the K = osl - 1 after: a branching process with ρ offspring per unit of length. To second order all
of it follows from the response ψ of later steps to one arrival and from the covariance λT Σ ψ_i ψ_{i+j}. A
request sees, over its K steps, T plus
- what its own presence adds: its tokens, and the arrivals its tokens cause (rate of growth g = σ/K a step);
- what its arrival tells: it is likelier in long steps, which carry more prompts and more sequences
  (covariance / T);
- the line it leaves behind: while it waited, work b gathered; each unit of b above the mean line b̄ lengthens
  later steps by 1/(1 - ρ_p) in all, but by no more than (β - E[m]) a step, so within K steps: c·b/(c + b), c
  = K · slack (2).

With ρ_p = 0 it is the queue with processor sharing and a set-up per step, whose number of sequences is
negative binomial: T = (t0 + own) / (1 - ρ) exactly. Prompts multiply the slow terms by Z = 1/(1 - ρ_p) each
time; where the line is full a share P of the steps, sequences start as fast as the line feeds them, whatever
the steps' length: such feedback is cut by (1 - P).

The variance adds the same three; percentiles are of a gamma variable above t0 + own (two moments), widened
and cut as the length of a full step is approached. Error: `python -m benchmarks.queueing`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.designs.shape import Floats
from planner.queueing.line import Line
from planner.queueing.load import TINY, Load, total
from planner.queueing.tail import gamma_quantile


@dataclass(frozen=True)
class Behind:
    """The line left behind by a request at its first token, and the mean line, (n, w) and (n, 1).

    `free`, `queued`: its work if the request found nobody, or somebody, before it; `mean`, `busy` the mean
    line and the chance that there is one; `reach` the most that K steps can catch up, c in (2); `gain`
    seconds of decoding more than T·K."""

    free: Floats
    queued: Floats
    mean: Floats
    busy: Floats
    reach: Floats
    gain: Floats
    emerged: Floats  # share of the whole gain that falls into K steps


def behind(load: Load, line: Line) -> Behind:
    """Prompt work behind a request when its first token is out."""
    m, rho_p = line.moments, load.rho_p
    mean = load.prompts_per_step_s
    work = np.maximum(rho_p * line.ttft_s - line.fill_s, TINY)
    free = np.clip(rho_p * line.free_s - line.free_fill_s, 0.0, work)
    queued = np.maximum(work - (1 - line.ahead) * free, 0.0) / np.maximum(line.ahead, TINY)
    average = mean + m.left
    busy = np.clip(mean**2 / m.served2, 1e-3, 1.0)
    slack = np.maximum(load.full_s - rho_p * (m.full_gap_s + load.full_s), 0.02 * load.full_s)
    reach = load.steps * slack
    caught = (1 - line.ahead) * _within(free, reach) + line.ahead * _within(queued, reach)
    caught = caught - busy * _within(average / busy, reach)
    gain = caught / (1 - rho_p) * (1 - rho_p**load.steps)
    whole = (work - average) / (1 - rho_p)
    late = 1 / (1 - rho_p) / load.steps  # steps in which it emerges, in units of K
    emerged = np.clip(gain / np.maximum(whole, TINY), 0.0, 1.0) * (1 - late * (1 - np.exp(-1 / late)))
    return Behind(free, queued, average, busy, reach, gain, emerged)


def mean_tpot_s(load: Load, line: Line, left: Behind) -> Floats:
    """Mean TPOT of each bucket, (n, w), no less than that of a request alone."""
    z = 1 / (1 - load.rho_p)
    grow = growth(load)
    rise = np.expm1(grow)
    mean_rise = rise / grow
    prompt, cut = load.prompt_s * z, 1 - line.moments.full_share
    both = total(load.rate * load.prompt_s * load.own_s) * z**2 * load.steps * mean_rise
    own = load.own_s * load.steps * mean_rise * z
    caused = (prompt * rise + load.square_s * z**2 * rise + both) * left.emerged * cut
    sigma = np.maximum(load.feedback, TINY)
    told = load.weighted_own_s * z**3 * (1 / (1 - sigma) - np.expm1(sigma) / sigma)
    tpot = load.step_s + (own + caused + left.gain) / load.steps + told * cut
    return np.maximum(tpot, load.t0_s + load.own_s)


def growth(load: Load) -> Floats:
    """What the arrivals caused in a request's K steps add to them, relative: σ where all buckets last as
    long, (n, w)."""
    overlap = np.minimum(1.0, load.steps[:, None, :] / load.steps[:, :, None])  # of bucket j's life with i's
    slope = ((load.rate * load.own_s)[:, None, :] * overlap).sum(axis=2) / (1 - load.rho_p)
    return np.asarray(np.clip(slope * load.steps, TINY, 3.0))


def variance_tpot(load: Load, line: Line, left: Behind) -> Floats:
    """Variance of TPOT between the requests of a bucket, (n, w)."""
    m, steps = line.moments, load.steps
    z, keep = 1 / (1 - load.rho_p), 1 - line.moments.full_share
    grow = np.maximum(growth(load), 1e-3)
    once, twice = (np.exp(grow) - 1) / grow, (np.exp(2 * grow) - 1) / (2 * grow)

    prompts = np.maximum(m.served2 - load.prompts_per_step_s**2, TINY**2)
    memory = np.maximum(
        load.square_s * load.step_s * z**2 / (2 * prompts), 0.5
    )  # long-run variance / own, in steps
    fast = prompts * averaged(steps / memory) * (1 + (twice - 1) * keep)

    slow = load.weighted_own_s * load.rho_d * load.step_s * z / (1 - load.rho)
    memory = 0.67 * load.weighted_steps / (1 - load.feedback)
    slow = slow * averaged(steps / np.maximum(memory, TINY)) * (1 + (z**2 - 1) * keep)
    both = (
        2 * total(load.rate * load.prompt_s * load.own_s) * load.step_s * z**2 * (twice - once) / grow * keep
    )

    lump = load.square_s / np.maximum(load.rho_p, TINY)
    free, free2 = _within(left.free, left.reach), _within2(left.free**2 + lump * left.free, left.reach)
    queued, queued2 = _within(left.queued, left.reach), _within2(2 * left.queued**2, left.reach)
    first = (1 - line.ahead) * free + line.ahead * queued
    first2 = (1 - line.ahead) * free2 + line.ahead * queued2
    typical = left.mean / left.busy
    then2 = left.busy * _within2(2 * typical**2, left.reach)
    then2 = np.minimum(then2, m.served2 + 2 * m.left**2 / np.maximum(m.full_share, 1e-3))
    then = left.busy * _within(typical, left.reach)
    start = np.maximum(first2 - first**2 - then2 + then**2, 0.0) * (z / steps) ** 2
    return np.asarray(fast + slow + both + start * (1 + (np.exp(2 * grow) - 1) * keep))


SELDOM = 1e-3
"""Share of the prompts from which on those that take longest for their tokens fill whole steps."""

MORE = 1.1
"""Times the mean gap of full steps that those of a server's fullest times have: the p95 of answers of 12 to
30 tokens, which see nothing but full steps, then holds as many as it says."""


def tpot_quantile(load: Load, line: Line, mean: Floats, variance: Floats, quantile: float) -> Floats:
    """Quantile of TPOT, (n, w): a gamma above the shortest step, cut at the longest."""
    shortest = load.t0_s + load.own_s
    chunk_s = np.where(load.share > SELDOM, load.chunk_s, 0.0).max(axis=1, keepdims=True)
    whole = np.maximum(load.full_s, chunk_s) * load.budget / load.room
    longest = np.maximum(MORE * line.moments.full_gap_s + whole, mean)
    above = np.maximum(mean - shortest, TINY)
    excess = above * gamma_quantile(above**2 / np.maximum(variance, TINY**2), quantile)
    excess = excess * (
        1 + 1.6 * variance / np.maximum(longest - shortest, TINY) ** 2
    )  # 1.6: fitted, gamma tails are cut
    return np.asarray(np.minimum(shortest + excess, longest))


def averaged(x: Floats) -> Floats:
    """Variance of a mean over x memories of a process with exponential memory, relative to one value's: 2(x -
    1 + e⁻ˣ)/x².

    >>> [round(float(averaged(np.array(x))), 3) for x in (1e-4, 1.0, 100.0)]
    [1.0, 0.736, 0.02]
    """
    x = np.maximum(x, 1e-3)
    return np.asarray(2 * (x - 1 + np.exp(-x)) / x**2)


def _within(work: Floats, reach: Floats) -> Floats:
    """Work caught up of a line of `work`, exponential in size, where at most `reach` can be."""
    return np.asarray(work * reach / (reach + work + TINY))


def _within2(square: Floats, reach: Floats) -> Floats:
    """Second moment of what `_within` is the mean of."""
    return np.asarray(square * reach**2 / (reach**2 + square + TINY**2))

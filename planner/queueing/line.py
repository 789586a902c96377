"""The line of prompts: what waits before each step, and the mean time to first token.

Prompts are computed in order of arrival, each step taking what fits: a gated queue in bulk. Before a step the
line holds Q seconds of prompt work, of which it serves m = min(Q, β), β = `full_s`; it leaves R = Q - m and
lasts S = D + m, D the `gap_s`. Meanwhile work A arrives, Poisson: E[A|S] = ρ_p S, Var[A|S] = S Σλp².
Conservation gives E[m] = ρ_p T. Squaring Q' = R + A in steady state, R m = R β:

    0 = -2 E[Q m] + E[m²] + 2 ρ_p E[R S] + T Σλp² + ρ_p² E[S²]
    E[R] = (T Σλp² + ρ_p² (D² + 2 D E[m]) - (1 - ρ_p²) E[m²]) / 2 (β - ρ_p (D_f + β))                  (1)

exact but for E[m²], which lies between two limits: no chunk waits (R = 0, so (1) gives it, with the squares
of chunks in place of p²) and every step with prompts is full (E[m²] = β E[m]); a smooth minimum joins them.
D_f, the gap of full steps, is longer than D: while the line is served many sequences start. From the mean
seen by steps, n, and by the clock, n_t:

    n_f = n + (1 - P)(n_t - n) / (φ - P),   P = E[m]/β,   φ = P (D + β)/T,

P the share of full steps and φ their share of time.

A request arrives in a step of length-biased duration: it waits E[S²]/2T for its end, finds E[R S]/T + ρ_p
E[S²]/2T of work before it, and takes as many steps as that work and its own prompt fill. They hold also the
work of prompts behind it that fit its last step. The number of steps of a prompt is a step function of the
work before it, so nobody, one whole prompt and more than one are told apart (a geometric number of prompts
before it).

Error against the replay: `python -m benchmarks.queueing`. Gated queues: Takagi, Analysis of Polling Systems,
1986, of which this is the case of one queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.designs.shape import Floats, Ints
from planner.queueing.load import TINY, Load, total

PULL = 3.0
"""Factor on Cov(D, R), whose closed form takes R for small: fitted at utilisation 0.9, where it is 5 to 10 %
of the wait."""


@dataclass(frozen=True)
class Moments:
    """Moments of a step, (n, 1): E[m²], E[R], P, gaps of full steps and as the clock sees them, E[S²], Cov(D,
    R)."""

    served2: Floats
    left: Floats
    full_share: Floats
    full_gap_s: Floats
    seen_gap_s: Floats
    square: Floats
    pull: Floats


@dataclass(frozen=True)
class Line:
    """Means of the way to the first token, (n, w) but `residual_s`, `ahead` (n, 1).

    `ttft_s`; `free_s` the same with nobody before; `fill_s`, `free_fill_s` the work of prompts behind done
    meanwhile; `chunks` of a prompt alone, `steps` to its first token; `ahead` the chance to find a prompt
    before."""

    moments: Moments
    residual_s: Floats
    ttft_s: Floats
    free_s: Floats
    fill_s: Floats
    free_fill_s: Floats
    chunks: Floats
    steps: Floats
    ahead: Floats


def softmin(a: Floats, b: Floats) -> Floats:
    """A smooth minimum: (a⁻⁴ + b⁻⁴)^(-1/4).

    >>> float(softmin(np.array(1.0), np.array(1e9))), round(float(softmin(np.array(2.0), np.array(2.0))), 3)
    (1.0, 1.682)
    """
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(low / (1 + (low / np.maximum(high, TINY**2)) ** 4) ** 0.25)


def soft_ceil(x: Floats, width: Floats) -> Floats:
    """Chunks of a prompt of `x` budgets: the ceiling, its jumps spread over `width` because the room for
    prompts varies."""
    whole = np.floor(x)
    return np.asarray(np.maximum(1.0, whole + np.clip((x - whole) / width, 0.0, 1.0)))


def moments(load: Load, seen: Floats) -> Moments:
    """Moments of the steps where the clock sees `seen` (n, 1) decoding sequences, no fewer than the mean
    step."""
    beta, gap, step, rho_p = load.full_s, load.gap_s, load.step_s, load.rho_p
    mean = load.prompts_per_step_s
    chunks = np.ceil(load.prompt_s / load.chunk_s * (1 - 1e-12))
    pieces = (chunks - 1) * load.chunk_s**2 + (load.prompt_s - (chunks - 1) * load.chunk_s) ** 2
    spread = rho_p**2 * (gap**2 + 2 * gap * mean)
    alone = (total(load.rate * pieces) * step + spread) / (1 - rho_p**2)
    served2 = softmin(alone, beta * mean)

    own = load.rho_d * step / np.maximum(load.sequences, TINY)
    share = np.clip(mean / beta, 1e-9, 1 - 1e-9)
    in_time = share * np.maximum((gap + beta) / step, 1 + 1e-9)
    full = load.sequences + (1 - share) * (seen - load.sequences) / (in_time - share)
    most = total(load.rate * load.steps) * beta / rho_p  # a line never empty feeds no more than this
    full_gap = np.maximum(load.t0_s + own * np.minimum(full, np.maximum(most, seen)), gap)
    slack = np.maximum(beta - rho_p * (full_gap + beta), 0.02 * beta)
    left = np.maximum(load.square_s * step + spread - (1 - rho_p**2) * served2, 0.0) / (2 * slack)

    # D varies slowly with the number of sequences, and remembers it for `keeps` steps, R for `drains`
    slow = load.weighted_own_s * load.rho_d * step * (1 - rho_p) / (1 - load.rho)
    keeps, drains = load.weighted_steps / 2 / (1 - load.feedback), 2 * left / slack
    pull = PULL * rho_p * left / slack * slow / (1 - rho_p) ** 2 * keeps / (keeps + drains + TINY)
    left = left + rho_p * pull / slack
    # sequences and prompts come together
    extra = np.maximum(own * (seen - load.sequences) * step - slow / (1 - rho_p), 0.0)
    square = gap**2 + 2 * gap * mean + served2 + slow / (1 - rho_p) ** 2 + 2 * extra
    return Moments(served2, left, share, full_gap, load.t0_s + own * seen, square, pull)


def line(load: Load, drain_s: Floats, m: Moments, others: Floats | None = None) -> Line:
    """Mean time to first token. In a closed loop (`others`: requests it can meet over all, (n, 1)) requests
    come with the end of a step: no residual, but half of those that come at the same time are before it.
    `drain_s` (n, w): as in `Parts`. Buckets with the same prompts wait alike, and are looked at as one."""
    prompts, of = _prompts(load)
    if len(prompts) < len(of):
        return _spread(line(_merged(load, prompts, of), np.zeros((1, 1)), m, others), of, drain_s)
    residual = m.square / (2 * load.step_s)
    if others is None:
        met, window, starts = 1 + 0 * residual, residual, residual
        biased = (m.full_gap_s + load.full_s) / load.step_s
    else:
        met, window, starts, biased = others, load.step_s / 2, 0 * residual, 1 + 0 * residual
    least = np.minimum(TINY, 1e-3 * total(load.share * load.prompt_s))  # next to no prompt
    before = m.left * biased + load.rho_p * window * met + least
    ahead, ways = _ways(load, before)
    ttft, fill, steps = m.pull / load.full_s, 0.0 * residual, 0.0 * residual
    alone: tuple[Floats, ...] = ()
    for chance, work, taken in ways:
        room = np.maximum(taken * load.full_s - work - load.prompt_s, TINY)
        waited = window + (taken - 1) * (m.full_gap_s + load.full_s)
        filled = _filled(load, room, load.arrivals * met * waited)
        time = starts + work + load.prompt_s + m.seen_gap_s + (taken - 1) * m.full_gap_s + filled
        alone = alone or (time, filled, taken)
        ttft, fill, steps = ttft + chance * time, fill + chance * filled, steps + chance * taken
    first = alone[0] + drain_s
    return Line(m, residual, ttft + drain_s, first, fill, alone[1], alone[2], steps, ahead)


def _prompts(load: Load) -> tuple[Ints, Ints]:
    """The first bucket with each prompt, and for every bucket which of these its own is."""
    every = np.arange(load.prompt_s.shape[1])
    told = list(zip(*(x[:1].ravel().tolist() for x in (load.prompt_s, load.chunk_s)), strict=True))
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(told))}
    if len(kinds) in (0, len(every)):
        return every, every
    of, first = np.array([kinds[kind] for kind in told]), np.array([told.index(kind) for kind in kinds])
    alike = all(np.array_equal(x, x[:, first][:, of]) for x in (load.prompt_s, load.chunk_s))
    return (first, of) if alike else (every, every)


def _merged(load: Load, first: Ints, of: Ints) -> Load:
    """The load with one bucket for each prompt."""
    own = {k: getattr(load, k)[:, first] for k in ("prompt_s", "chunk_s", "steps", "own_s")}
    same = (of[:, None] == np.arange(len(first))).astype(np.float64)  # (w, prompts)
    return replace(load, rate=load.rate @ same, **own)


def _spread(met: Line, of: Ints, drain_s: Floats) -> Line:
    """The line of prompts, for every bucket that of its own."""
    ttft, free, fill, free_fill = (x[:, of] for x in (met.ttft_s, met.free_s, met.fill_s, met.free_fill_s))
    first, chunks, steps = free + drain_s, met.chunks[:, of], met.steps[:, of]
    return Line(met.moments, met.residual_s, ttft + drain_s, first, fill, free_fill, chunks, steps, met.ahead)


def _ways(load: Load, before: Floats) -> tuple[Floats, list[tuple[Floats, Floats, Floats]]]:
    """The chance to find a prompt ahead, and (chance, work ahead, steps taken): nobody, one prompt of each
    bucket, more."""
    share, prompt, beta = load.share, load.prompt_s, load.full_s
    width = 0.02 + np.sqrt(load.sequences / (1 - load.feedback)) / load.budget
    whole = np.minimum(1.0, beta / prompt)
    lump = prompt * (1 + whole) / 2  # what is left of a prompt found in work: half of a long one
    lumps = before / total(share * lump)
    ahead = lumps / (1 + lumps)
    own = prompt / load.chunk_s
    ways = [(1 - ahead, 0.0 * prompt, soft_ceil(own, width))]
    for j in range(prompt.shape[1]):
        budgets, is_whole = own + lump[:, [j]] / beta, whole[:, [j]]
        steps = is_whole * soft_ceil(budgets, width) + (1 - is_whole) * (budgets + 0.5)
        ways.append((ahead * (1 - ahead) * share[:, [j]], lump[:, [j]] + 0.0 * prompt, steps))
    many = total(share * lump) * (2 + lumps)
    budgets = own + many / beta
    steps = np.maximum(1.0, budgets + 0.5 * np.minimum(1.0, budgets))
    return ahead, [*ways, (ahead**2, many + 0.0 * prompt, steps)]


def _filled(load: Load, room: Floats, behind: Floats) -> Floats:
    """Work of `behind` prompts on average, Poisson, that goes into `room` seconds of the last step."""
    piece = (load.share[:, None, :] * np.minimum(load.prompt_s[:, None, :], room[:, :, None])).sum(axis=2)
    return np.asarray(room * (1 - np.exp(-behind * piece / room)))

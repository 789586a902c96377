"""A closed loop: a fixed number of requests, the next one enters when one ends.

Of N requests in flight M are in the server: those that find room in its batch and KV cache, and those that
wait for the turn of their prompts, which hold none yet. A request spends K + c steps there, K = osl - 1 of
them decoding and c before its first token, and steps last T = t0 / (1 - ρ) on average. By Little's law, with
X requests/s and the mean work E[work] of a request, ρ = X E[work]:

    M = X E[K + c] T,   X = M / (E[K + c] t0 + M E[work])

exact; only c is approximate: 1 for a prompt that fits the step, more for one cut into chunks or in a line of
others. No TPOT is below a step without prompts; where that binds, as in pipelines with fewer requests than
stages, whose prompts take long to pass, more are in flight. Requests enter at the end of a step, with those
whose sequences ended in the same step, taken to meet at random as they do where lengths differ. Of the N some
may be beside the server, each for a time b, as M + X b <= N; requests beyond these wait outside for (N - M) /
X - b.

Percentiles are of gamma variables with a mean as above and a variance from what is met: of TTFT prompts at
random, as in the open loop; of TPOT the prompts of others, each of which comes again when it ends
(`renewed`), and whether these are long or short. Error: `python -m benchmarks.queueing`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.designs.shape import Floats, Ints
from planner.queueing.line import Moments, line, softmin
from planner.queueing.load import TINY, Limits, Load, Parts, total
from planner.queueing.tail import QUANTILE, gamma_quantile
from planner.queueing.tpot import averaged

GRAINS, HALVINGS = 2**40, (8, 5, 4, 2, 1)
"""Grains of a server's capacity to which a rate is found: 40 halvings, so many of them at once."""

AT_ONCE = 320
"""Rates tried at once, of all servers: a pass over many costs little more than over few."""

Rows = TypeVar("Rows", Parts, Limits, "Ring")


@dataclass(frozen=True)
class Ring:
    """Requests `wanted` in flight, the `places` that the server has, of which a prompt in work takes
    `prompt_places`, and the seconds `beside_s` that each request is in flight but not in the server; (n,
    1)."""

    wanted: Floats
    places: Floats
    prompt_places: Floats
    beside_s: Floats


@dataclass(frozen=True)
class Loop:
    """Times (n, w) at one rate, and (n, 1): `sequences` decoding, requests `inside` the server, prompts in
    `work`."""

    ttft_s: Floats
    tpot_s: Floats
    mean_tpot_s: Floats
    sequences: Floats
    inside: Floats
    work: Floats


def at_rate(parts: Parts, load: Load, percentile: str = "mean") -> Loop:
    """What a loop that makes this rate looks like."""
    steps, ttft, alone = _first_tokens(parts, load)
    inside = total(load.rate * (parts.steps + steps)) * load.step_s
    decoding = total(load.rate * parts.steps)
    lag = np.where(decoding > TINY, total(load.rate * (steps * load.step_s - ttft)), 0.0)
    lag = lag / np.maximum(decoding, TINY)
    least = np.maximum(load.t0_s + load.own_s, load.gap_s)  # a step without prompts
    tpot = np.maximum(load.step_s + lag, least)
    sequences, mean = total(load.rate * parts.steps * tpot), tpot
    inside = np.maximum(inside, total(load.rate * ttft) + sequences)  # more where that is the least
    if percentile != "mean":
        tpot = _tpot_quantile(load, tpot, QUANTILE[percentile])
        ttft = _ttft_quantile(load, alone, ttft, QUANTILE[percentile])
    alone_s = np.where(parts.new > 0, load.t0_s + load.prompt_s + parts.drain_s, 0.0)
    return Loop(ttft, tpot, mean, sequences, inside, total(load.rate * alone_s))


def _first_tokens(parts: Parts, load: Load) -> tuple[Floats, Floats, Floats]:
    """Steps and seconds to the first token, and seconds of these without any other prompt, (n, w); none of
    prompts that are not computed: on a decode server sequences come ready."""
    prompted, none = parts.new > 0, np.zeros_like(load.rate)
    if not prompted.any():
        return none, none, none
    chunks = np.maximum(np.ceil(load.prompt_s / load.chunk_s * (1 - 1e-9)), 1.0)
    alone = total(load.rate * (parts.steps + chunks)) * load.step_s
    others = np.clip(1 - 1 / np.maximum(alone, TINY), 0.0, 1.0)
    met = line(load, parts.drain_s, _moments(load, alone, others), others)
    times = met.steps, met.ttft_s, np.minimum(met.free_s - met.free_fill_s, met.ttft_s)
    steps, ttft, lone = (np.where(prompted, x, 0.0) for x in times)
    return steps, ttft, lone


def rate_of(parts: Parts, share: Floats, ring: Ring, limits: Limits) -> Floats:
    """Requests/s (n, 1) of a loop; each server's is the same whichever others are looked at with it."""
    none = np.zeros_like(ring.wanted * parts.t0_s)
    most, rows = 1 / Load.of(parts, share + none, limits).utilisation, np.arange(len(none))
    halvings = next(h for h in HALVINGS if len(rows) * (2**h - 1) <= AT_ONCE or h == 1)
    each = rows.repeat(2**halvings - 1)
    parts, ring, limits = _taken(parts, each), _taken(ring, each), _taken(limits, each)
    shares = np.broadcast_to(share, (len(rows), share.shape[1]))[each]
    found, section = np.zeros_like(rows), GRAINS
    while section > 1:
        section >>= halvings
        tried = found[:, None] + section * np.arange(1, 2**halvings)
        rate = (most * (tried / GRAINS)).reshape(-1, 1)
        fewer = _fewer(parts, rate, shares, ring, limits).reshape(tried.shape)
        at = np.zeros_like(rows)
        for half in (1 << i for i in reversed(range(halvings))):
            at += half * fewer[rows, at + half - 1]
        found += section * at
    return np.asarray(most * (found[:, None] / GRAINS))


def _fewer(parts: Parts, rate: Floats, share: Floats, ring: Ring, limits: Limits) -> NDArray[np.bool_]:
    """Whether a loop that makes this rate (m, 1) has fewer requests in flight than are wanted, and places
    left."""
    load = Load.of(parts, rate * share, limits)
    met = at_rate(parts, load)
    room = met.sequences + ring.prompt_places * met.work < ring.places
    return np.asarray(load.stable & room & (met.inside + rate * ring.beside_s < ring.wanted))


def _taken(rows: Rows, each: Ints) -> Rows:
    """Rows of a dataclass of arrays, (n, ·) or one for all."""
    own = {name: x if len(x) == 1 else x[each] for name, x in vars(rows).items()}
    return replace(rows, **own)


def _moments(load: Load, inside: Floats, others: Floats) -> Moments:
    """Moments of steps with a constant number of sequences, into which prompts come step by step, Poisson:
    E[R] from Q' = (Q - m) + A, no more than all others' prompts. A prompt's own steps decode the `others`
    alone: it meets what N - 1 requests leave (Sevcik and Mitrani 1981)."""
    mean, beta = load.prompts_per_step_s, load.full_s
    came2 = load.square_s * load.step_s + mean**2
    served2 = softmin(came2, beta * mean)
    left = np.maximum(came2 - served2, 0.0) / (2 * np.maximum(beta - mean, 1e-9 * beta))
    most = (inside - 1).clip(0.0) * load.rho_p / load.arrivals
    left = left * most / (left + most + TINY)
    square = load.gap_s**2 + 2 * load.gap_s * mean + served2
    seen = load.t0_s + (load.gap_s - load.t0_s) * others
    return Moments(served2, left, np.clip(mean / beta, 0.0, 1.0), seen, seen, square, 0 * left)


def _ttft_quantile(load: Load, alone: Floats, ttft: Floats, quantile: float) -> Floats:
    """A gamma variable above what a prompt takes `alone`, with the variance of the prompts met."""
    wait = np.maximum(ttft - alone, TINY)
    lump = load.square_s / np.maximum(load.rho_p, TINY)
    return np.asarray(alone + wait * gamma_quantile(np.maximum(wait / lump, 0.1), quantile))


def _tpot_quantile(load: Load, tpot: Floats, quantile: float) -> Floats:
    """A gamma variable above a step of nobody else, with the variance of the prompts and sequences met."""
    alike = load.rho_p**2 / load.arrivals  # of square_s, as if all prompts were alike
    prompts = (load.square_s - (1 - renewed(load)) * alike) * load.step_s / load.steps
    vary, least = np.maximum(prompts + _unlike(load), TINY**2), load.t0_s + load.own_s
    above = np.maximum(tpot - least, TINY)
    return np.asarray(least + above * gamma_quantile(above**2 / vary, quantile))


def _unlike(load: Load) -> Floats:
    """Variance of the mean step that others make by being of one bucket or another, (n, w): each for as long
    as it decodes, 0.67 of a life as memory (`planner.queueing.tpot`)."""
    decoding = np.maximum(total(load.rate * load.steps), TINY)
    mean = total(load.rate * load.steps * load.own_s) / decoding
    square = total(load.rate * load.steps * load.own_s**2) / decoding
    each = np.maximum(square - mean**2, 0.0) * np.maximum(load.sequences - 1, 0.0)
    memory = 0.67 * np.maximum(load.weighted_steps, 1.0)
    return np.asarray(each * averaged(load.steps / memory))


EVEN = 1 / 6
"""Variance of the ends that a window of any length sees of a request which always lasts as long: of the mean
phase, f (1 - f) over all parts f of a life."""


def renewed(load: Load) -> Floats:
    """Variance of the number of prompts that come while a request decodes, over that of a Poisson count, (n,
    w). Each of the others comes again when it ends: over x of a mean life, whose variation² is c², the share
    is c² + (1 - c²) max(1 - x, 1/6x). That joins what a stationary renewal process has at its ends (Cox,
    Renewal Theory, 1962): 1 - x where x is small, c² + 1/6x of lives nearly alike where it is large."""
    life = load.steps + 1
    mean = total(load.share * life)
    wild = np.clip(total(load.share * life**2) / mean**2 - 1, 0.0, 1.0)
    part = load.steps / mean
    return np.asarray(wild + (1 - wild) * np.maximum(1 - part, EVEN / np.maximum(part, 0.5)))

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

Error of means: `python -m benchmarks.queueing`. Percentiles are rougher: prompts met at random, as in the
open loop, with a constant number of sequences.
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
    steps, ttft = _first_tokens(parts, load)
    inside = total(load.rate * (parts.steps + steps)) * load.step_s
    decoding = total(load.rate * parts.steps)
    lag = np.where(decoding > TINY, total(load.rate * (steps * load.step_s - ttft)), 0.0)
    lag = lag / np.maximum(decoding, TINY)
    least = np.maximum(load.t0_s + load.own_s, load.gap_s)  # a step without prompts
    tpot = np.maximum(load.step_s + lag, least)
    sequences, mean = total(load.rate * parts.steps * tpot), tpot
    inside = np.maximum(inside, total(load.rate * ttft) + sequences)  # more where that is the least
    if percentile != "mean":
        ttft, tpot = _percentiles(load, ttft, tpot, QUANTILE[percentile])
    alone_s = np.where(parts.new > 0, load.t0_s + load.prompt_s + parts.drain_s, 0.0)
    return Loop(ttft, tpot, mean, sequences, inside, total(load.rate * alone_s))


def _first_tokens(parts: Parts, load: Load) -> tuple[Floats, Floats]:
    """Steps and seconds to the first token, (n, w); none of prompts that are not computed: on a decode server
    sequences come ready."""
    prompted = parts.new > 0
    if not prompted.any():
        return np.zeros_like(load.rate), np.zeros_like(load.rate)
    chunks = np.maximum(np.ceil(load.prompt_s / load.chunk_s * (1 - 1e-9)), 1.0)
    alone = total(load.rate * (parts.steps + chunks)) * load.step_s
    others = np.clip(1 - 1 / np.maximum(alone, TINY), 0.0, 1.0)
    met = line(load, parts.drain_s, _moments(load, alone, others), others)
    return np.where(prompted, met.steps, 0.0), np.where(prompted, met.ttft_s, 0.0)


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


def _percentiles(load: Load, ttft: Floats, tpot: Floats, quantile: float) -> tuple[Floats, Floats]:
    """Gamma variables above what nobody undercuts, with the variance of the prompts met."""
    floor = np.minimum(load.gap_s + load.prompt_s, ttft)
    wait = np.maximum(ttft - floor, TINY)
    lump = load.square_s / np.maximum(load.rho_p, TINY)
    first = floor + wait * gamma_quantile(np.maximum(wait / lump, 0.1), quantile)
    vary = np.maximum(load.square_s * load.step_s / load.steps, TINY**2)
    above = np.maximum(tpot - load.t0_s - load.own_s, TINY)
    return first, load.t0_s + load.own_s + above * gamma_quantile(above**2 / vary, quantile)

"""Step times + load -> TPOT, TTFT, utilisation and rate of a server, mean and percentiles, in closed form.

Doors: `work_s`, `estimate` at given rates, `closed_loop` at a given concurrency.
Shapes: n servers x w buckets.

With the linear step of `StepTimes` a request brings `work_s` beside the t0 that all sequences of a step
share, so steps last T = t0 / (1 - ρ) (`load`); prompts wait in a line that each step serves from
what the decodes leave of the token budget (`line`, percentiles in `tail`); a request's TPOT
is the mean of the steps it lives through (`tpot`). `closed`: a fixed number of requests;
`prefill`: servers that only prefill.

Arrivals are Poisson ("open") or each follows the end of another ("closed"). Beyond the server's capacity
(utilisation >= 1) times are infinite. Where KV or `max_sequences` bind, requests wait for one of c places
(`places`). Preemption is left out: `admission` says how much room keeps it rare.

Error against the replay, worst bucket of each setting, `python -m benchmarks.queueing` (3 step times, 7
mixes, budgets of 2,048 and 8,192 tokens, utilisation 0.3, 0.6, 0.9; the replay's own noise is 1 to 3 %):

    open loop, 126 settings     TTFT mean 2.5 %, most 9 %;  p90 4.2 %, most 12 %, 4 beyond 10 %
                                TPOT mean 1.6 %, most 12 %, 1 beyond;  p90 2.5 %, most 23 %, 3 beyond
    closed loop, 160 settings   rate 0.2 %, most 1 %;  TTFT 1.2 %, most 13 %, 2 beyond;  TPOT 0.2 %, most 1 %
    prefill servers, 126        TTFT mean 3.0 %, most 18 %, 5 beyond;  p90 4.5 %, most 24 %, 15 beyond

Beyond 10 % are: p90 at utilisation 0.3, where one prompt more or less is a jump (outputs of 12 to 30 tokens:
TPOT up to 23 % off); mean TPOT of such outputs at 0.9; mixes with prompts beyond the budget at 0.9 on prefill
servers; closed loops beyond 0.93. p95 is about as good as p90, p99 of TTFT is up to 40 % off, p50 up to 25 %;
p50 of TPOT up to 77 % in mixes of short outputs.
Near the capacity p90 of TPOT may fall by some per cent with more load, means do not (outputs of 20 tokens and
more). In a closed loop with outputs of exactly equal length requests stay together in groups for ever, and
TTFT is up to a full step longer than here. With `max_sequences` binding TTFT is within 20 % at 0.9; of KV see
above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from planner.designs.shape import Floats, StepTimes
from planner.queueing.closed import Ring, at_rate, rate_of
from planner.queueing.line import line, moments
from planner.queueing.load import (
    FULL,
    MOST_RATE,
    TINY,
    Limits,
    Load,
    Parts,
    column,
    decode_s,
    prefill_s,
    rounds,
    total,
)
from planner.queueing.places import Waiting, wait_for
from planner.queueing.prefill import step_shares, ttft_s, utilisation
from planner.queueing.tail import QUANTILE, ttft_quantile
from planner.queueing.tpot import behind, mean_tpot_s, tpot_quantile, variance_tpot

Percentile = Literal["mean", "p50", "p90", "p95", "p99"]
Role = Literal["mixed", "prefill", "decode"]
Loop = Literal["open", "closed"]

__all__ = ["Estimate", "closed_loop", "decode_s", "estimate", "prefill_s", "work_s"]


@dataclass(frozen=True)
class Estimate:
    """What a server delivers: `tpot_s`, `ttft_s` (n, w) at the percentile asked for; `sequences` decoding,
    `utilisation`, `rate` requests/s (n,); `mean_tpot_s` (n, w), by which Little's law counts.

    A decode server's `ttft_s` is the wait from the KV's arrival to the beginning of its first step; a prefill
    server's `tpot_s` is 0, that of a single-token output the mean step. Times are infinite where the load is
    more than the server can carry, and finite elsewhere: those of a bucket or server without load are what
    one request would find."""

    tpot_s: Floats
    ttft_s: Floats
    sequences: Floats
    utilisation: Floats
    rate: Floats
    mean_tpot_s: Floats


def work_s(
    step: StepTimes,
    new: Floats,
    isl: Floats,
    osl: Floats,
    role: Role = "mixed",
    token_budget: Floats | float = np.inf,
) -> Floats:
    """Seconds of server time a request takes beside the t0 that all sequences of a step share, (n, w).

    A prefill server has no decodes to share t0 with: there a prompt is charged its own, of all its steps.
    """
    if role == "prefill":
        return column(step.t0_s) * rounds(step, new, token_budget) + prefill_s(step, new, isl)
    if role == "decode":
        return decode_s(step, isl, osl)
    return prefill_s(step, new, isl) + decode_s(step, isl, osl)


def estimate(
    step: StepTimes,
    new: Floats,
    isl: Floats,
    osl: Floats,
    rate: Floats,
    token_budget: Floats | float,
    percentile: Percentile = "mean",
    loop: Loop = "open",
    role: Role = "mixed",
    kv_tokens: Floats | float = np.inf,
    max_sequences: Floats | float = np.inf,
    computed: Floats | float = 1.0,
    places: Floats | float = np.inf,
) -> Estimate:
    """Times at `rate` (n, w) requests/s per server, arriving at random ("open") or as soon as one ends
    ("closed"). `token_budget`: tokens of a micro-batch, of which a round carries one for each stage; a
    sequence that decodes computes `computed` of them a step, drafted ones with its own. `places`: requests at
    most in a server, those beyond wait; unlike `max_sequences` they are no part of its utilisation.

    `new` prompt tokens are computed (the others are in the prefix cache), `isl` is the whole prompt; (n, w)
    or (w,). `rate` may be 0 or infinite, the limits too; step times are finite."""
    new, isl, osl, rate = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (new, isl, osl, rate))
    parts = Parts.of(step, new, isl, osl, role, token_budget, computed)
    limits = Limits.of(token_budget, kv_tokens, max_sequences, step.stages)
    rate = np.minimum(rate, MOST_RATE) + np.zeros_like(parts.prompt_s)
    if role == "prefill":
        return _prefill(parts, rate, limits, percentile)
    load = Load.of(parts, rate, limits)
    if loop == "closed":
        met = at_rate(parts, load, percentile)
        return _answer(load, rate, met.tpot_s, met.ttft_s, met.sequences, met.mean_tpot_s)
    held = total(load.rate * parts.steps * parts.context) / np.maximum(total(load.rate * parts.steps), 1e-30)
    room = np.minimum(limits.kv_tokens / np.maximum(held, 1e-9), limits.sequences)
    waiting = wait_for(parts, load, np.minimum(room, column(places)))
    return _open(parts, load, rate, waiting, percentile, role)


def closed_loop(
    step: StepTimes,
    new: Floats,
    isl: Floats,
    osl: Floats,
    share: Floats,
    concurrency: Floats | float,
    token_budget: Floats | float,
    percentile: Percentile = "mean",
    role: Role = "mixed",
    kv_tokens: Floats | float = np.inf,
    max_sequences: Floats | float = np.inf,
    prompt_places: Floats | float = 0.5,
    beside_s: Floats | float = 0.0,
    computed: Floats | float = 1.0,
) -> Estimate:
    """Times and rate with `concurrency` (n,) requests always in flight; `share` (n, w) or (w,) of the buckets
    adds to 1. A prompt in work takes `prompt_places` (n,) of a sequence's room: it fills its own as it goes.
    `beside_s` (n,): of its time in flight, what a request is not in the server for; no time below holds it.
    (On prefill servers neither counts.) `computed`: as in `estimate`."""
    new, isl, osl, share = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (new, isl, osl, share))
    parts = Parts.of(step, new, isl, osl, role, token_budget, computed)
    share = share + np.zeros_like(parts.prompt_s)
    wanted, limits = column(concurrency), Limits.of(token_budget, kv_tokens, max_sequences, step.stages)
    if role == "prefill":
        return _closed_prefill(parts, share, wanted, limits.budget)
    held = total(share * parts.steps * parts.context) / np.maximum(total(share * parts.steps), TINY)
    places = np.minimum(limits.kv_tokens / np.maximum(held, 1e-9), limits.sequences)
    ring = Ring(wanted, np.maximum(places, 1.0), column(prompt_places), column(beside_s))
    unlimited = replace(limits, kv_tokens=np.full((1, 1), np.inf), sequences=np.full((1, 1), np.inf))
    rate = rate_of(parts, share, ring, unlimited)
    load = Load.of(parts, rate * share, unlimited)
    met = at_rate(parts, load, percentile)
    outside = np.maximum(wanted - rate * ring.beside_s - met.inside, 0.0)
    waits = outside / np.maximum(rate, TINY**2)  # where places or the token budget are full
    return _answer(load, rate * share, met.tpot_s, met.ttft_s + waits, met.sequences, met.mean_tpot_s)


def _open(
    parts: Parts, load: Load, rate: Floats, waiting: Waiting, percentile: Percentile, role: Role
) -> Estimate:
    """Poisson arrivals. Sequences as the clock sees them need TPOT and TPOT needs them: one correction is
    enough (a second one changes 0.1 %)."""
    met = line(load, parts.drain_s, moments(load, load.sequences))
    left = behind(load, met)
    seen = np.maximum(total(load.rate * parts.steps * mean_tpot_s(load, met, left)), load.sequences)
    met = line(load, parts.drain_s, moments(load, seen))
    left = behind(load, met)
    tpot = mean = mean_tpot_s(load, met, left)
    ttft = met.ttft_s + waiting.mean_s
    sequences = total(load.rate * parts.steps * tpot)
    if percentile != "mean":
        quantile = QUANTILE[percentile]
        ttft = ttft_quantile(load, met, waiting, quantile)
        tpot = tpot_quantile(load, met, tpot, variance_tpot(load, met, left), quantile)
    tpot = np.where(parts.steps > 0, tpot, load.step_s)  # of a single token there is none: the mean step
    if role == "decode":
        ttft = np.zeros_like(tpot) + load.step_s / 2 + waiting.at(percentile)
    return _answer(load, rate, tpot, ttft, sequences, mean)


def _prefill(parts: Parts, rate: Floats, limits: Limits, percentile: Percentile) -> Estimate:
    """A prefill server with Poisson arrivals."""
    used = utilisation(parts, rate, limits.budget)
    safe = np.where(used < FULL, rate, 0.0)
    load = Load.of(parts, safe, Limits.of(np.inf, np.inf, np.inf))
    ttft = ttft_s(load, parts, limits.budget, percentile)
    bad = np.where(used < FULL, 0.0, np.inf)
    inside = total(load.rate * ttft) + bad
    none = np.zeros_like(ttft)
    return Estimate(none, ttft + bad, inside[:, 0], used[:, 0], rate.sum(axis=1), none)


def _closed_prefill(parts: Parts, share: Floats, wanted: Floats, budget: Floats) -> Estimate:
    """Prefill servers in a closed loop: as many prompts a step as fit, N / rate from arrival to first
    token."""
    mean = total(share * parts.prompt_s)
    fits = 1 / total(share * step_shares(parts, share, budget))
    full = np.maximum(fits, 1.0)
    together = np.minimum(wanted, full)
    step = parts.t0_s + together * mean
    alone = parts.t0_s + parts.prompt_s + parts.drain_s
    ttft = np.maximum(alone + step * np.maximum(wanted / full, 1.0) - parts.t0_s - mean, alone)
    rate = together / step
    used = rate * (mean + parts.t0_s / full)
    none = np.zeros_like(ttft)
    return Estimate(none, ttft, wanted[:, 0] + 0 * used[:, 0], used[:, 0], rate[:, 0], none)


def _answer(
    load: Load, rate: Floats, tpot: Floats, ttft: Floats, sequences: Floats, mean_tpot: Floats
) -> Estimate:
    """Columns off, infinity where the server cannot carry the load."""
    bad = np.where(load.stable, 0.0, np.inf)
    used, every = load.utilisation[:, 0], rate.sum(axis=1)
    return Estimate(tpot + bad, ttft + bad, (sequences + bad)[:, 0], used, every, mean_tpot + bad)

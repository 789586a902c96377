"""Step times + load -> TPOT, TTFT and utilisation of a server, mean and percentiles, in closed form over arrays.

Shapes: n servers x w buckets. First formulas; see `benchmarks/queueing.py` for their error against the replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from planner.cost.shape import Floats, StepTimes

Percentile = Literal["mean", "p50", "p90", "p95", "p99"]
Role = Literal["mixed", "prefill", "decode"]
Loop = Literal["open", "closed"]
NORMAL_QUANTILE = {"p50": 0.0, "p90": 1.2815515655, "p95": 1.6448536270, "p99": 2.3263478740}


@dataclass(frozen=True)
class Estimate:
    """What a server delivers: `tpot_s`, `ttft_s` of shape (n, w); `sequences` in the batch, `utilisation` and `rate` of
    shape (n,). Infinite where the load is more than the server can carry (utilisation >= 1)."""

    tpot_s: Floats
    ttft_s: Floats
    sequences: Floats
    utilisation: Floats
    rate: Floats


def column(x: Floats) -> Floats:
    """(n,) or scalar -> (n, 1) or (1, 1)."""
    return np.atleast_1d(np.asarray(x, dtype=float))[:, None]


def prefill_s(step: StepTimes, new: Floats, isl: Floats) -> Floats:
    """Seconds of work of a prompt of which `new` tokens are computed, (n, w)."""
    pairs = new * (isl - new) + new * (new + 1) / 2
    return column(step.prefill_s_per_token) * new + column(step.prefill_s_per_pair) * pairs


def decode_s(step: StepTimes, isl: Floats, osl: Floats) -> Floats:
    """Seconds of work of the osl - 1 decode steps of a sequence, whose context is isl + osl/2 on average, (n, w)."""
    return (osl - 1) * (column(step.sequence_s) + column(step.context_s_per_token) * (isl + osl / 2))


def work_s(step: StepTimes, new: Floats, isl: Floats, osl: Floats, role: Role = "mixed") -> Floats:
    """Seconds of server time a request takes beside the t0 that all sequences of a step share, (n, w).

    A prefill server has no decodes to share t0 with: there a prompt is charged its own.
    """
    if role == "prefill":
        return column(step.t0_s) + prefill_s(step, new, isl)
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
) -> Estimate:
    """Times at `rate` (n, w) requests/s per server, arriving at random ("open") or as soon as one ends ("closed")."""
    new, isl, osl, rate = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (new, isl, osl, rate))
    t0 = column(step.t0_s)
    budget, kv, most = (column(np.asarray(x)) for x in (token_budget, kv_tokens, max_sequences))
    prefill, decode = prefill_s(step, new, isl), decode_s(step, isl, osl)
    if role == "decode":
        prefill = np.zeros_like(prefill)
    if role == "prefill":
        decode = np.zeros_like(decode)
    steps_of = np.where(role == "prefill", 0.0, osl - 1)
    rho_p, rho_d = total(rate * prefill), total(rate * decode)
    rho = rho_p + rho_d
    tokens = total(rate * ((new if role != "decode" else 0.0) + steps_of))
    residency = total(rate * steps_of * (isl + osl / 2))
    shared = np.maximum.reduce([tokens / budget, residency / kv, total(rate * steps_of) / most])
    utilisation = rho + t0 * shared
    stable = utilisation < 1
    free = np.where(stable, 1 - rho, 1.0)
    own = decode / np.maximum(osl - 1, 1)
    tpot = (t0 + own) / free
    sequences = total(rate * steps_of * tpot)
    gap = t0 * (1 - rho_p) / free  # a step without its prompts
    room = np.maximum(budget - sequences, 1.0)
    long = prefill + gap * new / room
    line = np.minimum(total(rate * long), 0.999)
    factor = (0.5 if loop == "open" else 0.0) + line
    wait = gap * factor / (1 - np.minimum(rho_p, 0.999)) + total(rate * long**2) * factor / (1 - line**2)
    fixed = gap * np.maximum(1.0, new / room) + prefill * chunk_factor(step, new, room)
    ttft = wait + fixed if role != "decode" else np.zeros_like(prefill) + gap
    if percentile != "mean":
        z = NORMAL_QUANTILE[percentile]
        spread = np.sqrt(rho / (1 + t0 / np.maximum(own, 1e-12)) + total(rate * prefill**2) / (osl * t0))
        tpot = tpot * (1 + z * spread)
        ttft = fixed + wait * gamma_quantile(1.0, z)
    bad = np.where(stable, 0.0, np.inf)
    return Estimate(
        tpot + bad, ttft + bad, (sequences + bad)[:, 0], (utilisation + 0 * bad)[:, 0], rate.sum(axis=1)
    )


def closed_loop(
    step: StepTimes,
    new: Floats,
    isl: Floats,
    osl: Floats,
    share: Floats,
    concurrency: Floats,
    token_budget: Floats | float,
    percentile: Percentile = "mean",
    role: Role = "mixed",
    kv_tokens: Floats | float = np.inf,
    max_sequences: Floats | float = np.inf,
) -> Estimate:
    """Times and rate with `concurrency` (n,) requests always in flight; `share` (n, w) or (w,) of the buckets adds to 1.

    Solves rate · (TTFT + (osl - 1) · TPOT) = concurrency by bisection.
    """
    new, isl, osl, share = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (new, isl, osl, share))
    wanted = column(concurrency)

    def at(rate: Floats, q: Percentile) -> Estimate:
        return estimate(
            step, new, isl, osl, rate * share, token_budget, q, "closed", role, kv_tokens, max_sequences
        )

    low = np.zeros_like(wanted)
    one = np.ones_like(wanted)
    high = one / np.maximum(at(one, "mean").utilisation[:, None], 1e-30)
    for _ in range(50):
        rate = (low + high) / 2
        e = at(rate, "mean")
        inside = total(rate * share * (e.ttft_s + (osl - 1) * e.tpot_s))
        low, high = np.where(inside < wanted, rate, low), np.where(inside < wanted, high, rate)
    return at(low, percentile)


def total(x: Floats) -> Floats:
    """Sum over buckets, (n, w) -> (n, 1)."""
    return np.asarray(x.sum(axis=1, keepdims=True))


def chunk_factor(step: StepTimes, new: Floats, room: Floats) -> Floats:
    """A lone prompt of c chunks takes (c + stages - 1)/c times its work through the pipeline's stages, (n, w)."""
    chunks = np.maximum(1.0, new / room)
    return 1 + (column(step.stages) - 1) / chunks


def gamma_quantile(shape: Floats | float, z: float) -> Floats:
    """Quantile of a gamma variable of mean 1 at normal score `z` (Wilson and Hilferty 1931; 2 % at p90 from shape 1)."""
    k = np.asarray(shape, dtype=float)
    return np.asarray(np.maximum(1 - 1 / (9 * k) + z / (3 * np.sqrt(k)), 0.0) ** 3)

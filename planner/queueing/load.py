"""Load of a server: what requests bring, summed over buckets, and the means that follow from conservation
alone.

Shapes: n servers x w buckets; sums over buckets keep a column, (n, 1). Work is in seconds of server time.

All that is computed from a `Load` is finite: its rows are below capacity (those beyond are computed at no
load, and overwritten), its steps take time, and its buckets, works and rates are above zero by less than
counts. So a bucket that sends nothing, or a server that gets nothing, has the limit for a small rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.designs.shape import Floats, StepTimes

TINY = 1e-12

QUANTILE = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Percentiles that limits and times are told at."""

SHORTEST_STEP_S = 1e-6
"""Least t0: less than launching one kernel. Without t0 an idle server would make infinitely many steps."""

FULL = 1 - 1e-13
"""Utilisation from which on the load is more than a server can carry; nearer to 1 rounding decides."""

MOST_RATE = 1e30
"""Requests/s that stand for infinitely many."""


def column(x: Floats | float) -> Floats:
    """(n,) or scalar -> (n, 1) or (1, 1)."""
    x = np.asarray(x, dtype=float)
    return x[:, None] if x.ndim else x.reshape(1, 1)


def total(x: Floats) -> Floats:
    """Sum over buckets, (n, w) -> (n, 1)."""
    return x if x.shape[1] == 1 else np.asarray(np.add.reduce(x, axis=1, keepdims=True))


def prefill_s(step: StepTimes, new: Floats, isl: Floats) -> Floats:
    """Seconds of work of a prompt of which the last `new` tokens are computed, (n, w)."""
    pairs = new * (isl - new) + new * (new + 1) / 2
    return column(step.prefill_s_per_token) * new + column(step.prefill_s_per_pair) * pairs


def decode_s(step: StepTimes, isl: Floats, osl: Floats) -> Floats:
    """Seconds of work of the osl - 1 decode steps of a sequence, whose context is isl + osl/2 on average, (n,
    w)."""
    return (osl - 1) * (column(step.sequence_s) + column(step.context_s_per_token) * (isl + osl / 2))


@dataclass(frozen=True)
class Load:
    """Requests of w buckets at `rate` on n servers; see `Load.of` for how the fields arise.

    (n, w): `rate`, `prompt_s` work of a prompt, `steps` decode steps (osl - 1), `own_s` work a decode step,
    `chunk_s` work of a chunk that fills the step. (n, 1): everything else; `rho_p` + `rho_d` = `rho`, all
    below 1."""

    rate: Floats
    prompt_s: Floats
    steps: Floats
    own_s: Floats
    chunk_s: Floats
    t0_s: Floats
    arrivals: Floats  # requests/s, all buckets
    rho_p: Floats  # work of prompts per second
    rho_d: Floats  # work of decodes per second
    square_s: Floats  # sum of rate · prompt_s²
    weighted_own_s: Floats  # own_s of the mean decode step seen by work: sum(rate · steps · own_s²) / rho_d
    weighted_steps: Floats  # steps of a request, by decode work
    step_s: Floats  # mean step
    gap_s: Floats  # mean step without its prompt work
    sequences: Floats  # decoding in the mean step
    full_s: Floats  # prompt work of a step that uses the whole token budget
    budget: Floats  # tokens a step
    room: Floats  # those of them that are left for prompts
    utilisation: Floats

    @cached_property
    def rho(self) -> Floats:
        return np.asarray(self.rho_p + self.rho_d)

    @cached_property
    def share(self) -> Floats:
        """Share of each bucket in the arrivals, (n, w)."""
        return np.asarray(self.rate / self.arrivals)

    @cached_property
    def prompts_per_step_s(self) -> Floats:
        """Mean prompt work in a step, (n, 1)."""
        return np.asarray(self.step_s * self.rho_p)

    @cached_property
    def feedback(self) -> Floats:
        """σ = ρ_d / (1 - ρ_p): share of a step's length that decodes make of the steps before it, (n, 1)."""
        return np.asarray(np.minimum(self.rho_d / (1 - self.rho_p), 0.999))

    @property
    def stable(self) -> NDArray[np.bool_]:
        return np.asarray(self.utilisation < FULL)

    @staticmethod
    def of(parts: Parts, rate: Floats, limits: Limits) -> Load:
        """Means by conservation: in a second 1/T steps cost t0 each and all work is done once, so

            t0 / T + ρ = 1,   T = t0 / (1 - ρ),   gap = T (1 - ρ_p),   sequences a step = Σ λ (osl - 1) · T

        Rows that cannot carry their load (utilisation >= `FULL`) are computed without it: finite, to be
        overwritten."""
        t0, steps = parts.t0_s, parts.steps
        utilisation = limits.utilisation(parts, rate)
        rate, work_s = np.where(utilisation < FULL, rate, 0.0), parts.prompt_s + parts.decode_s
        rate = rate + np.minimum(TINY, 1e-3 * (1 - total(rate * work_s)) / total(work_s))
        rho_p, rho_d = total(rate * parts.prompt_s), total(rate * parts.decode_s)
        step_s = t0 / (1 - rho_p - rho_d)
        sequences = total(rate * steps) * step_s
        room = np.maximum(limits.budget - sequences * parts.computed, 1.0)
        own = parts.decode_s / np.maximum(steps, 1.0)
        return Load(
            rate=rate,
            prompt_s=np.broadcast_to(parts.prompt_s, rate.shape),
            steps=np.maximum(np.broadcast_to(steps, rate.shape), 1.0),
            own_s=own,
            chunk_s=room * parts.prompt_s / np.maximum(parts.new, TINY),
            t0_s=t0,
            arrivals=total(rate),
            rho_p=rho_p,
            rho_d=rho_d,
            square_s=total(rate * parts.prompt_s**2),
            weighted_own_s=total(rate * parts.decode_s * own) / np.maximum(rho_d, TINY),
            weighted_steps=total(rate * parts.decode_s * steps) / np.maximum(rho_d, TINY),
            step_s=step_s,
            gap_s=step_s * (1 - rho_p),
            sequences=sequences,
            full_s=room * rho_p / np.maximum(total(rate * parts.new), TINY),
            budget=limits.budget,
            room=room,
            utilisation=utilisation,
        )


def rounds(step: StepTimes, new: Floats, budget: Floats | float) -> Floats:
    """Steps (n, w) that a prompt alone takes, `budget` tokens (n,) for each stage of the pipeline.

    >>> five = StepTimes(*(np.array([x]) for x in (0.01, 1e-4, 0.0, 0.0, 0.0, 1.0)))
    >>> rounds(five, np.array([[100.0, 2048.0, 10_000.0]]), 2048.0)
    array([[1., 1., 5.]])
    """
    return np.maximum(np.ceil(np.ceil(new / column(budget)) / column(step.stages)), 1.0)


@dataclass(frozen=True)
class Parts:
    """What one request of each bucket takes, (n, w), and t0, (n, 1). Zero where the server's role has no part
    in it. `drain_s` (n, w): a prompt's last chunk passes the other stages of the pipeline, after its work.
    `computed` (n, 1):
    tokens of a sequence in a decode step."""

    t0_s: Floats
    new: Floats
    prompt_s: Floats
    steps: Floats
    decode_s: Floats
    context: Floats  # tokens in the KV cache, mean over the decode steps
    drain_s: Floats
    computed: Floats

    @staticmethod
    def of(
        step: StepTimes,
        new: Floats,
        isl: Floats,
        osl: Floats,
        role: str,
        budget: Floats | float = np.inf,
        computed: Floats | float = 1.0,
    ) -> Parts:
        """Work of a request on a server that does both phases ("mixed") or one ("prefill", "decode"). A
        prompt that is longer than the `budget` of a micro-batch is cut into chunks that follow each other
        through the stages; it brings t0 of its further rounds to a prefill server."""
        zero = np.zeros_like(column(step.t0_s) * new)
        prompt = zero if role == "decode" else prefill_s(step, new, isl)
        chunks = np.maximum(np.ceil(new / column(budget) * (1 - 1e-12)), 1.0)
        drain = (column(step.stages) - 1) * prompt / chunks
        if role == "prefill":
            prompt = prompt + column(step.t0_s) * (rounds(step, new, budget) - 1)
        decode = zero if role == "prefill" else decode_s(step, isl, osl)
        return Parts(
            t0_s=np.maximum(column(step.t0_s), SHORTEST_STEP_S),
            new=zero if role == "decode" else new + zero,
            prompt_s=np.maximum(prompt, TINY),
            steps=zero if role == "prefill" else osl - 1 + zero,
            decode_s=decode,
            context=isl + osl / 2,
            drain_s=drain,
            computed=column(computed),
        )


@dataclass(frozen=True)
class Limits:
    """What one step, and the server, can hold: arrays (n, 1), above zero. `kv_tokens` and `sequences` may be
    infinite."""

    budget: Floats
    kv_tokens: Floats
    sequences: Floats

    @staticmethod
    def of(
        budget: Floats | float,
        kv_tokens: Floats | float,
        sequences: Floats | float,
        stages: Floats | float = 1.0,
    ) -> Limits:
        """Limits from scalars or (n,): no room is next to none, and a budget of 1e18 tokens without end.

        `budget`: of a micro-batch; a round carries one through each of the `stages` at once."""
        return Limits(
            np.clip(column(budget) * column(stages), 1.0, 1e18),
            np.maximum(column(kv_tokens), TINY),
            np.maximum(column(sequences), TINY),
        )

    def utilisation(self, parts: Parts, rate: Floats) -> Floats:
        """Share of what the server can carry at most, (n, 1), proportional to `rate`.

        Tokens a step, Σ λ (new + c (osl - 1)) · T <= budget with T = t0 / (1 - ρ) and c those `computed` of a
        sequence, read ρ + t0 · Σ λ (new + c (osl - 1)) / budget <= 1; KV and sequences alike: the largest
        left side.
        """
        held = total(rate * (parts.new + parts.computed * parts.steps)) / self.budget
        held = np.maximum(held, total(rate * parts.steps * parts.context) / self.kv_tokens)
        held = np.maximum(held, total(rate * parts.steps) / self.sequences)
        return np.asarray(total(rate * (parts.prompt_s + parts.decode_s)) + parts.t0_s * held)

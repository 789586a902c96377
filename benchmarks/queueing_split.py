"""Prefill servers and decode servers joined in a closed loop: N requests always in flight.

With X requests/s a request waits and prefills W(X) on one of c prefill servers (`queueing.prefill`), is
handed over in h, and decodes K = osl - 1 steps of T(X) on one of n decode servers. By Little's law

    N = X · E[W(X) + h + K · T(X)],   T = t0 / (1 - X E[work] / n)                                      (1)

whose right side grows with X: found by halving. X is bounded by full prefill steps, μ, and by decode servers
with `places` sequences each, n places / (E[K] t0 + places E[work]); where (1) asks for more, the requests
beyond wait outside, (N - right side) / X longer.

W is what Poisson arrivals at X (N - 1)/N find (an arrival sees N - 1 others: Reiser and Lavenberg 1980), with
its wait cut twice. A loop holds its queue back: who waits does not arrive, so the queue falls by 1/D for each
that waits, D = W + h + K T without waiting. Near μ it is an Ornstein-Uhlenbeck process above 0, normal, cut
at 0, of variance v = X D / 2; against the exponential queue of Poisson arrivals, whose mean is v / δ with
slack δ = (μ - X) D, its mean is

    r = y (y - z),   y = δ / √v = h(z),   h the hazard of the normal distribution                       (2)

times as large. And c servers are dealt requests in turn or by the shortest queue, not at random: 1/√c.

A loop that starts empty has all N prompts at once: `first_ttft_s` is the mean TTFT of those. A run of R
requests a slot has a share 1/R of them; later prompts come about evenly, as requests end at different times.

Error against the replay, in 30 settings of 1 to 10 prefill servers at 6 to 100 % of μ: TTFT median 4 %, most
20 %; TPOT 2 %. Sequences that find no place in one decode server while another has some are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, pi

import numpy as np

from planner.designs.shape import Floats, StepTimes
from planner.queueing import estimate
from planner.queueing.load import SHORTEST_STEP_S, TINY, Parts, column, decode_s, total
from planner.queueing.prefill import step_shares, utilisation

ROUNDS = 60
"""Halvings of the rate: to the last digit."""

BELOW = 1 - 1e-9
"""Of its limits that the rate may reach: there the formulas are still finite."""

Mix = tuple[Floats, Floats, Floats, Floats]
"""new, isl, osl, share: (n, w)."""

SCORES = np.linspace(-8, 8, 1601)
HAZARD = np.array([(2 / pi) ** 0.5 * exp(-z * z / 2) / erfc(z / 2**0.5) for z in SCORES.tolist()])
"""Hazard of the normal distribution at those scores, increasing: density / chance to be beyond."""


@dataclass(frozen=True)
class Pool:
    """`servers` equal servers of one phase and what one step of theirs can hold: prompt tokens of a prefill
    server, sequences of a decode server (of which KV cache and engine have room for so many, or infinite).
    Shapes (n,) or scalars."""

    step: StepTimes
    servers: Floats | float
    room: Floats | float

    @property
    def round_tokens(self) -> Floats:
        """Prompt tokens of a round, (n, 1): a micro-batch for each stage."""
        return column(self.room) * column(self.step.stages)


@dataclass(frozen=True)
class Split:
    """`ttft_s` (n, w), all else (n,): `first_ttft_s` mean of N prompts at once, `tpot_s`, `rate` requests/s,
    `sequences` decoding on a decode server, and shares of the highest rate that prefill or decode servers
    allow."""

    ttft_s: Floats
    first_ttft_s: Floats
    tpot_s: Floats
    rate: Floats
    sequences: Floats
    prefill_used: Floats
    decode_used: Floats


def closed_split(
    prefill: Pool,
    decode: Pool,
    new: Floats,
    isl: Floats,
    osl: Floats,
    share: Floats,
    concurrency: Floats | float,
    handoff_s: Floats | float = 0.0,
) -> Split:
    """Steady state of `concurrency` (n,) >= 1 requests in flight. `share` (n, w) or (w,) of the buckets adds
    to 1; `handoff_s` (n,) is what passes from a prompt's end to its first token where it decodes."""
    new, isl, osl, share = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (new, isl, osl, share))
    ring = _Ring.of(prefill, decode, (new, isl, osl, share), column(concurrency), column(handoff_s))
    most = np.minimum(ring.most_prefill, ring.most_decode) * BELOW + 0 * ring.wanted
    low, high = 0 * most, most
    for _ in range(ROUNDS):
        rate = (low + high) / 2
        fewer = ring.inside(rate) < ring.wanted
        low, high = np.where(fewer, rate, low), np.where(fewer, high, rate)
    outside = np.where(low > most * BELOW, np.maximum(ring.wanted - ring.inside(low), 0.0) / low, 0.0)
    first, tpot = ring.first_wave_s() + ring.handoff_s, ring.step_s(low)
    inside = low * ring.steps * tpot / column(decode.servers)
    used = (low / ring.most_prefill, low / ring.most_decode)
    columns = (x[:, 0] + 0 * low[:, 0] for x in (first, tpot, low, inside, *used))
    return Split(ring.ttft_s(low) + outside, *columns)


@dataclass(frozen=True)
class _Ring:
    """What requests pass, at any rate X (n, 1). Arrays (n, 1), but `parts` and `mix` (n, w)."""

    prefill: Pool
    parts: Parts
    mix: Mix
    wanted: Floats
    handoff_s: Floats
    t0_s: Floats
    steps: Floats
    work_s: Floats  # E[work] / n
    alone_s: Floats  # a decode step of one sequence
    most_prefill: Floats
    most_decode: Floats

    @classmethod
    def of(cls, prefill: Pool, decode: Pool, mix: Mix, wanted: Floats, handoff_s: Floats) -> _Ring:
        """From the pools and the requests."""
        new, isl, osl, share = mix
        servers, places = column(decode.servers), column(decode.room)
        t0 = np.maximum(column(decode.step.t0_s), SHORTEST_STEP_S)
        steps, work = total(share * (osl - 1)), total(share * decode_s(decode.step, isl, osl))
        parts = Parts.of(prefill.step, new, isl, osl, "prefill", prefill.room)
        full = utilisation(parts, share + 0 * parts.prompt_s, prefill.round_tokens)
        return cls(
            prefill,
            parts,
            mix,
            wanted,
            handoff_s,
            t0,
            steps,
            work / servers,
            t0 + work / np.maximum(steps, 1.0),
            column(prefill.servers) / full,
            servers / np.maximum(steps * t0 / places + work, TINY),
        )

    def step_s(self, rate: Floats) -> Floats:
        """T(X)."""
        return np.maximum(self.t0_s / (1 - rate * self.work_s), self.alone_s)

    def inside(self, rate: Floats) -> Floats:
        """Right side of (1)."""
        return np.asarray(rate * (total(self.mix[3] * self.ttft_s(rate)) + self.steps * self.step_s(rate)))

    def ttft_s(self, rate: Floats) -> Floats:
        """W(X) + h, (n, w): of Poisson arrivals, with their wait cut as (2) says."""
        new, isl, osl, share = self.mix
        servers = column(self.prefill.servers)
        seen = rate * (1 - 1 / self.wanted) / servers * share
        free = self.parts.t0_s + self.parts.prompt_s + self.parts.drain_s
        poisson = estimate(self.prefill.step, new, isl, osl, seen, self.prefill.room, role="prefill").ttft_s
        away = total(share * free) + self.handoff_s + self.steps * self.step_s(rate)
        held_back = _held_back((self.most_prefill - rate) * away, rate * away / 2)
        return np.asarray(free + (poisson - free) * held_back / np.sqrt(servers) + self.handoff_s)

    def first_wave_s(self) -> Floats:
        """Mean TTFT, without h, of all N prompts at once: each server takes its part in full steps and a last
        one."""
        parts, share = self.parts, self.mix[3]
        mean = total(share * parts.prompt_s)
        each = 1 / total(share * step_shares(parts, share, self.prefill.round_tokens))
        prompts = np.maximum(self.wanted / column(self.prefill.servers), 1.0)
        full = np.floor(prompts / each)
        rest, step = prompts - full * each, parts.t0_s + each * mean
        waited = each * step * full * (full + 1) / 2 + rest * (full * step + parts.t0_s + rest * mean)
        return np.asarray(waited / prompts + total(share * parts.drain_s))


def _held_back(slack: Floats, variance: Floats) -> Floats:
    """r of (2): y (y - z) with y = slack / sqrt(variance) = h(z), h the hazard of the normal distribution."""
    y = slack / np.sqrt(variance)
    return np.where(y < HAZARD[-1], y * (y - np.interp(y, HAZARD, SCORES)), 1 - 2 / y**2)


def ranks_as_one(lone_s: Floats, full_s: Floats, prompts: Floats, tokens: Floats) -> StepTimes:
    """Steps of a prefill replica whose attention-dp ranks step together, as one server: `prompts` prompts of
    `tokens` tokens, as many as all ranks hold, take `full_s`, one alone `lone_s`, others between; (n,).

    A prompt alone has one rank's attention and the experts of all; each more adds its share of the experts'
    work.

    >>> step = ranks_as_one(*(np.array([x]) for x in (0.3, 0.65, 8.0, 1000.0)))
    >>> [round(float((step.t0_s + k * 1000 * step.prefill_s_per_token)[0]), 3) for k in (1, 8)]
    [0.3, 0.65]
    """
    each = (full_s - lone_s) / np.maximum(prompts - 1, 1.0)
    each = np.clip(np.where(prompts > 1, each, lone_s), 0.0, lone_s - SHORTEST_STEP_S)
    zero = np.zeros_like(each)
    return StepTimes(lone_s - each, each / tokens, zero, zero, zero, zero + 1)

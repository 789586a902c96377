"""KV cache of servers at their operating points: what one request/s fills, what is kept free for the spread
of lengths, and how often a request waits for room or is preempted (`planner.queueing.admission`).

Shapes: m points x w buckets, bytes on one GPU of the fullest stage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.designs.shape import Floats, Ints, StepTimes
from planner.queueing import Estimate, Loop, admission, prefill_s, work_s
from planner.queueing.admission import Admission, Held, Lengths, Stay
from planner.queueing.places import places_of

if TYPE_CHECKING:
    from planner.candidates.setup import Role, Setup

SPREADS = np.geomspace(1.0, 1e7, 48)
"""Standard deviations [tokens] for which the deviations to leave free are tabulated."""

ROUNDING = 1e-6
"""Share of the room by which a cache may exceed it: what fits exactly fits."""

LEAST_GROWTH = 1e-3
"""Tokens that an answer adds to a sequence at least: windows that are full take none."""

MOST_FREE = 0.5
"""Share of the room that is left free at most."""


def lengths_of(s: Setup) -> Lengths:
    """The mix as admission sees it: prompts with the tokens that the last block leaves empty."""
    return Lengths(s.mix.own + s.unfilled, s.mix.osl, s.mix.share, s.mix.held if s.reserves else None)


def kv_in_use(s: Setup, index: Ints, step: StepTimes, e: Estimate, sequences: Floats, role: Role) -> Floats:
    """Share of a server's KV room that one request/s of each bucket fills, (m, w), by Little's law. What
    `spare_bytes` says is not room. Where idle cache is kept in GPU memory it counts.
    """
    mix, seconds = s.mix, running_byte_s(s, index, step, e.mean_tpot_s, role)
    busy = np.zeros_like(e.utilisation) if role == "prefill" else e.utilisation
    if s.keep is not None and s.place is None and role != "decode":
        seconds = seconds + s.idle_byte_s[index]
    beside = prompt_variance(s, index, step, role, e.rate[:, None] * mix.share)
    spare = spare_bytes(s, index, sequences, busy, beside)
    room = s.memory.kv_bytes[index] - s.shared_bytes[index] - spare
    return np.asarray(seconds / np.maximum(room, 1.0)[:, None])


def running_byte_s(s: Setup, index: Ints, step: StepTimes, mean_tpot_s: Floats, role: Role) -> Floats:
    """Bytes that a request of each bucket holds times the seconds it does, (m, w), at its mean times.

    A prompt in prefill holds half of itself on average, a decoding sequence its prompt and half of its output
    (all it could need where the engine reserves); waiting requests hold none; a prefix shared in the cache
    counts once, for nobody.
    """
    prompts = prompt_byte_s(s, index, step, role)
    if role == "prefill":
        return prompts
    steps_s = (s.mix.osl - 1) * np.where(np.isfinite(mean_tpot_s), mean_tpot_s, 1e9)
    return np.asarray(prompts + steps_s * s.held_bytes[index])


def prompt_byte_s(s: Setup, index: Ints, step: StepTimes, role: Role) -> Floats:
    """Bytes of a prompt in work times the seconds it is, (m, w): half of it is there on average, on a prefill
    server all of it until it is sent. Its chunks pass the stages one after the other."""
    mix, budget = s.mix, float(s.token_budget)
    chunks, stages = np.maximum(np.ceil(mix.new / budget), 1.0), np.reshape(step.stages, (-1, 1))
    passing = prefill_s(step, mix.new, mix.isl) * (stages - 1) / chunks
    alone = work_s(step, mix.new, mix.isl, mix.osl, "prefill", budget) + passing
    own = alone * s.prompt_bytes[index]
    return np.asarray({"mixed": own / 2, "prefill": own, "decode": 0.0 * own}[role])


def places(s: Setup, index: Ints, role: Role) -> Floats:
    """Requests that a server takes at once, (m,): of its cache, and by what its engine is told; a prefill
    server lets in as many as wait."""
    if role == "prefill" or s.promise.loop == "closed":
        return np.full(len(index), np.inf)
    mix, held = s.mix, s.held_bytes[index]
    room = s.memory.kv_bytes[index] - s.shared_bytes[index]
    need = held if s.reserves else s.prompt_bytes[index]
    in_cache = places_of(room, held, need, mix.share, mix.osl - 1, s.reserves)
    return np.minimum(in_cache, s.most_sequences)


def prompt_variance(s: Setup, index: Ints, step: StepTimes, role: Role, rate: Floats) -> Floats:
    """Variance (m,) [bytes²] of what prompts in work hold beside decoding sequences at `rate` (m, w): as many
    of each bucket as random arrivals make, each anywhere between none and all of itself."""
    if role != "mixed":
        return np.zeros(len(index))
    each = 2 * prompt_byte_s(s, index, step, role) * s.prompt_bytes[index] / 3
    return np.asarray((np.where(np.isfinite(rate), rate, 0.0) * each).sum(axis=1))


def spare_bytes(
    s: Setup, index: Ints, sequences: Floats, utilisation: Floats, beside: Floats | float = 0.0
) -> Floats:
    """Bytes (m,) left free so that few wait for room and few are preempted, `sequences` (m,) being held.

    A closed loop holds a fixed number of independent sequences; under Poisson arrivals their number N varies
    as in processor sharing: negative binomial, its variance n / (1 - ρ), its skewness (1 + ρ) / √(n (1 - ρ)),
    ρ the utilisation. Of that skewness what is held has the part that its variance comes from N to the power
    3/2, and the deviations z become z + skewness (z² - 1) / 6 (Cornish and Fisher 1938).
    `beside`: variance of what prompts in work hold. Never more than all sequences at their longest.
    """
    mix, held, grown = s.mix, s.held_bytes[index], s.grown_bytes[index]
    beside = beside * (1 - 1 / np.maximum(sequences, 1.0))  # one request at a time is its own prompt
    weight = mix.share * np.maximum(mix.osl - 1, 1e-9)
    weight = weight / weight.sum()
    mean = held @ weight
    variance = np.maximum((held**2 + grown**2 / 12) @ weight - mean**2, 0.0)
    longest = np.where(mix.share > 0, held + grown / 2, 0.0).max(axis=1)
    most = MOST_FREE * (s.memory.kv_bytes[index] - s.shared_bytes[index])
    if s.promise.loop == "closed":
        most = np.minimum(most, sequences * (longest - mean) + 3 * np.sqrt(beside))
    skew = np.zeros_like(mean)
    if s.promise.loop != "closed":
        free = 1 - np.clip(utilisation, 0.0, 0.99)
        number = mean**2 / free
        variance = variance + number
        skew = (2 - free) / np.sqrt(np.maximum(sequences, 1.0) * free) * (number / variance) ** 1.5
    spread = np.sqrt(sequences * variance + beside)
    tokens = spread * s.held_tokens / np.maximum(mean, 1e-9)
    z = np.interp(np.log(np.maximum(tokens, 1.0)), np.log(SPREADS), s.deviations)
    z = z + skew / 6 * (z**2 - 1)
    return np.asarray(np.clip(z * spread, 0.0, np.maximum(most, 0.0)))


def admitted(
    s: Setup, index: Ints, rate: Floats, tpot_s: Floats, busy: float, prompts: float, loop: Loop
) -> Admission:
    """Sequences that decode on the server `index` (1,), and how many wait for room or are preempted, at
    `rate` requests/s and `tpot_s`, both (w,), when it is `busy` of its time and prompts in work hold the
    share `prompts` of the room. In tokens of the mean sequence: windows make those of long ones cheaper."""
    total, mix = float(rate.sum()), s.mix
    decodes = (mix.osl - 1) * tpot_s
    if not 0 < float(rate @ decodes) < np.inf:
        return Admission(0.0, 0.0, 0.0)
    share = rate / total
    resident, each = share * decodes, s.held_bytes[index][0]
    a_token = float(each @ resident) / float(s.held_each @ resident)
    if a_token <= 0:  # a cache that takes nothing
        return Admission(total * float(share @ decodes), 0.0, 0.0)
    grown = np.maximum(s.grown_bytes[index][0] / a_token, LEAST_GROWTH)
    start = (each / a_token) - (0.0 if s.reserves else grown / 2)
    lengths = Lengths(start, grown, share, 0.0 * grown if s.reserves else None)
    held = Held.of(lengths, 0.0 * decodes, decodes)
    room = float((s.memory.kv_bytes - s.shared_bytes)[index][0]) * (1 - prompts) * (1 + ROUNDING)
    kv_tokens = room / a_token
    stay_s = float(share @ decodes)
    if loop == "closed":
        count = total * stay_s
        found = admission.closed_loop(lengths, held, kv_tokens, max(count, 1.0))
        return replace(found, inside=min(found.inside, count))
    stay = Stay.even(stay_s, total, min(busy, 0.999) / total)
    return admission.open_loop(lengths, held, kv_tokens, total, stay)

"""What each replica group really does under the traffic the plan gives it: the cost model asked again at that
load.

A column promised its times at its own operating point and under the workload's mix; the plan may load it
less, or with another mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.candidates.cache import admitted, kv_in_use, prompt_byte_s, prompt_variance, spare_bytes
from planner.candidates.candidate import Candidate
from planner.candidates.points import Role, Setup, predict
from planner.cost.admission import Admission
from planner.cost.queueing import Estimate
from planner.cost.shape import Floats, Ints

ROUNDS = 8
"""At most, of the fixed point of batch and step time."""

NEAR = 0.8
"""A column's own linear step, with which its limits were set, is used within this factor of its batch."""


@dataclass(frozen=True)
class Operation:
    """One server of a replica group: `rate` (w,) requests/s, times (w,) without caution, sequences decoding,
    utilisation of the fullest resource, seconds of a pure decode step and of the mean prompt alone, watts of
    one
    replica."""

    rate: Floats
    ttft_s: Floats
    tpot_s: Floats
    sequences: float
    utilisation: float
    decode_s: float
    prefill_s: float
    watts: float
    busy: float  # share of the server's time alone
    kv_used: float  # mean share of the KV room that is held, and of it
    kv_prompts: float  # by prompts in work

    def in_flight(self, osl: Floats, role: str) -> float:
        """Requests in the server by Little's law."""
        waiting = 0.0 if role == "decode" else float(self.rate @ self.ttft_s)
        return waiting + (0.0 if role == "prefill" else float((self.rate * (osl - 1)) @ self.tpot_s))


def operate(s: Setup, c: Candidate, served: Mapping[str, float], count: int) -> Operation:
    """`served[w]` requests/s of each bucket by `count` replicas of `c` together."""
    index = np.array([index_of(s, c)])
    dp = c.design.attn_dp
    rate = np.array([[served.get(str(w), 0.0) / (count * dp) for w in range(len(s.mix.share))]])
    designs, mix = s.designs.take(index), s.mix
    share = rate[0] / max(rate.sum(), 1e-30)
    weight = share * (mix.osl - 1)
    context = float(weight @ (mix.isl + mix.osl / 2) / weight.sum()) if weight.sum() > 0 else 0.0
    assert c.step is not None
    step, point = c.step, c.batch / dp
    role: Role = "prefill" if s.mix.steps == 0 else c.role
    for _ in range(ROUNDS):
        e = predict(s, step, rate, role)
        batch = max(float(e.sequences[0]), 1.0 / dp)  # a step that is made has a sequence in it
        if (
            role == "prefill"
            or context == 0
            or NEAR * point <= batch <= point / NEAR
            or not np.isfinite(batch)
        ):
            break
        point = batch
        step = s.model.step_times(designs, np.array([point]), np.array([context]), s.chunk(np.array([point])))
    sequences = e.sequences
    if s.place is not None:
        e = replace(e, ttft_s=e.ttft_s + s.loading_s[index])
    kv = kv_in_use(s, index, step, e, sequences, role)
    run = kv if s.keep is None else kv_in_use(s, index, step, e, sequences, role, idle=False)
    beside = max((float((rate * row[index]).sum()) for row in s.beside), default=0.0)
    busy = 0.0 * e.utilisation if role == "prefill" else e.utilisation
    room = float((s.memory.kv_bytes - s.shared_bytes)[index][0])
    prompts = prompt_variance(s, index, step, role, rate)
    spare = float(spare_bytes(s, index, sequences, busy, prompts)[0])
    decode = float(step.t0_s[0] + sequences[0] * (step.sequence_s[0] + step.context_s_per_token[0] * context))
    if s.promise.loop == "closed" and context:  # then TPOT is a mean, and a step is part of it
        decode = min(decode, float(e.tpot_s[0][rate[0] > 0].max()))
    return Operation(
        rate[0],
        e.ttft_s[0],
        e.tpot_s[0],
        float(sequences[0]),
        max(float(e.utilisation[0]), float((rate * kv).sum()), beside),
        decode if context else 0.0,
        0.0
        if c.role == "decode"
        else min(alone_s(s, index, share), float(share[share > 0] @ e.ttft_s[0][share > 0])),
        _watts(s, index, role, rate[0], e, context),
        float(e.utilisation[0]),
        min(
            float((rate * run).sum()) * (1 - spare / room) * (room / float(s.memory.kv_bytes[index][0])), 1.0
        ),
        min(float((rate * prompt_byte_s(s, index, step, role)).sum()) / room, 1.0),
    )


def admission(s: Setup, c: Candidate, op: Operation) -> Admission:
    """How many requests hold room on a server of `c`, how often one waits for it and is preempted."""
    index = np.array([index_of(s, c)])
    return admitted(s, index, op.rate, op.tpot_s, op.busy, op.kv_prompts, s.promise.loop)


def _watts(s: Setup, index: Ints, role: Role, rate: Floats, e: Estimate, context: float) -> float:
    """Watts of one replica: of its mean step, prompt tokens spread over all steps; a prefill server idles in
    between."""
    if not np.isfinite(e.sequences).all():  # more than it can carry: the fleet is eased before watts count
        return 0.0
    designs, tokens = s.designs.take(index), float(rate @ s.mix.new)
    keys = float(rate @ s.mix.new**2) / max(2 * tokens, 1e-30)
    if role == "prefill":
        chunk = min(tokens / max(float(rate.sum()), 1e-30), float(s.token_budget))
        return float(s.model.watts(designs, e.utilisation, 0.0, 0.0, chunk, keys)[0])
    decoding = rate * (s.mix.osl - 1)
    step_s = float(decoding @ e.tpot_s[0]) / max(float(decoding.sum()), 1e-30)
    prompts = tokens * step_s if role == "mixed" else 0.0
    return float(s.model.watts(designs, 1.0, e.sequences, context, prompts, keys)[0])


def alone_s(s: Setup, index: Ints, share: Floats) -> float:
    """Seconds that the mean prompt of the mix takes by itself, chunk after chunk through all stages: as long
    as a
    round of pp micro-batches that each carry such a chunk."""
    new, isl = float(s.mix.new @ share), float(s.mix.isl @ share)
    chunks, designs = np.ceil(new / s.token_budget), s.designs.take(index)
    keys = isl - new + new / 2
    pp = int(s.model.concurrent(designs)[0])
    return float((chunks + pp - 1) / pp * s.model.step_s(designs, 0.0, 0.0, pp * new / chunks, keys)[0])


def index_of(s: Setup, c: Candidate) -> int:
    """Where the candidate's design stands in its setup."""
    d, want = s.designs, c.design
    if want.stages:
        return s.model.stagings.index(want.stages)
    same = (d.tp == want.tp) & (d.pp == want.pp) & (d.attn_dp == want.attn_dp)
    same &= (d.moe_tp == want.moe_tp) & (d.ep == want.ep) & (d.redundant == want.redundant)
    same &= d.cp == want.cp
    return int(np.flatnonzero(same)[0])

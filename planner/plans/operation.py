"""What each replica group really does under the traffic the plan gives it: the cost model asked again at that
load.

A column promised its times at its own operating point and under the workload's mix; the plan may load it
less, or with another mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.candidates.cache import admitted, kv_in_use, prompt_byte_s, prompt_variance, spare_bytes
from planner.candidates.candidate import Candidate
from planner.candidates.points import Role, Setup, at_rate, draw
from planner.cost.admission import Admission
from planner.cost.queueing import Estimate
from planner.cost.shape import Floats


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
    each = count * c.design.attn_dp
    rate = np.array([served.get(str(w), 0.0) / each for w in range(len(s.mix.share))])
    share = rate / max(float(rate.sum()), 1e-30)
    own, index = s.only(np.array([index_of(s, c)]), share), np.array([0])
    role: Role = "prefill" if own.mix.steps == 0 else c.role
    at = at_rate(own, index, rate.sum(keepdims=True), role)
    step, mix, ttft, tpot = at.step, own.mix, at.ttft_s[0], at.tpot_s[0]
    kv = float(rate @ at.kv_share[0])
    run = kv
    if own.keep is not None:
        e = Estimate(at.tpot_s, at.ttft_s, at.decoding, at.utilisation, at.rate)
        run = float(rate @ kv_in_use(own, index, step, e, at.decoding, role, idle=False)[0])
    beside = max((float(rate @ row[0]) for row in own.beside), default=0.0)
    busy = np.zeros(1) if role == "prefill" else at.utilisation
    room = float((own.memory.kv_bytes - own.shared_bytes)[0])
    prompts = prompt_variance(own, index, step, role, rate[None, :])
    spare = float(spare_bytes(own, index, at.decoding, busy, prompts)[0])
    context_s = step.sequence_s + step.context_s_per_token * mix.context
    with np.errstate(invalid="ignore"):  # no sequences at all, or endlessly many
        decode = float((step.t0_s + at.decoding * context_s)[0])
    if s.promise.loop == "closed" and mix.steps:  # then TPOT is a mean, and a step is part of it
        decode = min(decode, float(tpot[rate > 0].max()))
    sent = share > 0
    lone = 0.0 if c.role == "decode" else min(alone_s(own, share), float(share[sent] @ ttft[sent]))
    finite = bool(np.isfinite(at.decoding[0]))  # beyond it the fleet is eased before watts count
    return Operation(
        rate=rate,
        ttft_s=ttft,
        tpot_s=tpot,
        sequences=float(at.decoding[0]),
        utilisation=max(float(at.utilisation[0]), kv, beside),
        decode_s=decode if mix.steps else 0.0,
        prefill_s=lone,
        watts=float(draw(own, at, role)[0]) if finite else 0.0,
        busy=float(at.utilisation[0]),
        kv_used=min(run * (1 - spare / room) * (room / float(own.memory.kv_bytes[0])), 1.0),
        kv_prompts=min(float(rate @ prompt_byte_s(own, index, step, role)[0]) / room, 1.0),
    )


def admission(s: Setup, c: Candidate, op: Operation) -> Admission:
    """How many requests hold room on a server of `c`, how often one waits for it and is preempted: at the
    mean of their times, of which a plan may promise a percentile."""
    index = np.array([index_of(s, c)])
    slow = float((op.rate * (s.mix.osl - 1)) @ op.tpot_s)
    mean = op.tpot_s * (min(op.sequences / slow, 1.0) if slow > 0 else 1.0)
    return admitted(s, index, op.rate, mean, op.busy, op.kv_prompts, s.promise.loop)


def alone_s(own: Setup, share: Floats) -> float:
    """Seconds that the mean prompt of the mix takes by itself on the one design of `own`, chunk after chunk
    through all stages: as long as a round of pp micro-batches that each carry such a chunk."""
    new, isl = float(own.mix.new @ share), float(own.mix.isl @ share)
    chunks, keys = np.ceil(new / own.token_budget), isl - new + new / 2
    pp = int(own.model.concurrent(own.designs)[0])
    each = own.model.step_s(own.designs, 0.0, 0.0, pp * new / chunks, keys)
    return float((chunks + pp - 1) / pp * each[0])


def index_of(s: Setup, c: Candidate) -> int:
    """Where the candidate's design stands in its setup."""
    d, want = s.designs, c.design
    if want.stages:
        return s.model.stagings.index(want.stages)
    same = (d.tp == want.tp) & (d.pp == want.pp) & (d.attn_dp == want.attn_dp)
    same &= (d.moe_tp == want.moe_tp) & (d.ep == want.ep) & (d.redundant == want.redundant)
    same &= d.cp == want.cp
    return int(np.flatnonzero(same)[0])

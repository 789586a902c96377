"""What each replica group really does under the traffic the plan gives it: the cost model asked again at that
load.

A column promised its times at its own operating point and under the workload's mix; the plan may load it
less, or with another mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.candidates.cache import admitted, prompt_byte_s, running_byte_s
from planner.candidates.candidate import Candidate
from planner.candidates.points import Points, at_rate, draw, seated
from planner.candidates.setup import Role, Setup
from planner.cost.attention import Load
from planner.designs.shape import Floats
from planner.operating.times import peak_share
from planner.queueing.admission import Admission


@dataclass(frozen=True)
class Operation:
    """One server of a replica group: `rate` (w,) requests/s, times (w,) without caution and the TTFT that the
    limit is kept with, sequences decoding, utilisation of the fullest resource and of the server's time
    alone. What a search does not ask for is computed when it is read, from its design alone under the mix
    that it gets (`own`, `at`)."""

    rate: Floats
    ttft_s: Floats
    cautious_ttft_s: Floats
    tpot_s: Floats
    sequences: float
    utilisation: float
    busy: float
    own: Setup
    at: Points
    role: Role

    @cached_property
    def decode_s(self) -> float:
        """Seconds of a pure decode step."""
        mix, step, tpot = self.own.mix, self.at.step, self.at.mean_tpot_s[0]
        if not mix.steps:
            return 0.0
        context_s = step.sequence_s + step.context_s_per_token * mix.in_steps
        with np.errstate(invalid="ignore"):  # no sequences at all, or endlessly many
            decode = float((step.t0_s + self.at.decoding * context_s)[0])
        closed = self.own.promise.loop == "closed"  # then a step is part of the mean TPOT
        return min(decode, float(tpot[self.rate > 0].max()) * mix.emitted) if closed else decode

    @cached_property
    def prefill_s(self) -> float:
        """Seconds of the mean prompt alone."""
        if self.role == "decode":
            return 0.0
        share = self.own.mix.share
        sent = share > 0
        return min(alone_s(self.own, share), float(share[sent] @ self.ttft_s[sent]))

    @cached_property
    def gap_s(self) -> float:
        """Longest usual seconds between two tokens of a request: a step that decodes and computes a whole
        chunk of the longest prompt, the last one; a decode step where prompts are computed elsewhere."""
        if self.role != "mixed" or not self.own.mix.steps:
            return self.decode_s
        mix, sent = self.own.mix, self.rate > 0
        i = int(np.where(sent, mix.new, 0.0).argmax())
        chunk = min(float(mix.new[i]), float(self.own.token_budget))
        step = Load.of(self.at.sequences, mix.requests.context, chunk, float(mix.isl[i]) - chunk / 2)
        return max(self.decode_s, float(self.own.model.step_s(self.own.designs, step)[0]))

    @cached_property
    def watts(self) -> float:
        """Watts of one replica; 0 beyond what it can carry: it is eased before watts count."""
        return float(draw(self.own, self.at, self.role)[0]) if np.isfinite(self.sequences) else 0.0

    @cached_property
    def used(self) -> float:
        """Utilisation, at least that of its arithmetic at peak: lines through steps of few sequences, which
        wait for memory, leave out what a fuller server would compute."""
        return max(self.utilisation, min(self._arithmetic, 1.0))

    @cached_property
    def whole_share(self) -> float:
        """What its whole steps compute, as a share of the best product that was measured on its device."""
        return self._arithmetic / self.used if self.used else 0.0

    @cached_property
    def _arithmetic(self) -> float:
        """Share of its time that its FLOPs take at the rate of the best product."""
        asked, by = self.own.mix.requests, self.own.terms(self.does)
        model, designs = self.own.model, self.own.designs
        return float(peak_share(model, designs, asked, by, self.rate.sum(keepdims=True))[0])

    @cached_property
    def kv_used(self) -> float:
        """Mean share of the KV room that running requests hold: they may have that of idle cache at any
        time."""
        held = running_byte_s(self.own, np.array([0]), self.at.step, self.at.mean_tpot_s, self.does)[0]
        return min(float(self.rate @ held) / float(self.own.memory.kv_bytes[0]), 1.0)

    @cached_property
    def kv_prompts(self) -> float:
        """Mean share of the room that prompts in work hold."""
        held = prompt_byte_s(self.own, np.array([0]), self.at.step, self.does)[0]
        return min(float(self.rate @ held) / self._room, 1.0)

    @property
    def does(self) -> Role:
        """What its servers spend their time on: answers of one token leave nothing to decode."""
        return self.own.does(self.role)

    @property
    def _room(self) -> float:
        return float((self.own.memory.kv_bytes - self.own.shared_bytes)[0])

    def in_flight(self, osl: Floats, role: str) -> float:
        """Requests in the server by Little's law."""
        waiting = 0.0 if role == "decode" else float(self.rate @ self.ttft_s)
        return waiting + (0.0 if role == "prefill" else float((self.rate * (osl - 1)) @ self.tpot_s))


def operate(s: Setup, c: Candidate, served: Mapping[str, float], count: int) -> Operation:
    """`served[w]` requests/s of each bucket by `count` replicas of `c` together."""
    each = count * c.design.attn_dp
    rate = np.array([served.get(str(w), 0.0) / each for w in range(len(s.mix.share))])
    own = s.one(index_of(s, c), rate / max(float(rate.sum()), 1e-30))
    at = at_rate(own, np.array([0]), rate.sum(keepdims=True), c.role)
    busy, fullest = float(at.utilisation[0]), [at.kv_share[0], *(row[0] for row in own.beside)]
    seats = seated(own, at.sequences, rate[None], at.ttft_s, at.utilisation, own.does(c.role))
    utilisation = max(busy, float(seats[0]), *(float(rate @ row) for row in fullest))
    sequences, (first, cautious) = float(at.decoding[0]), (at.ttft_s[0], at.cautious_ttft_s[0])
    return Operation(rate, first, cautious, at.tpot_s[0], sequences, utilisation, busy, own, at, c.role)


def admission(s: Setup, c: Candidate, op: Operation) -> Admission:
    """How many requests hold room on a server of `c`, how often one waits for it and is preempted: at the
    mean of their times."""
    index = np.array([index_of(s, c)])
    return admitted(s, index, op.rate, op.at.mean_tpot_s[0], op.busy, op.kv_prompts, s.promise.loop)


def alone_s(own: Setup, share: Floats) -> float:
    """Seconds that the mean prompt of the mix takes by itself on the one design of `own`, chunk after chunk
    through all stages: as long as a round of pp micro-batches that each carry such a chunk."""
    new, isl = float(own.mix.new @ share), float(own.mix.isl @ share)
    chunks, keys = np.ceil(new / own.token_budget), isl - new + new / 2
    pp = int(own.model.concurrent(own.designs)[0])
    each = own.model.step_s(own.designs, Load.of(0.0, 0.0, pp * new / chunks, keys))
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

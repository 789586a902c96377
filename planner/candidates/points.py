"""Operating points: what servers of many designs deliver with so many sequences in the batch, and the largest
batch that keeps the promise.

A server with B decoding sequences under the workload's mix (shares s_w) makes steps of

    T = t0 + B * E[work] / E[osl - 1]            E[.] over the mix; t0 and work by the step linearised at B

so it takes rate = B / (E[osl - 1] * T). Larger batches share t0 among more sequences, so that the rate rises
with B: for one bucket the best point is the largest B that keeps the SLO and the KV room, or a smaller one
where work grows faster than B (`planner.candidates.fastest`); for several, smaller ones may matter and a grid
of them is kept. Shapes: m points x w buckets; all quantities are one
server's (one attention-dp rank).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from planner.candidates.cache import kv_in_use, places
from planner.candidates.deadline import in_time
from planner.candidates.setup import PrefillParts, Role, Setup, cautious_ttft_s, predict, prefill_parts
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.shape import Floats, Ints, StepTimes
from planner.operating import times
from planner.operating.steps import batch_of, decoding_steps, for_role, steps_for
from planner.queueing import work_s
from planner.queueing.spare import DELAYED


@dataclass(frozen=True)
class Points:
    """m operating points: `index` into the setup's designs, `sequences` in the batch of a server (m,) at
    which its step is made linear, `rate` (m,) requests/s at the setup's mix, `work_s` and `kv_share` (m, w)
    of server time and of KV room that one request/s fills, `load` (m,) the time they fill; `cautious_ttft_s`
    that the limit is kept with; `late`, `slow`
    and `other` (m, w): by how much of itself the limit on TTFT, on TPOT, and the worst of all others, is
    exceeded, below zero where it is kept; `decoding` (m,) sequences as the clock sees them, `utilisation`
    (m,) of the server's time and tokens; `mean_tpot_s` (m, w), where `tpot_s` is a percentile."""

    index: Ints
    sequences: Floats
    step: StepTimes
    rate: Floats
    load: Floats
    work_s: Floats
    kv_share: Floats
    tpot_s: Floats
    ttft_s: Floats
    cautious_ttft_s: Floats
    late: Floats
    slow: Floats
    other: Floats
    decoding: Floats
    utilisation: Floats
    mean_tpot_s: Floats

    @property
    def excess(self) -> Floats:
        """By how much the worst limit is exceeded, (m, w)."""
        return np.maximum(np.maximum(self.late, self.slow), self.other)

    def take(self, chosen: Ints) -> Points:
        step = StepTimes(*(np.broadcast_to(x, self.rate.shape)[chosen] for x in vars(self.step).values()))
        parts = {k: v[chosen] for k, v in vars(self).items() if k != "step"}
        return Points(step=step, **parts)


def decode_steps(s: Setup, index: Ints, sequences: Floats) -> StepTimes:
    """The linear steps of servers that decode `sequences` (m,) at once."""
    return decoding_steps(s.model, s.designs.take(index), s.mix.requests, sequences, s.token_budget)


def batched(s: Setup, index: Ints, sequences: Floats, role: Role, step: StepTimes | None = None) -> Points:
    """Points of servers that decode `sequences` (m,) at once: role mixed or decode. `step`: from
    `decode_steps`, where known."""
    step, designs = step or decode_steps(s, index, sequences), s.designs.take(index)
    step = for_role(role, step, s.model, designs, s.mix.requests, sequences, s.token_budget)
    rate, work = _rate_of(s, step, sequences, role)
    return _points(s, index, sequences, step, rate, work, role)


def rate_at(s: Setup, index: Ints, sequences: Floats, role: Role) -> Floats:
    """Requests/s (m,) of servers that decode `sequences` (m,) at once."""
    step, designs = decode_steps(s, index, sequences), s.designs.take(index)
    step = for_role(role, step, s.model, designs, s.mix.requests, sequences, s.token_budget)
    return _rate_of(s, step, sequences, role)[0]


def prefilling(s: Setup, index: Ints, level: Floats) -> Points:
    """Points of servers that only prefill, each design of `index` (m,) at its `level`: the share of the time
    it is busy."""
    return prefilled(s, prefill_parts(s, index), np.arange(len(index)), level)


def prefilled(s: Setup, parts: PrefillParts, which: Ints, level: Floats) -> Points:
    """Servers of the designs `which` (m,) of `parts` at `level` (m,)."""
    step, work = parts.at(which)
    return _points(s, parts.index[which], level, step, level / (work @ s.mix.share), work, "prefill")


CELLS = 100_000
"""Rows x buckets whose times are computed at once."""

KEPT = 1e-9
"""Share of a limit by which it may be exceeded: rounding."""


def at_rate(s: Setup, index: Ints, rate: Floats, role: Role) -> Points:
    """Points of servers that get `rate` (m,) requests/s of the setup's mix: the batch is the one at whose
    step they decode so many."""
    if s.does(role) == "prefill":
        step, work = s.prefills.at(index)
        points = _points(s, index, rate * (work @ s.mix.share), step, rate, work, "prefill")
        if role == "prefill" or not (s.mix.osl > 1).any():
            return points
        cautious = s.caution(role)[0, index, None] * points.ttft_s  # as it is offered: it might decode
        return replace(points, cautious_ttft_s=cautious)
    servers = s.model, s.designs.take(index), s.mix.requests
    sequences = batch_of(*servers, rate, s.terms(role))
    step = steps_for(role, *servers, sequences, s.token_budget)
    return _points(s, index, sequences, step, rate, _rate_of(s, step, sequences, role)[1], role)


def _rate_of(s: Setup, step: StepTimes, sequences: Floats, role: Role) -> tuple[Floats, Floats]:
    """Requests/s (m,) of the mix that servers with `sequences` take, and work of a request, (m, w)."""
    mix = s.mix
    work = work_s(step, mix.new, mix.isl, 1 + mix.decodes, role)
    return sequences / (mix.steps * step.t0_s + sequences * (work @ mix.share)), work


def alone(s: Setup, index: Ints, model: CostModel | None = None) -> tuple[Floats, Floats]:
    """Seconds until the longest prompt has its first token with nothing else in the replica, and tokens of
    such contexts that the replica's cache holds, (n,) each. `model` in place of the setup's own."""
    m, d = model or s.model, s.designs.take(index)
    new, isl = float(s.mix.new.max()), float(s.mix.isl.max())
    chunks, pp = np.ceil(new / s.token_budget), m.concurrent(d)
    took = m.step_s(d, Load.of(0.0, 0.0, pp * new / chunks, isl - new / 2))
    seconds = (chunks + pp - 1) / pp * took + m.tuning.started_s(isl)
    whole = np.array([isl])
    held = s.model.cache_bytes(s.designs, whole, s.memory.stage)[index, 0]
    return np.asarray(seconds), s.memory.kv_bytes[index] / held * isl * d.attn_dp


def _points(
    s: Setup, index: Ints, sequences: Floats, step: StepTimes, rate: Floats, work: Floats, role: Role
) -> Points:
    """Times at `rate` by the queueing formulas, KV in use by Little's law, and which buckets keep the
    promise: some rows after the others, for the sake of memory. Raises OutOfTime."""
    many = max(CELLS // work.shape[1], 1)
    if len(index) <= many:
        return _some_points(s, index, sequences, step, rate, work, role)
    whole = StepTimes(*(np.broadcast_to(x, rate.shape) for x in vars(step).values()))
    parts = []
    for start in range(0, len(index), many):
        i = slice(start, start + many)
        own = StepTimes(*(x[i] for x in vars(whole).values()))
        parts.append(_some_points(s, index[i], sequences[i], own, rate[i], work[i], role))
    arrays = {k: np.concatenate([getattr(p, k) for p in parts]) for k in vars(parts[0]) if k != "step"}
    return Points(step=whole, **arrays)


def _some_points(
    s: Setup, index: Ints, sequences: Floats, step: StepTimes, rate: Floats, work: Floats, role: Role
) -> Points:
    in_time()
    room = places(s, index, role)
    e = predict(s, step, rate[:, None] * s.mix.share, role, room)
    kv = kv_in_use(s, index, step, e, sequences, role)
    if s.place is not None:
        e = replace(e, ttft_s=e.ttft_s + s.loading_s[index])
    ttft_s = cautious_ttft_s(s, index, step, rate[:, None] * s.mix.share, e.ttft_s, role)
    tpot_s = s.caution(role)[1, index, None] * e.tpot_s
    filled = [rate * (kv @ s.mix.share), *(rate * (row[index] @ s.mix.share) for row in s.beside)]
    filled.append(seated(s, sequences, rate[:, None] * s.mix.share, e.ttft_s, e.utilisation, role))
    other = np.broadcast_to(np.max(filled, axis=0)[:, None] - 1, work.shape).copy()
    other[~np.isfinite(rate)] = np.inf
    none = np.full(work.shape, -1.0)
    slow = beyond(tpot_s, s, s.promise.tpot_s) if role != "prefill" else none
    other[~s.holds[role][index] | (s.mix.share <= 0)[None, :]] = np.inf
    late = over(ttft_s, s.promise.ttft_s) if role != "decode" else none
    load = rate * (work @ s.mix.share)
    times, seen = (e.tpot_s, e.ttft_s, ttft_s), (e.sequences, e.utilisation, e.mean_tpot_s)
    return Points(index, sequences, step, rate, load, work, kv, *times, late, slow, other, *seen)


def seated(
    s: Setup, sequences: Floats, rate: Floats, ttft_s: Floats, utilisation: Floats, role: Role
) -> Floats:
    """Share (m,) of `most_sequences` that a server takes at once which decodes `sequences` on average, its
    prompts at `rate` and `ttft_s` (m, w) with them: in a closed loop; where requests come at random, as many
    as few of them wait for, their number varying as in `spare_bytes`."""
    if role == "prefill" or np.isinf(s.most_sequences):
        return np.zeros(len(sequences))
    prompts = (rate * np.where((rate > 0) & (role == "mixed"), ttft_s, 0.0)).sum(axis=1)
    inside = np.asarray(sequences + prompts)
    if s.promise.loop == "open":
        z = NormalDist().inv_cdf(1 - DELAYED["open"])
        inside = inside + z * np.sqrt(inside / (1 - np.clip(utilisation, 0.0, 0.99)))
    return inside / s.most_sequences


def beyond(tpot_s: Floats, s: Setup, limit_s: float) -> Floats:
    """By how much of itself a limit on TPOT is exceeded, (m, w); one token has no time between tokens."""
    return np.where(s.mix.osl > 1, over(tpot_s, limit_s), -1.0)


def over(seconds: Floats, limit_s: Floats | float) -> Floats:
    """By how much of itself a limit is exceeded; endless times exceed every limit."""
    known = np.isfinite(seconds)
    return np.where(known, np.where(known, seconds, 0.0) / limit_s - 1, np.inf)


def draw(s: Setup, points: Points, role: Role) -> Floats:
    """Watts of a replica at each point (m,): its mean step, prompt tokens spread over all steps."""
    designs = s.designs.take(points.index)
    by = s.terms(s.does(role))
    return times.watts(s.model, designs, s.mix.requests, by, points.sequences, points.utilisation)

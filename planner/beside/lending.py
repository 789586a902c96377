"""Cache borrowed from other replicas of the plan: each keeps part of the cache of its equals' requests and
computes attention on it (Infinite-LLM, arXiv:2401.02669). No stock engine does that.

A server alone holds whole sequences, `fits` of a bucket; servers that lend fill each other's last gap. At a
pace that all steps keep, one request/s of a bucket keeps steps * pace sequences decoding there, and takes

    of the time    (steps * (sequence + token * context) + prompt) * pace / (pace - t0 - wait)
    of the cache   steps * pace / fits, rounded down where nothing is lent

with `sequence`, `token`, `prompt` and `t0` the seconds of a step. What the plan's replicas carry of that is
`solvers/fleet`'s to say. Queries and partial outputs take no time by their size: 0.5 MB a step for each
sequence that lies on two servers, of Llama-3.1-8B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from planner.beside.planned import Planned
from planner.beside.reasons import describe
from planner.candidates.points import alone
from planner.plans.found import Group
from planner.plans.operation import index_of
from planner.plans.schema import LongPrompt
from planner.queueing import work_s
from solvers import fleet

WORTH = 0.02
"""What borrowed cache must bring to be shown."""

ANSWER_S = 20e-6
"""Seconds of a layer for a query to reach another node and its partial output to come back."""


def lent_cache(planned: Planned, own: LongPrompt) -> Iterator[LongPrompt]:
    """Where replicas lend each other cache, if that serves more; none where they are split by phase or
    answers have one token. `own`: the line of the plan."""
    chosen = planned.made
    if any(g.candidate.role != "mixed" or not g.candidate.step or not g.setup.mix.steps for g in chosen):
        return
    apart, lent = (carried(planned, lends) for lends in (False, True))
    if lent <= (1 + WORTH) * apart:
        return
    gain = f"{lent / apart - 1:.0%} more requests/s" if apart else "serves all buckets"
    rooms = [alone(g.setup, np.array([index_of(g.setup, g.candidate)]))[1][0] for g in chosen]
    yield LongPrompt(
        what=f"cache borrowed from other replicas: {describe(chosen)}",
        ttft_ms=own.ttft_ms,
        kv_tokens=float(sum(g.count * room for g, room in zip(chosen, rooms, strict=True))),
        started_by=None,
        why=f"{gain} than each by itself at the same pace; the longest context could be all their cache",
    )


def carried(planned: Planned, lends: bool) -> float:
    """Requests/s of the plan's replicas at the pace that is promised, or that the slowest of them keeps."""
    chosen, problem = planned.made, planned.found.problem
    kept = np.concatenate([g.operation.tpot_s for g in chosen])
    promised_s = chosen[0].setup.promise.tpot_s
    pace_s = promised_s if np.isfinite(promised_s) else float(kept[np.isfinite(kept)].max())
    columns = {
        g.candidate.id: replace(problem.columns[g.candidate.id], use=use(g, pace_s, lends)) for g in chosen
    }
    counts = {g.candidate.id: g.count for g in chosen}
    return fleet.carried(replace(problem, columns=columns), counts, planned.limits)[1].rate


def use(g: Group, pace_s: float, lends: bool) -> dict[str, Mapping[str, float]]:
    """Shares of a replica's time and cache that one request/s of each bucket takes which finds room there."""
    s, step, servers = g.setup, g.candidate.step, g.candidate.design.attn_dp
    assert step is not None
    lends = lends and g.count * servers > 1
    fits = s.memory.kv_bytes[index_of(s, g.candidate)] / s.held_bytes[index_of(s, g.candidate)]
    fits = fits if lends else np.floor(fits)
    left_s = pace_s - step.t0_s[0] - lends * ANSWER_S * len(s.model.card.stack)
    steps = s.mix.osl - 1
    prompt_s = work_s(step, s.mix.new, s.mix.isl, s.mix.osl, "prefill")[0]
    decoding_s = steps * (step.sequence_s[0] + step.context_s_per_token[0] * s.held_each)
    time = (decoding_s + prompt_s) * pace_s / max(left_s, 1e-6) / servers
    able = np.flatnonzero((s.mix.share > 0) & (fits > 0)).tolist()
    return {
        "busy": {str(w): float(time[w]) for w in able},
        "kv": {str(w): float(steps[w] * pace_s / fits[w] / servers) for w in able},
    }

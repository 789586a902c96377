"""Cache borrowed from other replicas of the plan: what `solvers/lending.py` says it would bring.

No stock engine does that; shown beside the plan where prompts are long and it pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from cluster_configs.schema import ResolvedCluster
from model_zoo.matrices import v_dim
from model_zoo.schema import Attention, Mla, ModelCard
from planner.beside.planned import Planned
from planner.beside.reasons import describe
from planner.cost.layers import ACTIVATION_BYTES
from planner.plans.found import Found, Group
from planner.plans.operation import index_of
from planner.plans.schema import LongPrompt
from planner.problems.ways import link_name, route
from planner.queueing import work_s
from solvers import lending
from solvers.lending import Bucket, Problem, Servers, Solution

WORTH = 0.02
"""What borrowed cache must bring to be shown."""

PIECE = 16_384.0
"""Tokens of a sequence that are lent together at least."""

ANSWER_S = 20e-6
"""Seconds of a layer for a query to reach another node and its partial output to come back, beside their
bytes."""


def lent_cache(planned: Planned, own: LongPrompt) -> Iterator[LongPrompt]:
    """Where replicas lend each other cache, if that serves more."""
    chosen = planned.made
    both = borrowed(planned.found, chosen)
    if both is None or both[1].rate <= (1 + WORTH) * both[0].rate:
        return
    alone, lent = both
    tokens = sum(g.count * g.candidate.design.attn_dp * room_tokens(g) for g in chosen)
    gain = f"{lent.rate / alone.rate - 1:.0%} more requests/s" if alone.rate else "serves all buckets"
    why = f"{gain} than each by itself at the same pace; the longest context could be all their cache"
    what = f"cache borrowed from other replicas: {describe(chosen)}"
    yield LongPrompt(what=what, ttft_ms=own.ttft_ms, kv_tokens=tokens, started_by=None, why=why)


def borrowed(best: Found, chosen: Sequence[Group]) -> tuple[Solution, Solution] | None:
    """The plan's replicas alone, and lending cache to each other; None where they are split by phase, there
    is one server, or requests do not decode."""
    if any(g.candidate.role != "mixed" or not g.candidate.step for g in chosen):
        return None
    if sum(_servers(g) for g in chosen) < 2 or chosen[0].setup.mix.steps == 0:
        return None
    p = state(best, chosen)
    return lending.solve(p, alone=True), lending.solve(p)


def state(best: Found, chosen: Sequence[Group]) -> Problem:
    """The plan's replica groups as servers, at the pace that is promised or kept."""
    mix, card = chosen[0].setup.mix, chosen[0].setup.model.card
    served = np.flatnonzero(mix.share > 0).tolist()
    buckets = {
        str(w): Bucket(
            float(chosen[0].setup.held_each[w]), max(float(mix.osl[w]) - 1, 1e-9), float(mix.share[w])
        )
        for w in served
    }
    promised = chosen[0].setup.promise.tpot_s
    kept = max(float(g.operation.tpot_s[np.isfinite(g.operation.tpot_s)].max()) for g in chosen)
    over, links = _ways(best.cluster, chosen)
    return Problem(
        {g.id: _group(best.cluster, g, served) for g in chosen},
        buckets,
        promised if np.isfinite(promised) else kept,
        message_bytes(card),
        PIECE,
        ANSWER_S * len(card.stack),
        over,
        links,
    )


def message_bytes(card: ModelCard) -> float:
    """Bytes sent in a decode step for one sequence a piece of whose cache is away: a query there and a
    partial output with its two sums back, in every layer of attention.

    Llama-3.1-8B: 32 layers x 32 heads x (2 x 128 + 2) x 2 bytes = 528,384.
    """
    wide = 0.0
    for mixer in (layer.mixer for layer in card.stack):
        if isinstance(mixer, Mla):
            wide += mixer.heads * (2 * mixer.kv_lora_rank + mixer.qk_rope + 2)
        elif isinstance(mixer, Attention):
            wide += mixer.heads * (mixer.head_dim + v_dim(mixer) + 2)
    return ACTIVATION_BYTES * wide


def room_tokens(g: Group) -> float:
    """Tokens that one server of a group holds, at the mean context."""
    s, index = g.setup, index_of(g.setup, g.candidate)
    held = s.held_bytes[index] @ s.mix.share
    return float(s.memory.kv_bytes[index] / held * (s.held_each @ s.mix.share))


def _servers(g: Group) -> int:
    return g.count * g.candidate.design.attn_dp


def _group(cluster: ResolvedCluster, g: Group, served: Sequence[int]) -> Servers:
    step, mix = g.candidate.step, g.setup.mix
    assert step is not None
    prompt = work_s(step, mix.new, mix.isl, mix.osl, "prefill")[0]
    home, gpus = g.candidate.home
    nic = next(n.nic_bytes_per_s for n in cluster.classes if n.id == home)
    return Servers(
        _servers(g),
        room_tokens(g),
        float(step.t0_s[0]),
        float(step.sequence_s[0]),
        float(step.context_s_per_token[0]),
        {str(w): float(prompt[w]) for w in served},
        nic * gpus / g.candidate.design.attn_dp,
    )


def _ways(
    cluster: ResolvedCluster, chosen: Sequence[Group]
) -> tuple[Mapping[tuple[str, str], Sequence[str]], dict[str, float]]:
    """Links between groups that anything joins, and their bytes/s."""
    nodes = {n.id: n for n in cluster.classes}
    over: dict[tuple[str, str], Sequence[str]] = {}
    links: dict[str, float] = {}
    for g, h in product(chosen, repeat=2):
        a, b = nodes[g.candidate.home[0]], nodes[h.candidate.home[0]]
        way = route(a, b, cluster)
        if way is None:
            continue
        names = [link_name(way.link, a, b)] if way.link else []
        over[g.id, h.id] = names
        links |= {name: way.link.bytes_per_s for name in names if way.link}
    return over, links

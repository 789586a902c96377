"""What ways that no stock engine starts would have given: solved like any fleet, shown beside the plan, never
chosen.

Different tp in the stages of one replica (vLLM and SGLang have one for all: vLLM issue 27239 asks for more),
and unlike GPUs in one tensor-parallel group, each with its own share of the heads; attention and FFNs on
different GPUs (docs/afd.md). And where declared links join places: chains of nodes with some of the layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.asked import Asked
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Candidate
from planner.cost.afd import Block
from planner.cost.uneven_tp import Shard
from planner.engine_rules import OFFLOADS
from planner.errors import Infeasible
from planner.explain.reasons import Fleet
from planner.explain.rivals import Rival, gains, told
from planner.plans.found import Found, groups
from planner.plans.schema import Alternative
from planner.posed import pooled, pose
from planner.search import find
from solvers.linear import Limits

MOST_GPUS, MOST_CLASSES = 32, 3
"""Larger clusters gain little from unlike GPUs in one replica, and the space takes seconds."""

MOST_NODES, CHAINS_S = 24, 2.0
"""Larger networks take chains many seconds; and after how many the sweep is refined no further."""

NODES = 200
"""Of branch and bound, so that the clock decides nothing and no way takes longer than the plan."""


def beyond(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """What each way would give that no engine starts as it comes; with weights in host memory, where few
    designs keep an SLO that was relaxed to the tightest, what each other engine would give at its own."""
    if asked.offload:
        from planner.explain.over_nodes import cut_over_nodes  # here, not above: it loads SciPy, too

        return [*_other_engines(asked, best, limits), *cut_over_nodes(asked, best)]
    return [*_unlike(asked, best, limits), *_chains(asked, best)]


def _other_engines(asked: Asked, best: Found, limits: Limits) -> Iterator[Alternative]:
    """The same with each engine that the plan does not use, under limits that it can keep."""
    if asked.options.engine != "any":
        return
    for engine in sorted(OFFLOADS.keys() - {g.candidate.engine for g in groups(best)}):
        one = replace(asked, options=asked.options.model_copy(update={"engine": engine}))
        try:
            _, pool, question = pose(one)
        except Infeasible:
            continue
        rival = Rival.of(partial(find, question, pool, limits))
        if rival.fleet is not None:
            own = [g.operation for g in rival.fleet.made]
            ttft_s, tpot_s = max(o.ttft_s.max() for o in own), max(o.tpot_s.max() for o in own)
            remark = f"TTFT {1e3 * ttft_s:,.0f} ms, TPOT {1e3 * tpot_s:,.0f} ms: limits of its own"
            yield told(Fleet(best), rival, remark=remark)


def _chains(asked: Asked, best: Found) -> list[Alternative]:
    """Nodes with some of the layers each, where declared links join places."""
    nodes = sum(c.node_count for c in asked.cluster.classes)
    if not asked.cluster.links or nodes > MOST_NODES or asked.objective != "throughput":
        return []
    if asked.workload.rate_rps is not None:
        return []
    from planner import chained  # here, not above: it loads SciPy, and most plans need none of it
    from solvers import placement_served_bound

    what = "chains of nodes with some of the layers each"
    try:
        _, posed, _, replicas = chained.chosen(replace(asked, defaulted=[]), CHAINS_S)
    except Infeasible as error:
        none = Alternative(what=what, objective=None, loss=None, why=error.message, status="none_found")
        return [none.model_copy(update={"seconds": CHAINS_S})]
    tokens = sum(r.tokens_per_s for r in replicas)
    most = placement_served_bound.bound(posed.service, tokens)
    served, bound = tokens / posed.service.output, most / posed.service.output
    sure = served if Fleet(best).gain(served) >= 0 else bound
    why = "no stock engine routes requests so; --engine chains prints the plan"
    loss = max(-Fleet(best).gain(sure), 0.0)
    return [Alternative(what=what, objective=served, loss=loss, why=why, status="stopped", bound=bound)]


def _unlike(asked: Asked, best: Found, limits: Limits) -> Iterator[Alternative]:
    """Different tp in one replica and unlike GPUs in one tp group, where the plan mixes classes in a replica
    or leaves GPUs idle that it could use; attention and FFNs apart; with the plan's engines. Each where a
    fleet with it beats all without."""
    classes, plan = asked.cluster.classes, Fleet(best)
    gpus = sum(c.gpus for c in classes)
    if not 2 <= len(classes) <= MOST_CLASSES or gpus > MOST_GPUS:
        return
    idle = asked.objective == "throughput" and sum(plan.kinds.values()) < gpus
    mixed = idle or any(g.candidate.design.stages for g in plan.made)
    engines = tuple(sorted({g.candidate.engine for g in plan.made}))
    free = Freedom(tp=mixed, shares=mixed, apart=True, engines=engines)
    pool, question = pooled(replace(asked, freedom=free), best.pool)
    few = limits if limits.work is None else replace(limits, work=min(limits.work, NODES))
    for what, why, own in WAYS:
        among = replace(pool, candidates=tuple(c for c in pool.candidates if plain(c) or own(c)))
        if not any(own(c) for c in among.candidates):
            continue
        rival = Rival.of(partial(find, question, among, few))
        made = rival.fleet.made if rival.fleet and gains(plan, rival.fleet.objective) else []
        if any(own(g.candidate) for g in made):
            yield told(plan, rival, what, remark=why)


def plain(c: Candidate) -> bool:
    """Whether an engine starts it as it comes."""
    return not (_apart(c) or _shards(c) or _sizes(c))


def _shards(c: Candidate) -> bool:
    return any(isinstance(s, Shard) for s in c.design.stages)


def _sizes(c: Candidate) -> bool:
    return len({s.tp for s in c.design.stages}) > 1 and not _apart(c)


def _apart(c: Candidate) -> bool:
    return any(isinstance(s, Block) for s in c.design.stages)


WAYS = (
    ("different tp in one replica", "no engine starts stages with different tp as it comes", _sizes),
    ("unlike GPUs in one tp group", "no engine gives GPUs unequal shares of the heads as it comes", _shards),
    ("attention and FFNs on different GPUs", "no engine release runs that as it comes", _apart),
)

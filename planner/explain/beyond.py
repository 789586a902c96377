"""What ways that no stock engine starts would have given: solved like any fleet, shown beside the plan, never
chosen.

Different tp in the stages of one replica (vLLM and SGLang have one for all: vLLM issue 27239 asks for more),
and unlike GPUs in one tensor-parallel group, each with its own share of the heads; attention and FFNs on
different GPUs (docs/afd.md). And where declared links join places: chains of nodes with some of the layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from planner.asked import Asked
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Candidate
from planner.candidates.generate import Pool
from planner.cost.afd import Block
from planner.cost.shape import Floats
from planner.cost.uneven_tp import Shard
from planner.engine_rules import OFFLOADS
from planner.errors import Infeasible
from planner.explain.alternatives import describe
from planner.plans.found import Found, Group, groups
from planner.plans.schema import Alternative
from planner.posed import pooled, pose
from planner.search import Question, find
from solvers import fleet
from solvers.linear import Limits

MOST_GPUS, MOST_CLASSES = 32, 3
"""Larger clusters gain little from unlike GPUs in one replica, and the space takes seconds."""

MOST_NODES, CHAINS_S = 24, 2.0
"""Larger networks take chains many seconds; and after how many the sweep is refined no further."""

WORTH = 0.02
"""What such a way must gain beside all others to be shown so."""

NODES = 200
"""Of branch and bound, so that the clock decides nothing and no way takes longer than the plan."""

BUDGETS = {"energy": "watts", "cost": "usd_per_hour", "gpus": "gpus"}
"""What an objective minimises, by its name as a budget."""


def beyond(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """What each way would give that no engine starts as it comes; with weights in host memory, where few
    designs keep an SLO that was relaxed to the tightest, what each other engine would give at its own."""
    if asked.offload:
        from planner.explain.over_nodes import cut_over_nodes  # here, not above: it loads SciPy, too

        return _other_engines(asked, best, limits) + cut_over_nodes(asked, best)
    return _unlike(asked, best, limits) + _chains(asked, best)


def _other_engines(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """The same with each engine that the plan does not use, under limits that it can keep."""
    if asked.options.engine != "any" or not best.solution.objective:
        return []
    made, used = list[Alternative](), {g.candidate.engine for g in groups(best)}
    for engine in sorted(OFFLOADS.keys() - used):
        one = replace(asked, options=asked.options.model_copy(update={"engine": engine}))
        try:
            _, pool, question = pose(one)
        except Infeasible:
            continue
        rival = find(question, pool, limits)
        theirs = rival.solution.objective
        if theirs is None:
            continue
        own = groups(rival)
        sign = 1 if best.objective == "throughput" else -1
        loss = sign * (best.solution.objective - theirs) / abs(best.solution.objective)
        ttft, tpot = (max(float(x.max()) for x in every) for every in _times(own))
        why = f"TTFT {1e3 * ttft:,.0f} ms, TPOT {1e3 * tpot:,.0f} ms: limits of its own"
        made.append(Alternative(what=describe(own), objective=theirs, loss=max(loss, 0.0), why=why))
    return made


def _times(own: Sequence[Group]) -> tuple[list[Floats], list[Floats]]:
    """TTFT and TPOT of each group, by bucket."""
    return [g.operation.ttft_s for g in own], [g.operation.tpot_s for g in own]


def _chains(asked: Asked, best: Found) -> list[Alternative]:
    """Nodes with some of the layers each, where declared links join places."""
    nodes = sum(c.node_count for c in asked.cluster.classes)
    if not asked.cluster.links or nodes > MOST_NODES or asked.objective != "throughput":
        return []
    if asked.workload.rate_rps is not None:
        return []
    from planner import chained  # here, not above: it loads SciPy, and most plans need none of it

    what = "chains of nodes with some of the layers each"
    try:
        _, posed, _, replicas = chained.chosen(replace(asked, defaulted=[]), CHAINS_S)
    except Infeasible as error:
        return [Alternative(what=what, objective=None, loss=None, why=error.message)]
    served, ours = sum(r.tokens_per_s for r in replicas) / posed.service.output, best.solution.objective
    gain = (served - ours) / ours if ours else 0.0
    why = "no stock engine routes requests so; --engine chains prints the plan"
    told = f"{gain:.0%} better, but {why}" if gain > 0 else why
    return [Alternative(what=what, objective=served, loss=max(-gain, 0.0), why=told)]


def _unlike(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """Different tp in one replica, unlike GPUs in one tp group, attention and FFNs apart; with the plan's
    engines."""
    classes = asked.cluster.classes
    if not 2 <= len(classes) <= MOST_CLASSES or sum(c.gpus for c in classes) > MOST_GPUS:
        return []
    engines = tuple(sorted({g.candidate.engine for g in groups(best)}))
    free = Freedom(shares=True, apart=True, engines=engines)
    pool, question = pooled(replace(asked, freedom=free), best.pool)
    counted = replace(limits, work=NODES if limits.work is None else min(limits.work, NODES))
    made = list[Alternative]()
    for what, why, own in WAYS:
        if any(own(c) for c in pool.candidates):
            among = tuple(c for c in pool.candidates if plain(c) or own(c))
            alone = tuple(c for c in among if own(c) or c.role == "prefill")
            rival = _better(question, replace(pool, candidates=among), best, counted)
            if rival is None:
                rival = find(question, replace(pool, candidates=alone), counted)
            made += _shown(what, why, best, rival)
    return made


def _better(question: Question, pool: Pool, best: Found, limits: Limits) -> Found | None:
    """The best fleet of the pool, where one is at least WORTH better than `best`; None where none is, which
    is proven much sooner."""
    problem, ours = question.state(pool, "bound"), best.solution.objective
    assert ours is not None
    sooner = problem
    if best.objective == "throughput":
        sooner = replace(problem, demand=max((1 + WORTH) * ours, problem.demand or 0.0))
    elif best.objective in BUDGETS:
        name, most = BUDGETS[best.objective], (1 - WORTH) * ours
        sooner = replace(problem, budget={**problem.budget, name: min(most, problem.budget.get(name, inf))})
    if fleet.solve(sooner, replace(limits, gap=1.0)).objective is None:
        return None
    rival = find(question, pool, limits)
    theirs = rival.solution.objective
    return rival if theirs is not None and _gain(best, theirs) >= WORTH else None


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


def _gain(best: Found, theirs: float) -> float:
    """Of another fleet's objective over the plan's."""
    ours = best.solution.objective
    if not ours:
        return 0.0
    return (theirs - ours if best.objective == "throughput" else ours - theirs) / abs(ours)


def _shown(what: str, why: str, best: Found, rival: Found) -> Iterator[Alternative]:
    """What the way brings beside all others, where that is worth it; else what it gives alone."""
    theirs = rival.solution.objective
    if not best.solution.objective or theirs is None:
        return
    gain = _gain(best, theirs)
    told = f"{gain:.0%} better, but {why}" if gain > 0 else why
    named = f"{what}: {describe(groups(rival))}"
    yield Alternative(what=named, objective=theirs, loss=max(-gain, 0.0), why=told)

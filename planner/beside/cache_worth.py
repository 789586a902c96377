"""What more room for the KV cache would bring: a GB more on each GPU, for the plan's designs, and a cache in
fp8. Solved again over designs that matter (`planner.replicas.again`), so at least that much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from planner.beside.planned import Planned
from planner.beside.rivals import Rival, gains, told
from planner.candidates.candidate import Candidate, Design
from planner.plans.schema import Alternative
from planner.question.posed import ask_of
from planner.replicas.again import anew
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.question import Question
from solvers.fleet.types import FleetProblem
from solvers.linear import Limits

MOST_CLASSES = 3
"""Classes in use for which a GB is priced: each means candidates made anew."""

FP8 = "KV cache in fp8"

REMARK = "--kv-precision fp8 takes it: not the checkpoint's own, check the quality"


def memory_tries(planned: Planned) -> Iterator[tuple[FleetProblem, str, str]]:
    """The fleet's own problem, of as few kinds as it may have, with one GB more on each GPU of a class, for
    classes, engines, roles and designs in use; servers that only prefill have room, but where they keep cache
    between requests."""
    asked, question, found, space = planned.asked, planned.question, planned.found, planned.found.space
    if asked.offload:
        return
    used = [g.candidate for g in planned.made]
    ask, pool, levels = ask_of(asked), _own(found.pool, used), {c.level for c in used} - {0}
    roles = {c.role for c in used} - (set() if levels else {"prefill"})
    nodes = [n for n in found.cluster.classes if any(c.gpus_on(n.id) for c in used)]
    for node in nodes[:MOST_CLASSES]:
        device = node.device.model_copy(update={"memory_gb": node.device.memory_gb + 1})
        larger = [replace(node, device=device)]
        made = anew(pool, larger, ask, sorted(roles), levels, _designs(used)).candidates
        ids = {c.id for c in made}
        others = [c for c in found.pool.candidates if c.id not in ids]
        more = question.state(replace(pool, candidates=(*others, *made)), "bound")
        own = replace(more, most_kinds=space.most_kinds, demand=space.demand, budget=space.budget)
        yield own, f"memory {node.device.name}", "1 GB on each GPU"


def lower_cache(planned: Planned) -> list[Alternative]:
    """The best fleet with an fp8 cache, where the plan's has 16 bit and it gains; never taken by itself.

    Designs that no kind of the plan's replicas are of are looked at only where it helps those.
    """
    plan, best, ask = planned.fleet, planned.found, ask_of(planned.asked)
    used = [g.candidate for g in plan.made]
    if ask.offload or ask.precisions.kv != "bf16" or any(c.design.stages for c in used):
        return []
    ask = replace(ask, precisions=replace(ask.precisions, kv="fp8"))
    own, levels = _own(best.pool, used), {c.level for c in used} - {0}
    for among, designs in ((own, _designs(used)), (best.pool, [])):
        pool = anew(among, best.cluster.classes, ask, levels=levels, designs=designs)
        rival = _with_cache(planned.question, pool, planned.limits)
        if rival.fleet is None or not gains(plan, rival.fleet.objective):
            return []
    return [told(plan, rival, FP8, remark=REMARK)]


def _with_cache(question: Question, pool: Pool, limits: Limits) -> Rival:
    """The best fleet of candidates whose cache has another precision: its transfers have other sizes."""
    if not pool.candidates:
        return Rival("infeasible")
    sent = pool.setup(pool.candidates[0]).sent_bytes
    traffic = replace(question.traffic, kv_bytes={str(i): float(b) for i, b in enumerate(sent)})
    return Rival.of(partial(find, replace(question, traffic=traffic), pool, limits))


def _own(pool: Pool, used: Sequence[Candidate]) -> Pool:
    """The pool with the setups of the classes and engines in use alone."""
    blocks = {(name, c.engine) for c in used for name, _ in c.blocks}
    return replace(pool, made={k: m for k, m in pool.made.items() if (k.where, k.engine) in blocks})


def _designs(used: Sequence[Candidate]) -> list[Design]:
    """Designs on one class, each once."""
    return list(dict.fromkeys(c.design for c in used if not c.design.stages))

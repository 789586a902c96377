"""What more room for the KV cache would bring: a GB more on each GPU, and a cache in fp8. Solved again over
designs that matter (`planner.candidates.again`), so at least that much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.asked import Asked
from planner.candidates.again import anew
from planner.explain.alternatives import describe
from planner.plans.found import Found, groups
from planner.plans.schema import Alternative
from planner.posed import ask_of
from planner.search import Question, find
from solvers.fleet import FleetProblem
from solvers.linear import Limits

MOST_CLASSES = 3
"""Classes in use for which a GB is priced: each means candidates made anew."""

FP8 = "KV cache in fp8"


def memory_tries(asked: Asked, question: Question, found: Found) -> Iterator[tuple[FleetProblem, str, str]]:
    """The fleet's problem with one GB more on each GPU of a class, for the classes, engines and roles in use;
    servers that only prefill have room, but where they keep cache between requests."""
    if asked.offload:
        return
    used = [found.candidates[c] for c in found.solution.replicas]
    engines, levels = {c.engine for c in used}, {c.level for c in used} - {0}
    roles = {c.role for c in used} - (set() if levels else {"prefill"})
    ask = replace(ask_of(asked), engines=sorted(engines))
    nodes = [n for n in found.cluster.classes if any(c.gpus_on(n.id) for c in used)]
    for node in nodes[:MOST_CLASSES]:
        device = node.device.model_copy(update={"memory_gb": node.device.memory_gb + 1})
        pool = replace(found.pool, setups={k: s for k, s in found.pool.setups.items() if k[1] in engines})
        made = anew(pool, [replace(node, device=device)], ask, sorted(roles), levels).candidates
        ids = {c.id for c in made}
        others = [c for c in found.pool.candidates if c.id not in ids]
        yield (
            question.state(replace(pool, candidates=(*others, *made)), "bound"),
            f"memory {node.device.name}",
            "1 GB on each GPU",
        )


def lower_cache(asked: Asked, question: Question, best: Found, limits: Limits) -> list[Alternative]:
    """The best fleet with an fp8 cache, where the plan's has 16 bit; never taken by itself."""
    ask = ask_of(asked)
    used = [best.candidates[c] for c in best.solution.replicas]
    if asked.offload or ask.precisions.kv != "bf16" or any(c.design.stages for c in used):
        return []
    ask = replace(ask, precisions=replace(ask.precisions, kv="fp8"))
    pool = anew(best.pool, best.cluster.classes, ask, levels={c.level for c in used} - {0})
    if not pool.candidates:
        return [Alternative(what=FP8, objective=None, loss=None, why="no engine keeps one on these GPUs")]
    s = pool.setup(pool.candidates[0])
    sent = s.model.transfer_bytes(s.mix.isl)
    traffic = replace(question.traffic, kv_bytes={str(i): float(b) for i, b in enumerate(sent)})
    rival = find(replace(question, traffic=traffic), pool, limits)
    ours, theirs = best.solution.objective, rival.solution.objective
    if not ours or theirs is None:
        return []
    gain = (theirs - ours if best.objective == "throughput" else ours - theirs) / abs(ours)
    better = gain > limits.gap
    why = "--kv-precision fp8 takes it: not the checkpoint's own, check the quality"
    why = f"{gain:.0%} better, but {why}" if better else f"nothing gained by {describe(groups(rival))}"
    named = f"{FP8}: {describe(groups(rival))}" if better else FP8
    return [Alternative(what=named, objective=theirs, loss=max(-gain, 0.0), why=why)]

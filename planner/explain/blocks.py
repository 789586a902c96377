"""Offline, in blocks: what GPUs would generate with weights, cache and activations over GPU, host and disk.

Latency is no concern there: a block of hundreds of requests passes each layer before the next is fetched. No
stock engine runs that for all models, so it is shown beside the plan and never chosen; and only where nobody
asked for an SLO, as a token then takes seconds. Every GPU has its share of the host, and a copy of the model.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster_configs.schema import NodeClass
from planner.asked import Asked
from planner.cost.block import job_of, machine_of, reached
from planner.inputs.workload import Bucket
from planner.plans.found import Found
from planner.plans.schema import Alternative
from planner.problems.tiers import state, way_of, ways
from solvers import tiers
from solvers.linear import Limits
from solvers.tiers_prices import shares_of_time
from solvers.tiers_rounding import Rounded, rounded
from solvers.tiers_types import Place, TiersProblem

WORTH = 0.02
"""What it must gain to be shown."""

Block = tuple[TiersProblem, Rounded, str]
"""The problem, its answer in whole layers and requests, and what decides most of its time."""


def in_blocks(asked: Asked, best: Found, limits: Limits) -> list[Alternative]:
    """Where all may take as long as it likes and it is faster than the plan."""
    ours = best.solution.objective
    if (
        asked.objective != "throughput"
        or asked.workload.rate_rps is not None
        or not ours
        or not _patient(asked)
    ):
        return []
    total, said = 0.0, list[str]()
    for node in asked.cluster.classes:
        blocks = [block(asked, node, bucket, limits) for bucket in asked.workload.buckets]
        if not all(blocks):
            continue
        seconds = sum(
            b.share * b.osl / (made[1].tokens_per_s or 1.0)
            for b, made in zip(asked.workload.buckets, blocks, strict=True)
            if made
        )
        total += node.gpus / seconds
        said.append(f"{node.device.name}: {'; '.join(in_words(made) for made in blocks if made)}")
    gain = total / ours - 1
    if gain < WORTH:
        return []
    why = f"{gain:.0%} better, but no stock engine runs it and tokens take long. {'. '.join(said)}"
    return [
        Alternative(what="offline, in blocks over GPU, host and disk", objective=total, loss=0.0, why=why)
    ]


def _patient(asked: Asked) -> bool:
    """Whether no limit on latency was asked for: none at all, or defaults that nothing meets."""
    slo, relaxed = asked.workload.slo, any(w.code == "slo_relaxed" for w in asked.warnings)
    asked_for = {"ttft_ms": slo.ttft_ms, "tpot_ms": slo.tpot_ms}
    return all(
        limit is None or (relaxed and f"slo.{name}" in asked.defaulted) for name, limit in asked_for.items()
    )


def block(asked: Asked, node: NodeClass, bucket: Bucket, limits: Limits) -> Block | None:
    """The best block of requests of one bucket on one GPU of `node`; None: no host, or no room."""
    machine = machine_of(node)
    if machine is None:
        return None
    o = asked.options
    job = job_of(asked.card, bucket.isl, bucket.osl, o.precision, o.kv_precision)
    problem = state(job, machine, ways(), reached())
    found = tiers.solve(problem, limits)
    if found.tokens_per_s is None:
        return None
    whole, time_of = rounded(problem, limits), shares_of_time(problem, found)
    return (problem, whole, max(time_of, key=lambda of: time_of[of])) if whole.point else None


def in_words(made: Block) -> str:
    """Batches, where everything rests, how long prompt and token take, what limits."""
    problem, whole, limit = made
    assert whole.point is not None
    way, batches = way_of(whole.point), whole.point.batches
    prompt, token = phase_seconds(problem, whole)
    rate = whole.tokens_per_s or 0.0
    rests = ", ".join(f"{q} {_percent(whole.pieces, q)}" for q in ("weights", "cache", "activations"))
    on = "CPU" if way.host_attention else "GPU"
    return (
        f"{batches} x {way.gpu_batch} requests, {rate:,.{0 if rate >= 100 else 2}f} tok/s, {rests}, "
        f"attention on the {on}, TTFT {_time(prompt)}, TPOT {_time(token)}, held by {limit}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:,.{0 if seconds >= 10 else 1}f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def phase_seconds(problem: TiersProblem, whole: Rounded) -> tuple[float, float]:
    """Of all layers: the block's prompts, and one token of each of its requests."""
    assert whole.point is not None
    count = {q: none + whole.point.batches * each for q, (none, each) in whole.point.line.pieces.items()}
    x = [whole.pieces.get((q, tier), 0) / count[q] for q, tier in problem.columns]
    rows = whole.point.work @ [*x, 1.0]
    layers = problem.times["prefill"]
    prefill, decode = (layers * float(rows[of].max()) for of in problem.of_phase)
    return prefill, decode


def _percent(pieces: Mapping[Place, int], tensor: str) -> str:
    """Of one tensor by tier: `20 % gpu 80 % host`."""
    held = {tier: n for (q, tier), n in pieces.items() if q == tensor}
    return " ".join(f"{n / sum(held.values()):.0%} {tier}" for tier, n in held.items())

"""Offline, in blocks: what GPUs would generate with weights, cache and activations over GPU, host and disk.

Latency is no concern there: a block of hundreds of requests passes each layer before the next is fetched. No
stock engine runs that for all models, so it is shown beside the plan and never chosen; and only where nobody
asked for an SLO, as a token then takes seconds. Every GPU has its share of the host, and a copy of the model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from cluster_configs.schema import NodeClass
from planner.beside.planned import Planned
from planner.beside.rivals import WORTH, estimated, gains
from planner.candidates.deadline import in_time, left_s
from planner.cost.block import job_of, machine_of, reached
from planner.inputs.workload import Bucket
from planner.plans.schema import Alternative
from planner.problems.tiers import FEW, state, way_of, ways
from planner.question.asked import Asked
from solvers import tiers
from solvers.linear import Limits
from solvers.tiers.rounding import Rounded, rounded, share_of
from solvers.tiers.types import Place, TiersProblem

PLAIN = "offline, in blocks over GPU, host and disk"
ON_CPU = "offline, in blocks, a share of each layer's weights computed with on the CPU beside the GPU"

GAP, NODES = 1e-3, 200
"""Gap and branch-and-bound nodes of an integer program, so that the clock decides nothing: they take some
hundredths of a second."""

Block = tuple[TiersProblem, Rounded]
"""The problem and its answer in whole layers and requests."""


def in_blocks(planned: Planned) -> list[Alternative]:
    """Where all may take as long as it likes and it is faster than the plan."""
    asked, limits, ours = planned.asked, planned.limits, planned.fleet.objective
    if not planned.open_ended or not ours or not _patient(asked):
        return []
    found, (plain, said) = list[Alternative](), _of_all(asked, limits, False)
    if gains(planned.fleet, plain):
        found.append(estimated(PLAIN, planned.fleet, plain, f"no stock engine runs it. {said}"))
    shared, said = _of_all(asked, limits, True) if _promises(asked, plain, limits) else (0.0, "")
    if shared >= (1 + WORTH) * max(plain, ours):
        found.append(estimated(ON_CPU, planned.fleet, shared, f"as HeteGen does, no stock engine. {said}"))
    return found


def _patient(asked: Asked) -> bool:
    """Whether no limit on latency was asked for: none at all, or defaults that nothing meets."""
    relaxed = any(w.code == "slo_relaxed" for w in asked.warnings)
    return all(
        getattr(asked.workload.slo, name) is None or (relaxed and f"slo.{name}" in asked.defaulted)
        for name in ("ttft_ms", "tpot_ms")
    )


def _promises(asked: Asked, plain: float, limits: Limits) -> bool:
    """Whether the bounds leave room for a gain by weights that the CPU computes with: of one bucket, as the
    programs in whole pieces take several times as long."""
    bucket, *others = asked.workload.buckets
    if others:
        return True
    most = 0.0
    for node in asked.cluster.classes:
        in_time()
        problem = _problem(asked, node, bucket, True)
        bound = tiers.solve(problem, limits).bound if problem else None
        most += node.gpus * (bound or 0.0) / bucket.osl
    return most >= (1 + WORTH) * plain


def _of_all(asked: Asked, limits: Limits, cpu_weights: bool) -> tuple[float, str]:
    """Requests/s of all GPUs with a host, and what each kind of them does."""
    total, said, buckets = 0.0, list[str](), asked.workload.buckets
    for node in asked.cluster.classes:
        found = [block(asked, node, bucket, limits, cpu_weights) for bucket in buckets]
        blocks = [made for made in found if made]
        if len(blocks) < len(buckets):
            continue
        rates = [whole.tokens_per_s or 0.0 for _, whole in blocks]
        total += node.gpus / sum(b.share * b.osl / rate for b, rate in zip(buckets, rates, strict=True))
        said.append(f"{node.device.name}: {'; '.join(map(in_words, blocks))}")
    return total, ". ".join(said)


def block(
    asked: Asked, node: NodeClass, bucket: Bucket, limits: Limits, cpu_weights: bool = False
) -> Block | None:
    """The best block of requests of one bucket on one GPU of `node`; None: no host, or no room.
    `cpu_weights`: with a share of each layer's weights computed with on the CPU. Raises OutOfTime,
    KeyboardInterrupt."""
    in_time()
    problem, until = _problem(asked, node, bucket, cpu_weights), time.perf_counter() + left_s()
    whole = rounded(problem, replace(limits, gap=GAP, work=NODES), until) if problem else None
    if whole and whole.status == "interrupted":
        raise KeyboardInterrupt
    return (problem, whole) if problem and whole and whole.point else None


def _problem(asked: Asked, node: NodeClass, bucket: Bucket, cpu_weights: bool) -> TiersProblem | None:
    machine = machine_of(node)
    if machine is None:
        return None
    o = asked.options
    job = job_of(asked.card, bucket.isl, bucket.osl, o.precision, o.kv_precision)
    among = ways(gpu_batches=FEW, cpu_weights=True) if cpu_weights else ways()
    return state(job, machine, among, reached())


def in_words(made: Block) -> str:
    """Batches, where everything rests, how long prompt and token take."""
    problem, whole = made
    assert whole.point is not None
    way = way_of(whole.point)
    prompt_s, token_s = phase_seconds(problem, whole)
    rests = ", ".join(f"{q} {_percent(whole.pieces, q)}" for q in ("weights", "cache", "activations"))
    on = "CPU" if way.host_attention else "GPU"
    return (
        f"{whole.point.batches} x {way.gpu_batch} requests, {rests}, attention on the {on}, "
        f"TTFT {prompt_s:,.1f} s, TPOT {1e3 * token_s:,.0f} ms"
    )


def phase_seconds(problem: TiersProblem, whole: Rounded) -> tuple[float, float]:
    """Seconds in all layers of the block's prompts, and of one token of each of its requests."""
    assert whole.point is not None
    x = [share_of(whole, place) for place in problem.columns]
    rows, layers = (whole.point.seconds @ [*x, 1.0]).sum(axis=0), problem.times["prefill"]
    prefill, decode = (layers * float(rows[of].max()) for of in problem.of_phase)
    return prefill, decode


def _percent(pieces: Mapping[Place, int], tensor: str) -> str:
    """Where one tensor lies, by tier: `20% gpu 80% host`."""
    held = {tier: n for (q, tier), n in pieces.items() if q == tensor}
    return " ".join(f"{n / sum(held.values()):.0%} {tier}" for tier, n in held.items())

"""What is rented at once: the fewest nodes of a class that serve the model within the limits; what they
serve, what they cost, and how long they take to start.

What a unit serves is the most requests/s of the workload's mix that a fleet of its nodes keeps the limits at,
as `plan` would have it. Units stand beside each other: that two serve twice as much as one is on the safe
side, as they could share replicas. Where any engine may run, the one is taken that serves most requests of
two lengths, the longest and the mean: five engines under a dozen lengths take five times as long.

A unit that is started boots, reads the weights from its disk and starts its engine:

    cold_s = BOOT_S + weights / read rate + ENGINE_S
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cluster_configs.schema import NameRun, NodeClass, NodeNames
from planner.errors import Infeasible, InputError
from planner.inputs.workload import Bucket, Workload
from planner.objectives import THROUGHPUT
from planner.plans.found import Found
from planner.plans.operation import index_of
from planner.question.asked import Asked
from planner.question.posed import pooled, pose
from planner.search.find import find
from planner.search.question import Question
from planner.search.shortlists import unserved
from planner.search.simple import simplest
from solvers.linear import Limits

BOOT_S = 90.0
"""Until a rented machine runs our container: ours, from what clouds state for GPU machines with a ready
image (one to three minutes)."""

ENGINE_S = 60.0
"""Process, kernels and graphs of an engine: what vLLM and SGLang log for models of 7 to 70 billion."""

DISK_BYTES_PER_S = 2e9
"""A node's NVMe where it names none: one drive behind a file system."""

SIMPLE = 0.02
"""Share of what a unit serves that fewer kinds of replica may cost."""

GAP = 0.02
"""Within which a unit's fleet is looked for: schedules are of whole units."""

ROUGH = Limits(gap=0.1, seconds=1.0)
"""Of the search that chooses an engine."""

FEW = 4
"""Lengths from which on an engine is chosen by two of them."""

SIZES = (1, 2, 4)
"""Nodes of a unit that are tried."""


@dataclass(frozen=True)
class Unit:
    """`count` units of `nodes` nodes of a class, each serving `rps` requests/s of the mix."""

    name: str
    device: str
    nodes: int
    count: int
    rps: float
    usd_per_hour: float
    spot: bool
    cold_s: float
    layout: str


def units(asked: Asked, limits: Limits, cold_s: float | None = None) -> list[Unit]:
    """Of every class that can serve the workload, at its own `rate_rps`. Raises InputError without prices,
    Infeasible where no class can."""
    unpriced = [n.id for n in asked.cluster.classes if n.price_usd_per_hour is None]
    if unpriced:
        text = f"nodes without a price: {', '.join(unpriced)}"
        raise InputError(
            text, "price_usd_per_hour", "a schedule is for the least money: give each node's price"
        )
    limits = replace(limits, gap=GAP)
    each = (_unit(asked, node, limits, cold_s) for node in asked.cluster.classes)
    found = [unit for unit in each if unit is not None]
    if not found:
        pose(asked)  # which says why, where all nodes together can't, either
        text = f"no {SIZES[-1]} nodes of one class keep the limits"
        raise Infeasible(text, hint="looser limits, or `meshwright plan` for nodes of several classes")
    return found


def _unit(asked: Asked, node: NodeClass, limits: Limits, cold_s: float | None) -> Unit | None:
    """The least unit of one class; None where no size keeps the limits."""
    for size in SIZES:
        if size > node.node_count:
            break
        few = replace(node, nodes=NodeNames((NameRun(node.id, 0, size),)))
        alone = replace(asked, cluster=replace(asked.cluster, classes=(few,), links=()))
        try:
            best = _simplest(_with_engine(alone), limits)
        except Infeasible:
            continue
        rps = best.solution.objective
        if rps is None or rps <= 0:
            continue
        seconds = cold_s if cold_s is not None else BOOT_S + _read_s(best, few) + ENGINE_S
        price = size * float(node.price_usd_per_hour or 0.0)
        count = node.node_count // size
        return Unit(
            node.id, node.device.name, size, count, rps, price, node.spot, seconds, "; ".join(_layouts(best))
        )
    return None


def _with_engine(asked: Asked) -> Asked:
    """With the engine that serves most requests of two lengths: the longest, and the mean of the others.
    Raises Infeasible."""
    if asked.options.engine != "any" or len(asked.workload.buckets) < FEW:
        return asked
    few = asked.workload.model_copy(update={"buckets": _two(asked.workload), "idle": None})
    _, best = _best(replace(asked, workload=few), ROUGH)
    engines = {best.candidates[name].engine for name in best.solution.replicas}
    if len(engines) != 1:
        return asked
    return replace(asked, options=asked.options.model_copy(update={"engine": engines.pop()}))


def _two(workload: Workload) -> list[Bucket]:
    """The bucket of the longest prompts, and one for the others' mean lengths."""
    *others, (longest, share) = sorted(
        zip(workload.buckets, workload.shares, strict=True), key=lambda x: (x[0].isl, x[0].osl)
    )
    isl, osl = (
        max(round(sum(x * s for x, s in lengths) / (1 - share)), 1)
        for lengths in ([(b.isl, s) for b, s in others], [(b.osl, s) for b, s in others])
    )
    mean = Bucket(isl=isl, osl=osl, share=1 - share)
    return [mean, Bucket(isl=longest.isl, osl=longest.osl, share=share)]


def _best(asked: Asked, limits: Limits) -> tuple[Question, Found]:
    """The fleet that serves most. Raises Infeasible."""
    pool, question = pooled(asked)
    if unserved(question.state(pool, "bound")):
        raise Infeasible("no replica keeps the limits", hint="loosen them, or add nodes")
    traffic = replace(question.traffic, rate_rps=None)
    question = replace(question, traffic=traffic, objective=THROUGHPUT)
    return question, find(question, pool, limits)


def _simplest(asked: Asked, limits: Limits) -> Found:
    """The fleet of the fewest kinds of replica that serves nearly most. Raises Infeasible."""
    question, best = _best(asked, limits)
    if best.solution.objective is None:
        return best
    return simplest(question, best, SIMPLE, limits).chosen


def _read_s(found: Found, node: NodeClass) -> float:
    """Seconds until the fullest node of a unit has read its weights: each replica's, once a node."""
    disk = max((1e9 * t.read_gb_per_s for t in node.tiers if t.kind == "nvme"), default=DISK_BYTES_PER_S)
    weights = 0.0
    for name in found.solution.replicas:
        c = found.candidates[name]
        s = found.pool.setup(c)
        each = float(s.memory.weights_bytes[index_of(s, c)])
        weights = max(weights, each * min(c.gpus, node.gpus_per_node))
    return weights / disk


def _layouts(found: Found) -> Iterator[str]:
    """The unit's replicas in short."""
    for name, count in sorted(found.solution.replicas.items()):
        c = found.candidates[name]
        d = c.design
        sizes = [f"tp{d.tp}"] + [
            f"{k}{v}" for k, v in (("pp", d.pp), ("dp", d.attn_dp), ("ep", d.ep)) if v > 1
        ]
        role = "" if c.role == "mixed" else f" {c.role}"
        yield f"{count} x {' '.join(sizes)} {c.engine}{role}"

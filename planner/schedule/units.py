"""What is rented at once: the fewest nodes of a class that serve the model within the limits; what they
serve in each slot, what they cost, and how long they take to start.

What a unit runs is the fleet of its nodes that serves most requests of the workload's mix, as `plan` would
have it; of many lengths two stand for all of them there, the longest and the mean of the others. What it
serves is then asked of the one model of a server for all lengths, under the mix of every slot. Units stand
beside each other: that two serve twice as much as one is on the safe side, as they could share replicas.

Where slots have unlike mixes, units of the class that serves most for a dollar may also only prefill or only
decode, with the replicas of the best split of four of them: as many of each as a slot needs.

A unit that is started boots, reads the weights from its disk and starts its engine:

    cold_s = BOOT_S + weights / read rate + ENGINE_S
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.names import NameRun, NodeNames
from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.candidates import deadline
from planner.candidates.ask import Ask
from planner.candidates.candidate import Role
from planner.candidates.deadline import late
from planner.cost.loading import read_bytes_per_s
from planner.designs.shape import Floats, Ints
from planner.errors import LONGER, Infeasible, InputError, OutOfTime
from planner.inputs.workload import Bucket, Workload
from planner.objectives import THROUGHPUT
from planner.plans.found import Found
from planner.plans.operation import index_of
from planner.question.asked import Asked
from planner.question.posed import pooled, pose
from planner.replicas.pool import Pool
from planner.schedule.capacity import Run, mixes, of_fleet, runs
from planner.search.find import find
from planner.search.shortlists import unserved
from planner.search.simple import simplest
from solvers.linear import Limits

BOOT_S = 90.0
"""Until a rented machine runs our container: ours, from what clouds state for GPU machines with a ready
image (one to three minutes)."""

ENGINE_S = 60.0
"""Process, kernels and graphs of an engine: what vLLM and SGLang log for models of 7 to 70 billion."""

SIMPLE = 0.02
"""Share of what a unit serves that fewer kinds of replica may cost."""

GAP = 0.02
"""Within which a unit's fleet is looked for: schedules are of whole units."""

FEW = 4
"""Lengths from which on a unit's fleet is looked for with two of them: a dozen take five times as long."""

SIZES = (1, 2, 4)
"""Nodes of a unit that are tried."""

SPLIT = 4
"""Units that the best split into servers of prompts and of answers is looked for on."""

UNFIT = 0.01
"""Units that carry less than this share of the mean in some slot are no units."""


@dataclass(frozen=True)
class Unit:
    """`count` units of `nodes` nodes of a class in a role (mixed: whole requests), each serving `rps`
    requests/s of the workload's mix, `by_slot` of each slot's. Units of a class in several roles are the
    same `count` nodes."""

    node_class: str
    device: str
    nodes: int
    count: int
    role: Role
    rps: float
    by_slot: tuple[float, ...]
    usd_per_hour: float
    spot: bool
    cold_s: float
    layout: str

    @property
    def name(self) -> str:
        """The class, and the role where it is one of several."""
        return self.node_class if self.role == "mixed" else f"{self.node_class}-{self.role}"

    @property
    def usd_per_rps(self) -> float:
        """Dollars an hour for a request/s of the workload's mix."""
        return self.usd_per_hour / self.rps


NEXT_SHARE = 0.5
"""Of the time that is left, for the next class at most."""


@dataclass(frozen=True)
class Sized:
    """Units of the classes that can serve; of each class, sizes below its unit's, or any where it has none,
    of which the search was stopped before it said whether so many nodes serve."""

    units: list[Unit]
    undecided: dict[str, list[int]]

    @property
    def unknown(self) -> list[str]:
        """Classes without units that may still serve."""
        return sorted(self.undecided.keys() - {unit.node_class for unit in self.units})


def units(asked: Asked, limits: Limits, cold_s: float | None = None) -> Sized:
    """Of every class that can serve the workload, at its own `rate_rps`. Raises InputError without prices,
    Infeasible where no class can, OutOfTime where that is not known, KeyboardInterrupt."""
    classes = sorted(asked.cluster.classes, key=lambda node: node.id)  # in whatever order they are written
    unpriced = [n.id for n in classes if n.price_usd_per_hour is None]
    if unpriced:
        text = f"nodes without a price: {', '.join(unpriced)}"
        raise InputError(
            text, "price_usd_per_hour", "a schedule is for the least money: give each node's price"
        )
    limits = replace(limits, gap=GAP)
    shares = mixes(asked.workload)
    sized = dict[str, tuple[Unit | None, list[int]]]()
    for node in sorted(classes, key=_usd_per_gb_per_s):  # where time is short the likely ones are known
        part = NEXT_SHARE if len(sized) + 1 < len(classes) else 1.0
        sized[node.id] = _whole(asked, node, shares, limits, cold_s, part)
    each = [sized[node.id] for node in classes]
    found = [unit for unit, _ in each if unit is not None]
    undecided = {node.id: sizes for node, (_, sizes) in zip(classes, each, strict=True) if sizes}
    if not found and undecided:
        raise OutOfTime(
            f"time limit reached before any unit of {', '.join(undecided)} was found", hint=LONGER
        )
    if not found:
        pose(asked)  # which says why, where all nodes together can't, either
        text = f"no {SIZES[-1]} nodes of one class keep the limits"
        raise Infeasible(text, hint="looser limits, or `meshwright plan` for nodes of several classes")
    if len(shares[0]) > 1:
        best = min(found, key=lambda u: u.usd_per_rps)
        found += _roles(asked, best, shares, limits, cold_s)
    return Sized(found, undecided)


def _usd_per_gb_per_s(node: NodeClass) -> float:
    """Dollars an hour for the memory rate of a node."""
    return float(node.price_usd_per_hour or 0.0) / (node.gpus_per_node * node.device.memory_gb_per_s)


Shares = tuple[Floats, Ints]
"""Mixes (m, w), and that of each slot (t,)."""


def _whole(
    asked: Asked, node: NodeClass, shares: Shares, limits: Limits, cold_s: float | None, part: float
) -> tuple[Unit | None, list[int]]:
    """The least unit of one class that serves whole requests, None where no size is found that keeps the
    limits; and the sizes that were tried of which that is not decided. `part`: of the time that is left, for
    the fleet of one size."""
    undecided = list[int]()
    for size in SIZES:
        if size > node.node_count:
            break
        few, alone = _alone(asked, node, size)
        try:
            with deadline.share(part):
                best = _simplest(alone, limits)
        except Infeasible:
            continue
        except OutOfTime:
            undecided.append(size)
            continue
        if best.solution.objective is None:
            undecided += [] if best.solution.refuted else [size]
            continue
        made = runs(best, asked.workload)
        seconds = cold_s if cold_s is not None else BOOT_S + _read_s(made, few) + ENGINE_S
        try:
            carried = Carried(of_fleet(made, np.array([asked.workload.shares])), of_fleet(made, shares[0]))
        except OutOfTime:
            undecided.append(size)
            continue
        unit = _unit(node, size, "mixed", carried, shares[1])
        if unit is not None:
            return replace(unit, cold_s=seconds, layout="; ".join(_layouts(made))), undecided
        if best.solution.status == "time_limit":  # what was found carries next to nothing
            undecided.append(size)
    return None, undecided


@dataclass(frozen=True)
class Carried:
    """Requests/s of the workload's mix (1,), and of the mixes (m,)."""

    mean: Floats
    each: Floats


def _unit(node: NodeClass, size: int, role: Role, carried: Carried, which: Ints) -> Unit | None:
    """A unit that carries so much; None where that is next to nothing."""
    mean = float(carried.mean[0])
    if mean <= 0 or carried.each.min() < UNFIT * mean:
        return None
    price = size * float(node.price_usd_per_hour or 0.0)
    by_slot = tuple(carried.each[which].tolist())
    at = node.id, node.device.name, size, node.node_count // size, role
    return Unit(*at, mean, by_slot, price, node.spot, 0.0, "")


def _alone(asked: Asked, node: NodeClass, size: int) -> tuple[NodeClass, Asked]:
    """So many nodes of a class by themselves."""
    few = replace(node, nodes=NodeNames((NameRun(node.id, 0, size),)))
    alone = replace(asked, cluster=replace(asked.cluster, classes=(few,), links=()))
    if len(asked.workload.buckets) < FEW or asked.workload.idle is not None:
        return few, alone
    two = {"buckets": _two(asked.workload), "traffic": None}
    return few, replace(alone, workload=asked.workload.model_copy(update=two))


def _roles(asked: Asked, whole: Unit, shares: Shares, limits: Limits, cold_s: float | None) -> list[Unit]:
    """Units like `whole` that only prefill, and such that only decode; none where no split is found."""
    node = next(n for n in asked.cluster.classes if n.id == whole.node_class)
    if whole.count < 2 or not asked.workload.decodes:
        return []
    few, alone = _alone(asked, node, min(SPLIT, whole.count) * whole.nodes)
    try:
        best = _simplest(replace(alone, only=_split), limits)
    except (Infeasible, OutOfTime):
        return []
    found = []
    made = sorted(runs(best, asked.workload), key=lambda run: -run.count * run.candidate.gpus)
    for role in ("prefill", "decode"):
        run = next((r for r in made if r.candidate.role == role), None)
        many = 0 if run is None else whole.nodes * node.gpus_per_node // run.candidate.gpus
        if run is None or many == 0:
            return []
        own = replace(run, count=many)
        each = [
            np.array([own.rps(share) for share in x]) for x in (np.array([asked.workload.shares]), shares[0])
        ]
        unit = _unit(node, whole.nodes, run.candidate.role, Carried(*each), shares[1])
        if unit is None:
            return []
        seconds = cold_s if cold_s is not None else BOOT_S + _read_s([own], few) + ENGINE_S
        found.append(replace(unit, cold_s=seconds, layout="; ".join(_layouts([own]))))
    return found


def _split(pool: Pool, ask: Ask, cluster: ResolvedCluster) -> Pool:
    """Only candidates for pairs."""
    return replace(pool, candidates=tuple(c for c in pool.candidates if c.role != "mixed"))


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


def _simplest(asked: Asked, limits: Limits) -> Found:
    """The fleet of the fewest kinds of replica that serves nearly most. Raises Infeasible, OutOfTime,
    KeyboardInterrupt."""
    pool, question = pooled(asked)
    if unserved(question.state(pool, "bound")):
        if pool.late:
            raise late()
        raise Infeasible("no replica keeps the limits", hint="loosen them, or add nodes")
    traffic = replace(question.traffic, rate_rps=None)
    question = replace(question, traffic=traffic, objective=THROUGHPUT)
    best = find(question, pool, limits)
    nothing = best.solution.unbroken().objective is None
    return best if nothing else simplest(question, best, SIMPLE, limits).chosen


def _read_s(made: Sequence[Run], node: NodeClass) -> float:
    """Seconds until the fullest node of a unit has read its weights: each replica's, once a node."""
    weights = 0.0
    for run in made:
        each = float(run.setup.memory.weights_bytes[index_of(run.setup, run.candidate)])
        weights = max(weights, each * min(run.candidate.gpus, node.gpus_per_node))
    return weights / read_bytes_per_s(node)


def _layouts(made: Sequence[Run]) -> Iterator[str]:
    """The unit's replicas in short; those of one design at several loads are alike."""
    alike: dict[str, int] = {}
    for run in made:
        c = run.candidate
        role = "" if c.role == "mixed" else f" {c.role}"
        name = f"{c.design} {c.engine}{role}"
        alike[name] = alike.get(name, 0) + run.count
    for name, count in sorted(alike.items()):
        yield f"{count} x {name}"

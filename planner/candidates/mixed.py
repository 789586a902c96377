"""Replicas whose stages differ in device, tp and layers: the cost model's numbers for `solvers.pipeline`, and
its answer in the domain's words.

A kind of stage is (node class, tp), attn_dp = ep = 1; a point is a number of stages S with B sequences in
flight. In a round of S micro-batches B sequences get a token each and, in the steady state, B / E[osl - 1]
prompts pass; so a layer takes, for one micro-batch,

    layer_s = decode of B/S sequences + B / (S * E[osl - 1]) * (seconds of a request's prompts in a round)

with the prompts' slopes as `CostModel.step_times` has them. Memory by role (first: embedding, last: LM head
and sampling) is read off `room_by_stage` for two splits of the layers, as a line in their number. What the
replica then delivers comes from the same queueing formulas as every other candidate's.

Space: one engine in all stages, the smallest token budget of their classes, tp inside a node and of its usual
sizes, up to MOST_STAGES stages, BATCHES and every batch near the best (against all batches up to 512, five
cases, that lost 0 to 0.8 %). Only TPOT is promised: TTFT is predicted. Room for prompts that are not through
yet is left out: less than one sequence. Assumes that layers are alike: where a model mixes kinds, each counts
as their mean (a stage's seconds are off by 0 to 1.3 % for gemma-3 and gpt-oss, by 6 % where DeepSeek-V3's
dense layers are).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass, ResolvedCluster
from planner.candidates.generate import RESERVING, Ask, usual_sizes
from planner.candidates.points import Mix
from planner.cost.attention import Load
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.memory import kv_bytes_per_seq, room_by_stage
from planner.cost.model import CostModel
from planner.cost.queueing import Estimate, estimate, prefill_s
from planner.cost.reserve import default_tokens_per_step, device_bytes
from planner.cost.shape import Designs, Floats, Ints, StepTimes
from planner.device_rules import why_unsupported
from planner.engine_rules import why_not_moe, why_not_together, why_not_tp
from solvers import pipeline
from solvers.pipeline import Kind, Limits, Nodes, Pipeline, PipelineProblem, PipelineSolution, Point

MOST_STAGES = 8
"""Stages of one replica: more add hops and bubbles, and what they gain in memory a wider tp gives too."""

BATCHES = tuple(sorted({round(2 ** (i / 8)) for i in range(81)}))
"""Sequences in flight that are tried first; every number near the best ones follows."""

NEAR = 0.2
"""How far around the best batch every number (or every 64th part of it) is tried."""


@dataclass(frozen=True)
class Freedom:
    """What stages of one replica may differ in: layers, tp, and in how many node classes."""

    layers: bool = True
    tp: bool = True
    classes: int = 3


EVERYTHING = Freedom()


@dataclass(frozen=True)
class Stage:
    """Layers `layers` (half-open) on `tp` GPUs of one node class."""

    node_class: str
    tp: int
    layers: tuple[int, int]


@dataclass(frozen=True)
class Replica:
    """`count` mixed replicas alike, each with `batch` sequences in flight and serving `rate` requests/s."""

    stages: tuple[Stage, ...]
    count: int
    batch: int
    rate: float
    tpot_s: float
    ttft_s: tuple[float, ...]
    step: StepTimes


@dataclass(frozen=True)
class Posed:
    """The numbers of one engine on a cluster, and what they were made from; `tp` and `model` by kind."""

    problem: PipelineProblem
    ask: Ask
    classes: tuple[NodeClass, ...]
    models: tuple[CostModel, ...]
    token_budget: int
    links: tuple[ClusterLink, ...]

    @property
    def mix(self) -> Mix:
        return Mix.of(self.ask.workload)


@dataclass(frozen=True)
class Found:
    """The best mixed replicas; the solution's objective and bound are in requests/s, or in US$/hour where
    cost is asked for."""

    solution: PipelineSolution
    replicas: tuple[Replica, ...]


def best(cluster: ResolvedCluster, ask: Ask, engine: str, limits: Limits, may: Freedom = EVERYTHING) -> Found:
    """The best replicas on all of `cluster`: a grid of batches first, then every batch near those found."""
    return compare(cluster, ask, engine, limits, [may])[0]


def compare(
    cluster: ResolvedCluster, ask: Ask, engine: str, limits: Limits, freedoms: Sequence[Freedom]
) -> list[Found]:
    """The best replicas under each of `freedoms`, all at the same operating points: more freedom never serves
    less."""
    posed = pose(cluster, ask, engine)
    if posed is None:
        return [Found(PipelineSolution("infeasible", None, None), ())] * len(freedoms)
    first = [pipeline.solve(_with(posed, may), limits) for may in freedoms]
    tried = [(len(x.stages), x.sequences) for s in first for x in s.pipelines]
    near = points(posed, [(stages, b) for stages, batch in tried for b in _near(batch)])
    at = replace(posed, problem=replace(posed.problem, points=[*posed.problem.points, *near]))
    second = [pipeline.solve(_with(at, may), limits) for may in freedoms]
    return [Found(s, tuple(_replica(at, x) for x in s.pipelines)) for s in second]


def _with(posed: Posed, may: Freedom) -> PipelineProblem:
    most = min(may.classes, len(posed.classes))
    return replace(posed.problem, even=not may.layers, alike=not may.tp, most_groups=most)


def pose(cluster: ResolvedCluster, ask: Ask, engine: str) -> Posed | None:
    """The numbers of all classes that `engine` serves the model on; None where there are none."""
    able = [c for c in cluster.classes if why_unsupported(c.device, engine, ask.precisions, ask.moe) is None]
    kinds = {c.id: _degrees(c, ask, engine) for c in able}
    classes = tuple(c for c in able if kinds[c.id])
    if not classes:
        return None
    models = tuple(CostModel(ask.card, c, engine, ask.precisions, ask.calibration) for c in classes)
    budget = min(default_tokens_per_step(engine, c.device.memory_gb * 1e9) for c in classes)
    memory = [
        _memory(m, np.array(kinds[m.node_class.id]), engine, budget, Mix.of(ask.workload)) for m in models
    ]
    mix = Mix.of(ask.workload)
    problem = PipelineProblem(
        layers=len(ask.card.stack),
        kinds=[Kind(c.id, tp) for c in classes for tp in kinds[c.id]],
        nodes={c.id: Nodes(c.node_count, c.gpus_per_node, c.price_usd_per_hour or 0.0) for c in classes},
        points=[],
        free_bytes=np.concatenate([m.free for m in memory]),
        layer_bytes=np.concatenate([m.layer for m in memory]),
        cache_bytes=np.concatenate([m.cache for m in memory]),
        spread=_spread(mix, engine in RESERVING),
        steps=max(mix.steps, 1.0),
        most_round_s=ask.promise.tpot_s,
        objective="cost" if ask.objective == "cost" else "throughput",
        demand=ask.workload.rate_rps,
    )
    posed = Posed(problem, ask, classes, models, budget, cluster.links)
    deepest = min(MOST_STAGES, int(problem.stock.sum()), problem.layers)
    grid = [(s, b) for s in range(1, deepest + 1) for b in BATCHES if b >= s]
    return replace(posed, problem=replace(problem, points=points(posed, grid)))


def _degrees(node: NodeClass, ask: Ask, engine: str) -> list[int]:
    """The tp that stages on `node` may have."""
    most = min(node.gpus_per_node, node.scale_up_gpus)
    usual = usual_sizes(np.arange(1, most + 1), node.gpus_per_node)
    return [
        tp
        for tp in range(1, most + 1)
        if usual[tp - 1]
        and why_not_tp(ask.card, engine, tp, ask.precisions) is None
        and why_not_together(ask.card, engine, tp, 1, tp, 1) is None
        and why_not_moe(ask.card, tp, 1, ask.precisions) is None
    ]


@dataclass(frozen=True)
class _Bytes:
    """Of one GPU: `free` (kinds, roles) for layers and their cache, `layer` and `cache` (kinds,) of one."""

    free: Floats
    layer: Floats
    cache: Floats


def _memory(model: CostModel, tp: Ints, engine: str, budget: int, mix: Mix) -> _Bytes:
    """Room as a line in the number of layers, from a wide and a narrow middle stage."""
    card, used, whole = model.card, model.precisions, len(model.card.stack)
    quarter = max(1, whole // 4)
    wide = [(0, 0), (0, whole), (whole, whole)]
    narrow = [(0, quarter), (quarter, whole - quarter), (whole - quarter, whole)]
    three, own = _designs(tp, 3), device_bytes(model.node_class.device)
    one = room_by_stage(card, own, _designs(tp, 1), used, engine, budget).kv_bytes[:, 0]
    left = [room_by_stage(card, own, three, used, engine, budget, layers=x).kv_bytes for x in (wide, narrow)]
    layer = (left[1][:, 1] - left[0][:, 1]) / (2 * quarter)
    free = np.empty((len(tp), 4))
    free[:, pipeline.FIRST] = left[1][:, 0] + quarter * layer
    free[:, pipeline.MIDDLE] = left[0][:, 1] + whole * layer
    free[:, pipeline.LAST] = left[1][:, 2] + quarter * layer
    free[:, pipeline.ALONE] = one + whole * layer
    tokens = mix.new + (mix.held if engine in RESERVING else mix.osl / 2)
    weight = mix.share * np.maximum(mix.osl - 1, 1e-9)
    held = kv_bytes_per_seq(card, _designs(tp, 1), used, tokens) @ (weight / weight.sum())
    return _Bytes(free, layer, held / whole)


def _spread(mix: Mix, reserves: bool) -> float:
    """Standard deviation of what a sequence holds over its mean: room kept as in a closed loop."""
    weight = mix.share * np.maximum(mix.osl - 1, 1e-9)
    weight = weight / weight.sum()
    held = mix.new + (mix.held if reserves else mix.osl / 2)
    mean = held @ weight
    square = (held**2 * (1 + (mix.osl / (mix.new + mix.osl)) ** 2 / 12)) @ weight
    return float(np.sqrt(max(square - mean**2, 0.0)) / mean)


def points(posed: Posed, grid: Sequence[tuple[int, int]]) -> list[Point]:
    """A point for each (stages, sequences) of `grid` whose micro-batches keep the token budget."""
    mix = posed.mix
    most = posed.token_budget / (1 + mix.prompt / max(mix.steps, 1.0))  # sequences a micro-batch
    pairs = sorted({(s, b) for s, b in grid if b <= s * most})
    if not pairs:
        return []
    stages, batch = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    per_class = [_times(posed, at, stages, batch) for at in range(len(posed.classes))]
    layer, extra, fixed = (np.concatenate([t[i] for t in per_class]) for i in range(3))
    hops, far = _hops(posed, stages, batch)
    return [
        Point(int(s), float(b), layer[:, x], extra[:, x], fixed[:, x], hops[:, :, x], far[:, x])
        for x, (s, b) in enumerate(pairs)
    ]


def _times(posed: Posed, at: int, stages: Ints, batch: Ints) -> tuple[Floats, Floats, Floats]:
    """Of class `at`: layer_s (kinds, points), extra_s (kinds, points, roles), round_s (kinds, points)."""
    step, head = _layer_steps(posed, at, stages, batch)
    model, mix = posed.models[at], posed.mix
    own = prefill_s(step, mix.new[None, :], mix.isl[None, :]) @ mix.share
    shape = (len(own) // len(stages), len(stages))
    prompts = batch / max(mix.steps, 1.0)
    layer = (step.t0_s.reshape(shape) + prompts * own.reshape(shape)) / stages
    extra = np.zeros((*shape, 4))
    extra[:, :, [pipeline.LAST, pipeline.ALONE]] = head.reshape(shape)[:, :, None]
    lumps = prompts * mix.prompt / _chunk(posed, stages, batch)
    engine = stages * model.tuning.step_s + batch * model.tuning.sequence_s
    engine = engine + lumps * model.tuning.prompt_layer_s * len(model.card.stack)
    return layer, extra, np.broadcast_to(engine, shape)


def _layer_steps(posed: Posed, at: int, stages: Ints, batch: Ints) -> tuple[StepTimes, Floats]:
    """Of a mean layer on class `at`, (kinds * points,): a round's seconds without prompts as `t0_s` and what
    prompts add; and the LM head's seconds a micro-batch."""
    model, mix = posed.models[at], posed.mix
    tp = np.array([k.gpus for k in posed.problem.kinds if k.group == posed.classes[at].id])
    many = np.tile(stages, len(tp))
    designs = replace(_designs(np.repeat(tp, len(stages)), 1), pp=many)
    b = np.tile(batch, len(tp)) / many
    ctx, new = np.full(len(b), max(mix.context, 1.0)), np.tile(_chunk(posed, stages, batch), len(tp))
    none = np.zeros(len(b))

    def round_s(tokens: Floats, keys: Floats) -> Floats:
        load = Load(b, ctx, tokens / many, keys)
        every = [model.layers.layer_s(kind, load, designs) for kind in model.kinds]
        return many * (np.stack(every, axis=1) @ _shares(model))

    here, alone, meeting = round_s(none, none), round_s(new, none), round_s(new, ctx / 2)
    per_pair = np.maximum((meeting - alone) / (new * ctx / 2), 0.0)
    per_token = np.maximum((meeting - here) / new - per_pair * ctx / 2, 0.0)
    step = StepTimes(here, per_token, per_pair, none, none, many.astype(np.float64))
    return step, model.layers.head_s(b, designs)


def _chunk(posed: Posed, stages: Ints, batch: Ints) -> Floats:
    """Prompt tokens of a round that has any, as `points.Setup.chunk`; each micro-batch has a budget."""
    mix = posed.mix
    steady = batch * mix.prompt / max(mix.steps, 1e-9)
    return np.asarray(np.minimum(np.maximum(mix.prompt, steady), float(posed.token_budget) * stages))


def _shares(model: CostModel) -> Floats:
    """Of all layers, those of each kind."""
    kinds, seen = model.card.kinds
    return np.asarray(np.bincount(np.asarray(seen), minlength=len(kinds)) / len(seen))


def _hops(posed: Posed, stages: Ints, batch: Ints) -> tuple[Floats, Floats]:
    """Seconds of a micro-batch, its prompts' share in it, between classes (g, g, points) and between nodes of
    one class (g, points); infinite where nothing joins two classes."""
    mix = posed.mix
    tokens = batch * (1 + mix.prompt / max(mix.steps, 1.0)) / stages
    message = ACTIVATION_BYTES * posed.ask.card.hidden * tokens
    one = np.ones(len(stages), dtype=np.int64)
    near = [m.links.hop_s(message, one) for m in posed.models]
    over = [m.links.hop_s(message, one * (m.links.domain + 1)) for m in posed.models]
    joined = [near[g] if c.scale_up_gpus >= c.gpus else over[g] for g, c in enumerate(posed.classes)]
    hop = np.empty((len(near), len(near), len(stages)))
    for g, a in enumerate(posed.classes):
        for h, b in enumerate(posed.classes):
            hop[g, h] = (
                near[g] if g == h else _between(a, b, posed.links, message) + np.maximum(over[g], over[h])
            )
    return hop, np.array(joined)


def _between(a: NodeClass, b: NodeClass, links: Sequence[ClusterLink], message: Floats) -> Floats:
    """What a declared link adds to the NICs' own seconds; infinite between zones that none joins."""
    for link in links:
        if set(link.between) in ({a.zone, b.zone}, {a.id, b.id}, {a.id, b.zone}, {a.zone, b.id}):
            return link.latency_s + message / link.bytes_per_s
    return np.zeros_like(message) if a.zone == b.zone else np.full_like(message, np.inf)


def _designs(tp: Ints, pp: int) -> Designs:
    one = np.ones(len(tp), dtype=np.int64)
    return Designs(tp.astype(np.int64), one * pp, one, tp.astype(np.int64), one)


def _near(sequences: float) -> list[int]:
    """Batches around one, at most 64 of them."""
    low, high = max(1, int(sequences * (1 - NEAR))), int(sequences * (1 + NEAR)) + 1
    return list(range(low, high + 1, max(1, (high - low) // 64)))


def _replica(posed: Posed, found: Pipeline) -> Replica:
    """In the domain's words, with the times that the queueing formulas give at its rate."""
    kinds, start, stages = posed.problem.kinds, 0, []
    for k, n in found.stages:
        stages.append(Stage(kinds[k].group, kinds[k].gpus, (start, start + n)))
        start += n
    step = step_times(posed, found)
    times = _estimate(posed, step, found.rate)
    tpot = float(times.tpot_s[0] @ posed.mix.share)
    ttft = tuple(float(x) for x in times.ttft_s[0])
    return Replica(tuple(stages), found.count, round(found.sequences), found.rate, tpot, ttft, step)


def step_times(posed: Posed, found: Pipeline) -> StepTimes:
    """The linear step of a mixed replica at its operating point, fields of shape (1,): prompts add what the
    busiest stage takes for them; sequences count in `t0_s`."""
    p, mix = posed.problem, posed.mix
    point = p.points[found.point]
    stages, batch = np.array([point.stages]), np.array([round(point.sequences)])
    last = len(found.stages) - 1
    alone = pipeline.ALONE if last == 0 else pipeline.LAST
    seconds = [
        n * point.layer_s[k] + (point.extra_s[k, alone] if j == last else 0.0)
        for j, (k, n) in enumerate(found.stages)
    ]
    busiest = int(np.argmax(seconds))
    k, n = found.stages[busiest]
    at = int(p.group_of[k])
    same = [x for x in range(len(p.kinds)) if p.group_of[x] == at].index(k)
    layer, _ = _layer_steps(posed, at, stages, batch)
    own = prefill_s(layer, mix.new[None, :], mix.isl[None, :]) @ mix.share
    per_token = n * layer.prefill_s_per_token[[same]]
    per_pair = n * layer.prefill_s_per_pair[[same]]
    t0 = np.array([found.round_s]) - n * found.sequences / max(mix.steps, 1.0) * own[[same]]
    none = np.zeros(1)
    return StepTimes(t0, per_token, per_pair, none, none, np.array([float(len(found.stages))]))


def _estimate(posed: Posed, step: StepTimes, rate: float) -> Estimate:
    """Times of a mixed replica at `rate` requests/s."""
    m, promise = posed.mix, posed.ask.promise
    budget = posed.token_budget * step.stages
    rates = rate * m.share[None, :]
    e = estimate(step, m.new, m.isl, m.osl, rates, budget, promise.percentile, promise.loop)
    return replace(e, ttft_s=e.ttft_s + posed.models[0].tuning.request_s)

"""Which replicas of unlike stages are worth a column: stages that differ in device, tp and layers.

A kind of stage is (node class, tp), attn_dp = ep = 1; a point is a number of stages S with B sequences in
flight. In a round of S micro-batches B sequences get a token each and, in the steady state, B / E[osl - 1]
prompts pass; so a layer takes, for one micro-batch,

    layer_s = decode of B/S sequences + B / (S * E[osl - 1]) * (seconds of a request's prompts in a round)

with the prompts' slopes as `CostModel.step_times` has them. Memory by role (first: embedding, last: LM head
and sampling) is read off `room_by_stage` for two splits of the layers, as a line in their number.
`solvers.pipeline` then knows every pipeline of the space: the order of its classes, its layers, and what it
serves at its best point. Those that mix classes are ranked by what they lose against the duals of the
relaxation over all of them, and the best SHORTLIST become designs of an `UnequalModel`: their operating
points, batches and times are those of any other candidate.

Space: one engine in all stages, the smallest token budget of their classes, tp inside a node and of its
usual sizes, up to MOST_STAGES stages on three classes (less where RANKED are too few), BATCHES. Only TPOT
counts here. Room for prompts that are not through yet is left out: less than one sequence. Assumes that
layers are alike: where a model mixes kinds, each counts as their mean (a stage's seconds are off by 0 to
1.3 % for gemma-3 and gpt-oss, by 6 % where DeepSeek-V3's dense layers are); designs are then timed by the
layers they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass, declared_link
from planner.candidates.ask import Ask, Freedom, usual_sizes
from planner.candidates.candidate import Key
from planner.candidates.made import Made
from planner.candidates.mix import Mix
from planner.cost.attention import Load
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.memory import kv_bytes_per_seq, room_by_stage
from planner.cost.model import CostModel
from planner.cost.queueing import prefill_s
from planner.cost.reserve import counted_tokens_per_step, device_bytes
from planner.cost.shape import Floats, Ints, Stage, Staging, StepTimes, designs_of, like
from planner.cost.unequal import UnequalModel
from planner.engines import named
from planner.operating.steps import carried
from planner.replicas.kind import Space
from planner.rules.designs import why_not_moe, why_not_together, why_not_tp
from solvers import pipeline
from solvers.pipeline_types import ALONE, FIRST, LAST, MIDDLE, Kind, Nodes, Pipeline, PipelineProblem, Point

MOST_STAGES = 8
"""Stages of one replica: more add hops and bubbles, and what they gain in memory a wider tp gives too."""

BATCHES = tuple(sorted({round(2 ** (i / 2)) for i in range(21)}))
"""Sequences in flight at which pipelines are compared."""

RANKED = 3000
"""Pipelines that are ranked; where there are more, spaces of fewer classes and stages are, SPACES in turn."""

SPACES = ((3, MOST_STAGES), (2, MOST_STAGES), (2, 4))
"""Classes and stages of one replica."""

SHORTLIST = 64
"""Stagings that become designs."""


@dataclass(frozen=True)
class Shortlist:
    """The most promising stagings on `classes`, best first, and how many were ranked."""

    classes: tuple[NodeClass, ...]
    stagings: tuple[Staging, ...]
    ranked: int


@dataclass(frozen=True)
class Posed:
    """The numbers of one engine on a cluster, and what they were made from."""

    problem: PipelineProblem
    ask: Ask
    classes: tuple[NodeClass, ...]
    models: tuple[CostModel, ...]
    token_budget: int
    links: tuple[ClusterLink, ...]

    @property
    def mix(self) -> Mix:
        return Mix.of(self.ask.workload)


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each engine whose replicas may stand on several of the classes, of its shortlist."""
    ask, links = space.ask, space.links
    for engine in ask.mixing if len(space.classes) > 1 and not ask.offload else ():
        few = shortlist(space.able(engine), links, ask, engine)
        if few.stagings:
            used = ask.precisions
            model = UnequalModel(ask.card, few.classes, links, few.stagings, engine, used, ask.calibration)
            s = ask.setup(model, designs_of(few.stagings), few.classes)
            key = Key("", engine, kind)
            yield replace(Made.of(key, s, None, ("mixed",)), considered=few.ranked)


def shortlist(classes: Sequence[NodeClass], links: Sequence[ClusterLink], ask: Ask, engine: str) -> Shortlist:
    """The most promising of all replicas that `engine` could run over several of `classes`."""
    may = ask.may(engine)
    posed = None if may is None or len(classes) < 2 else pose(classes, links, ask, engine, may)
    if posed is None:
        return Shortlist((), (), 0)
    problem = posed.problem
    for most_groups, stages in SPACES:
        points = [point for point in problem.points if point.stages <= stages]
        small = replace(problem, points=points, most_groups=min(most_groups, problem.most_groups))
        if pipeline.every(small, RANKED) is not None:
            break
    best, ranked = pipeline.shortlist(small, SHORTLIST)
    if not ranked:  # which would be the quickest, and whether the model fits at all, still has to be told
        best, ranked = pipeline.shortlist(replace(small, most_round_s=np.inf), SHORTLIST)
    return Shortlist(posed.classes, tuple(_staging(posed.problem, x) for x in best), ranked)


def _staging(p: PipelineProblem, found: Pipeline) -> Staging:
    """The stages of a pipeline in the domain's words."""
    start, stages = 0, []
    for k, n in found.stages:
        stages.append(Stage(p.kinds[k].group, p.kinds[k].gpus, (start, start + n)))
        start += n
    return tuple(stages)


def pose(
    classes: Sequence[NodeClass], links: Sequence[ClusterLink], ask: Ask, engine: str, may: Freedom
) -> Posed | None:
    """The numbers of all classes on which `engine` has a tp; None where those are fewer than two."""
    kinds = {c.id: degrees(c, ask, engine) for c in classes}
    classes = tuple(c for c in classes if kinds[c.id])
    if len(classes) < 2:
        return None
    models = tuple(CostModel(ask.card, c, engine, ask.precisions, ask.calibration) for c in classes)
    budget = counted_tokens_per_step(engine, (c.device for c in classes))
    memory = [
        memory_lines(m, np.array(kinds[m.node_class.id]), engine, budget, Mix.of(ask.workload))
        for m in models
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
        spread=_spread(mix, named(engine).admits_whole),
        steps=max(mix.steps, 1.0),
        most_round_s=ask.promise.tpot_s,
        objective="cost" if ask.objective.spends == "usd_per_hour" else "throughput",
        demand=ask.workload.rate_rps,
        even=not may.layers,
        alike=not may.tp,
        most_groups=min(may.classes, len(classes)),
    )
    posed = Posed(problem, ask, tuple(classes), models, budget, tuple(links))
    deepest = min(MOST_STAGES, int(problem.stock.sum()), problem.layers)
    grid = [(s, b) for s in range(1, deepest + 1) for b in BATCHES if b >= s]
    return replace(posed, problem=replace(problem, points=points(posed, grid)))


def degrees(node: NodeClass, ask: Ask, engine: str) -> list[int]:
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
class Bytes:
    """Bytes of one GPU: `free` (kinds, roles) for layers and their cache, `layer` and `cache` (kinds,) of
    one."""

    free: Floats
    layer: Floats
    cache: Floats


def memory_lines(model: CostModel, tp: Ints, engine: str, budget: int, mix: Mix) -> Bytes:
    """Room as a line in the number of layers, from a wide and a narrow middle stage."""
    card, used, whole = model.card, model.precisions, len(model.card.stack)
    quarter = max(1, whole // 4)
    wide = [(0, 0), (0, whole), (whole, whole)]
    narrow = [(0, quarter), (quarter, whole - quarter), (whole - quarter, whole)]
    three, own = like(len(tp), tp, 3), device_bytes(model.node_class.device)
    one = room_by_stage(card, own, like(len(tp), tp), used, engine, budget).kv_bytes[:, 0]
    left = [room_by_stage(card, own, three, used, engine, budget, layers=x).kv_bytes for x in (wide, narrow)]
    layer = (left[1][:, 1] - left[0][:, 1]) / (2 * quarter)
    free = np.empty((len(tp), 4))
    free[:, FIRST] = left[1][:, 0] + quarter * layer
    free[:, MIDDLE] = left[0][:, 1] + whole * layer
    free[:, LAST] = left[1][:, 2] + quarter * layer
    free[:, ALONE] = one + whole * layer
    tokens = mix.own + (mix.held if named(engine).admits_whole else mix.osl / 2)
    weight = mix.share * np.maximum(mix.osl - 1, 1e-9)
    held = kv_bytes_per_seq(card, like(len(tp), tp), used, tokens) @ (weight / weight.sum())
    return Bytes(free, layer, held / whole)


def _spread(mix: Mix, reserves: bool) -> float:
    """Standard deviation of what a sequence holds over its mean: room kept as in a closed loop."""
    weight = mix.share * np.maximum(mix.osl - 1, 1e-9)
    weight = weight / weight.sum()
    held = mix.own + (mix.held if reserves else mix.osl / 2)
    mean = held @ weight
    square = (held**2 * (1 + (mix.osl / (mix.own + mix.osl)) ** 2 / 12)) @ weight
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
    """Seconds on class `at`: layer_s (kinds, points), extra_s (kinds, points, roles), round_s (kinds,
    points)."""
    step, head = _layer_steps(posed, at, stages, batch)
    model, mix = posed.models[at], posed.mix
    own = prefill_s(step, mix.new[None, :], mix.isl[None, :]) @ mix.share
    shape = (len(own) // len(stages), len(stages))
    prompts = batch / max(mix.steps, 1.0)
    layer = (step.t0_s.reshape(shape) + prompts * own.reshape(shape)) / stages
    extra = np.zeros((*shape, 4))
    extra[:, :, [LAST, ALONE]] = head.reshape(shape)[:, :, None]
    lumps = prompts * mix.prompt / _chunk(posed, stages, batch)
    engine = stages * model.tuning.step_s + batch * model.tuning.sequence_s
    engine = engine + lumps * model.launching_s
    return layer, extra, np.broadcast_to(engine, shape)


def _layer_steps(posed: Posed, at: int, stages: Ints, batch: Ints) -> tuple[StepTimes, Floats]:
    """Steps of a mean layer on class `at`, (kinds * points,): a round's seconds without prompts as `t0_s` and
    what prompts add; and the LM head's seconds a micro-batch."""
    model, mix = posed.models[at], posed.mix
    tp = np.array([k.gpus for k in posed.problem.kinds if k.group == posed.classes[at].id])
    many = np.tile(stages, len(tp))
    designs = like(len(many), np.repeat(tp, len(stages)), many)
    b = np.tile(batch, len(tp)) / many
    ctx, new = np.full(len(b), max(mix.context, 1.0)), np.tile(_chunk(posed, stages, batch), len(tp))
    none = np.zeros(len(b))

    def round_s(tokens: Floats, keys: Floats) -> Floats:
        load = Load(b, ctx, tokens / many, keys)
        return many * model.mean_layer_s(load, designs)

    here, alone, meeting = round_s(none, none), round_s(new, none), round_s(new, ctx / 2)
    per_pair = np.maximum((meeting - alone) / (new * ctx / 2), 0.0)
    per_token = np.maximum((meeting - here) / new - per_pair * ctx / 2, 0.0)
    step = StepTimes(here, per_token, per_pair, none, none, many.astype(np.float64))
    return step, model.layers.head_s(b, designs)


def _chunk(posed: Posed, stages: Ints, batch: Ints) -> Floats:
    """Prompt tokens of a round that has any: each stage's micro-batch carries some (`operating/steps.py`)."""
    mix = posed.mix
    prompts = batch / max(mix.steps, 1.0) / stages
    return np.asarray(stages * carried(mix.prompt, prompts, float(posed.token_budget)))


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
    if link := declared_link(links, a, b):
        return link.latency_s + message / link.bytes_per_s
    return np.zeros_like(message) if a.zone == b.zone else np.full_like(message, np.inf)

"""Stages as the pipeline program knows them: seconds by batch and depth, bytes of layers, hops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass, declared_link
from planner.candidates.ask import Ask
from planner.candidates.mix import Mix
from planner.cost.attention import Load
from planner.cost.launches import hidden
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.memory import kv_bytes_per_seq, room_by_stage
from planner.cost.model import CostModel
from planner.cost.reserve import device_bytes
from planner.designs.shape import Floats, Ints, StepTimes, like
from planner.engines import named
from planner.operating.steps import carried
from planner.queueing import prefill_s
from solvers.pipeline.types import ALONE, FIRST, LAST, MIDDLE, PipelineProblem, Point

BATCHES = tuple(sorted({round(2 ** (i / 2)) for i in range(21)}))
"""Sequences in flight at which pipelines are compared."""


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
    held = kv_bytes_per_seq(card, like(len(tp), tp), used, engine, tokens) @ (weight / weight.sum())
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
    chunk = _chunk(posed, stages, batch)
    met = step.t0_s.reshape(shape) + chunk / mix.prompt * own.reshape(shape)
    kernels = len(model.card.stack) * met / stages  # of a round with prompts, all stages of this kind
    launching_s = model.launching(Load.of(0.0, 0.0, chunk), like(len(stages), 1, stages))
    launched = prompts * mix.prompt / chunk * (hidden(kernels, launching_s) - kernels)
    engine = stages * model.tuning.step_s + batch * model.tuning.sequence_s
    return layer, extra, engine + np.maximum(launched, 0.0)


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
    one class (g, points); infinite where nothing joins two classes. Messages in parts are in as many as the
    widest stages that both classes may have."""
    mix = posed.mix
    tokens = batch * (1 + mix.prompt / max(mix.steps, 1.0)) / stages
    message = ACTIVATION_BYTES * posed.ask.card.hidden * tokens
    one = np.ones(len(stages), dtype=np.int64)
    near = [m.links.hop_s(message, one) for m in posed.models]
    tps = [{k.gpus for k in posed.problem.kinds if k.group == c.id} for c in posed.classes]
    hop, far = np.empty((len(near), len(near), len(stages))), np.empty((len(near), len(stages)))
    for g, a in enumerate(posed.classes):
        for h, b in enumerate(posed.classes):
            shared = posed.models[g].shares_hops
            parts = one * max(tps[g] & tps[h], default=1) if shared else one
            nics = np.maximum(*(posed.models[x].links.far_s(message, parts) for x in (g, h)))
            if g == h:
                hop[g, g], far[g] = near[g], near[g] if a.scale_up_gpus >= a.gpus else nics
            else:
                hop[g, h] = _between(a, b, posed.links, message) + nics
    return hop, far


def _between(a: NodeClass, b: NodeClass, links: Sequence[ClusterLink], message: Floats) -> Floats:
    """What a declared link adds to the NICs' own seconds; infinite between zones that none joins."""
    if link := declared_link(links, a, b):
        return link.latency_s + message / link.bytes_per_s
    return np.zeros_like(message) if a.zone == b.zone else np.full_like(message, np.inf)

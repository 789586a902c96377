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

from cluster_configs.schema import ClusterLink, NodeClass
from planner.candidates.ask import Ask, Freedom, usual_sizes
from planner.candidates.candidate import Key
from planner.candidates.mix import Mix
from planner.candidates.setup import Made
from planner.cost.model import CostModel
from planner.cost.reserve import counted_tokens_per_step
from planner.cost.unequal import UnequalModel
from planner.designs.shape import Stage, Staging, designs_of
from planner.engines import named
from planner.replicas.kind import Space
from planner.replicas.stage_points import BATCHES, Posed, _spread, memory_lines, points
from planner.rules.designs import why_not_moe, why_not_together, why_not_tp
from solvers import pipeline
from solvers.pipeline.types import Kind, Nodes, Pipeline, PipelineProblem

MOST_STAGES = 8
"""Stages of one replica: more add hops and bubbles, and what they gain in memory a wider tp gives too."""


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
    mix = Mix.of(ask.workload)
    memory = [memory_lines(m, np.array(kinds[m.node_class.id]), engine, budget, mix) for m in models]
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

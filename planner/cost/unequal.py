"""Seconds, watts and memory of replicas whose stages differ in device, tp and layers: the cost model of each
class, stage by stage.

A **staging** is the stages of one replica in order; a design names one by its index. All that is said of a
step in `CostModel` holds, with each stage timed by the model of its class. Between two stages an activation
takes the link that joins them: the scale-up links where both stand in one node, else the NICs, and a declared
link between zones or classes; a token's id goes from the last stage back to the first. Stages of a class fill
its nodes in order. The engine's own seconds are those of the slowest host.

Stages have no attention-dp and ep = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import declared_link
from planner.cost.attention import Load
from planner.cost.memory import Memory, kv_bytes_by_stage
from planner.cost.model import CostModel
from planner.cost.reserve import Sequences, taken
from planner.cost.several import SeveralClasses
from planner.designs.shape import Designs, Floats, Ints, Stage, Staging, like, which
from planner.engines import named

PerLayer = Callable[[CostModel, Load, Designs], Floats]
"""A quantity of the layers of one class, such as their seconds, under a load: (designs, kinds of layer)."""


LARGE = 1e6
"""Bytes at which the line of a hop's seconds is read."""


class UnequalModel(SeveralClasses):
    """What a model takes in each of `stagings` on several node classes; designs come from `designs_of`."""

    @cached_property
    def stage_kinds(self) -> list[tuple[str, int]]:
        """Class and tp of every stage, once each."""
        return sorted({(s.node_class, s.tp) for staging in self.stagings for s in staging})

    @cached_property
    def bounds(self) -> Ints:
        """Layer ranges of every staging, (m, stages, 2)."""
        bounds = np.zeros((*self.kind_of.shape, 2), dtype=np.int64)
        for own, staging in zip(bounds, self.stagings, strict=True):
            own[: len(staging)] = [s.layers for s in staging]
        return bounds

    @cached_property
    def counts(self) -> Floats:
        """Layers by kind of every staging, (m, stages, kinds)."""
        kinds, seen = self.card.kinds
        before = np.zeros((len(seen) + 1, len(kinds)))
        np.cumsum(np.eye(len(kinds))[list(seen)], axis=0, out=before[1:])
        return np.asarray(before[self.bounds[..., 1]] - before[self.bounds[..., 0]])

    @cached_property
    def kind_of(self) -> Ints:
        """Index of each stage's kind, -1 beyond the last, (m, stages)."""
        deepest = max((len(staging) for staging in self.stagings), default=1)
        kind_of = np.full((len(self.stagings), deepest), -1, dtype=np.int64)
        for own, staging in zip(kind_of, self.stagings, strict=True):
            own[: len(staging)] = [self.stage_kinds.index((s.node_class, s.tp)) for s in staging]
        return kind_of

    @cached_property
    def _hop_lines(self) -> Floats:
        """Seconds from the first stage through all to the first again, as a line in the bytes of a
        micro-batch: at 0, a byte's; and a byte's on the slowest hop, which is as a stage among the others;
        (3, m)."""
        lines = np.zeros((3, len(self.stagings)))
        for i, staging in enumerate(self.stagings):
            if len(staging) == 1:
                continue
            placed = list(zip(staging, self._nodes(staging), strict=True))
            ways = list(pairwise(placed))
            start = np.array([self._hop(*a, *b, 0.0) for a, b in ways])
            each = (np.array([self._hop(*a, *b, LARGE) for a, b in ways]) - start) / LARGE
            back = self._hop(*placed[-1], *placed[0], 0.0, whole=True)
            host = len(ways) * named(self.engine).hop_s
            lines[:, i] = start.sum() + back + host, each.sum(), each.max()
        return lines

    def _nodes(self, staging: Staging) -> list[int]:
        """Which node of its class each stage stands in, or which scale-up domain of several nodes: filled in
        order, no stage in two."""
        at: dict[str, tuple[int, int]] = {}
        nodes = []
        for stage in staging:
            one = self.of_class[stage.node_class].node_class
            room = max(one.gpus_per_node, one.scale_up_gpus)
            node, used = at.get(stage.node_class, (0, 0))
            if used and used + stage.tp > room:
                node, used = node + 1, 0
            at[stage.node_class] = node, used + stage.tp
            nodes.append(node)
        return nodes

    def watts(self, designs: Designs, load: Load, utilisation: Floats | float) -> Floats:
        """Watts of a replica, shape (n,): each stage by its own device."""
        load = self._spread(designs, load)
        step = np.maximum(self._round_s(designs, load), 1e-9)
        busy = np.broadcast_to(utilisation, step.shape)
        compute, memory = (self._by_stage(designs, load, part) for part in (_compute_s, _memory_s))
        total = np.zeros(len(designs))
        for x, (g, tp) in enumerate(self.stage_kinds):
            m, here = self.of_class[g], self.kind_of[which(designs)] == x
            for j in np.flatnonzero(here.any(axis=0)):
                shares = (compute[:, j] / step, memory[:, j] / step)
                total += np.where(here[:, j], tp * m.gpu_watts(busy, *shares), 0.0)
        return total

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of every stage, by the device it stands on: shape (n, stages)."""
        staging = which(designs)
        parts = np.zeros((5, len(designs), self.kind_of.shape[1]))
        parts[4] = np.inf
        for rows, here, (g, tp) in self._kinds(staging):
            at, bounds = like(len(rows), tp, designs.pp[rows]), self.bounds[staging[rows]]
            m = self.of_class[g].room(at, tokens_per_step, taken(sequences, rows), bounds)
            parts[:, rows] = np.where(here, m.parts, parts[:, rows])
        return Memory.by_stage(parts)

    def _held(self, designs: Designs, tokens: Floats) -> Floats:
        """Bytes of cache of one sequence of `tokens` (n, w) on one GPU of each stage: (n, w, stages)."""
        staging = which(designs)
        held = np.zeros((*tokens.shape, self.kind_of.shape[1]))
        for rows, here, (_, tp) in self._kinds(staging):
            at, bounds = like(len(rows), tp, designs.pp[rows]), self.bounds[staging[rows]]
            every = kv_bytes_by_stage(self.card, at, self.precisions, self.engine, tokens[rows], bounds)
            held[rows] = np.where(here[:, None, :], every, held[rows])
        return held

    def _stages_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        seconds = self._by_stage(designs, load, CostModel.layers_s, _head_s)
        sending = self._hop_lines[2, which(designs)] * self._message(load)
        return np.maximum(seconds.max(axis=1), sending), seconds.sum(axis=1)

    def hops_s(self, designs: Designs, load: Load) -> Floats:
        start, each, _ = self._hop_lines[:, which(designs)]
        return np.asarray(start + each * self._message(load))

    def _busy_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        of_flops = partial(_compute_s, reached=reached)
        compute, memory = (self._by_stage(designs, load, part).max(axis=1) for part in (of_flops, _memory_s))
        return compute, memory

    def _by_stage(
        self, designs: Designs, load: Load, per_layer: PerLayer, head: PerLayer | None = None
    ) -> Floats:
        """Sum over the layers of each stage, and `head` on the last: (n, stages), 0 where there is none."""
        staging = which(designs)
        total = np.zeros((len(designs), self.kind_of.shape[1]))
        for rows, here, (g, tp) in self._kinds(staging):
            model, own, at = self.of_class[g], load.take(rows), like(len(rows), tp, designs.pp[rows])
            s = np.einsum("rsk,rk->rs", self.counts[staging[rows]], per_layer(model, own, at))
            if head is not None:
                last = np.arange(s.shape[1])[None, :] == designs.pp[rows][:, None] - 1
                s = s + np.where(last, head(model, own, at), 0.0)
            total[rows] += np.where(here, s, 0.0)
        return total

    def _kinds(self, staging: Ints) -> list[tuple[Ints, NDArray[np.bool_], tuple[str, int]]]:
        """For every kind of stage: the rows that have it, where in them (rows, stages), and the kind."""
        found = []
        for x, kind in enumerate(self.stage_kinds):
            here = self.kind_of[staging] == x
            rows = np.flatnonzero(here.any(axis=1))
            if len(rows):
                found.append((rows, here[rows], kind))
        return found

    def _hop(self, a: Stage, at: int, b: Stage, to: int, message: float, whole: bool = False) -> float:
        """Seconds of a message from stage `a` in a node of its class to `b` in one of its own; `whole`: never
        in parts."""
        one, two = self.of_class[a.node_class], self.of_class[b.node_class]
        if (a.node_class, at) == (b.node_class, to):
            return float(one.links.hop_s(np.array([message]), np.ones(1, dtype=np.int64))[0])
        ranks = a.tp if one.shares_hops and a.tp == b.tp and not whole else 1
        nics = max(_over(one, message, ranks), _over(two, message, ranks))
        link = declared_link(self.cluster_links, one.node_class, two.node_class)
        if a.node_class == b.node_class or link is None:
            return nics
        return nics + link.latency_s + message / link.bytes_per_s


def _over(model: CostModel, message: float, ranks: int) -> float:
    return float(model.links.far_s(np.array([message]), np.array([ranks]))[0])


def _head_s(model: CostModel, load: Load, designs: Designs) -> Floats:
    return model.layers.head_s(load.sampled, designs)[:, None]


def _compute_s(model: CostModel, load: Load, designs: Designs, reached: bool = False) -> Floats:
    return model.at_peak_s(load, designs, reached)[0]


def _memory_s(model: CostModel, load: Load, designs: Designs) -> Floats:
    return model.at_peak_s(load, designs)[1]

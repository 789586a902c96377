"""One tensor-parallel group over GPUs of two classes, each with its own share of heads and FFN columns.

A **group** is n GPUs of one class with a share s each and m of another with t each, n s + m t = 1; shares
are whole numbers of KV heads. All GPUs take a layer's kernels at once and meet twice a layer, so

    layer   max over classes of T(s), T the layer without messages on one GPU of it
            + 2 all-reduces: inside each class over its own links, then between the two over the NICs

T(s) is linear between the integer tp on both sides of 1/s: bytes and FLOPs are proportional to the share,
fixed costs are in both ends. Memory the same way. Source: TPI-LLM (arXiv:2410.00531) and Galaxy
(arXiv:2405.17245) divide so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.bands import WIDE
from planner.cost.calibration import Calibration
from planner.cost.memory import Memory, kv_bytes_per_seq
from planner.cost.model import CostModel
from planner.cost.reserve import COLLECTIVES_BYTES, DEFAULT_SEQUENCES, Sequences
from planner.cost.several import SeveralClasses
from planner.designs.shape import Designs, Floats, Precisions, Stage, StagedDesigns, Staging, like, which


@dataclass(frozen=True)
class Shard(Stage):
    """One of the GPUs of a group, `tp` = 1, with `heads` of `of` KV heads of every layer."""

    heads: int
    of: int

    @property
    def where(self) -> str:
        return self.node_class

    @property
    def part(self) -> str:
        return f"{self.heads}/{self.of}"


def group(
    first: NodeClass, n: int, heads: int, second: NodeClass, m: int, others: int, layers: int
) -> Staging:
    """n GPUs with `heads` KV heads each, m with `others`."""
    of = n * heads + m * others
    every = (0, layers)
    return n * (Shard(first.id, 1, every, heads, of),) + m * (Shard(second.id, 1, every, others, of),)


def designs_of(groups: Sequence[Staging]) -> StagedDesigns:
    """One design a group; tp is all its GPUs."""
    sizes = np.array([len(g) for g in groups], dtype=np.int64)
    one = np.ones_like(sizes)
    which = np.arange(len(groups), dtype=np.int64)
    return StagedDesigns(sizes, one, one, sizes, one, 0 * one, one, which, sizes)


class UnevenModel(SeveralClasses):
    """What a model takes on each of `groups`."""

    def __init__(
        self,
        card: ModelCard,
        classes: Sequence[NodeClass],
        links: Sequence[ClusterLink],
        groups: Sequence[Staging],
        engine: str,
        precisions: Precisions,
        calibration: Calibration | None = None,
    ) -> None:
        super().__init__(card, classes, links, groups, engine, precisions, calibration)
        held = [set(group) for group in groups]
        every = sorted(set().union(*held), key=str)
        self._shards = [(shard, np.array([shard in own for own in held])) for shard in every]

    def sigmas(self, designs: Designs) -> Floats:
        """Wider than its classes': no run shows such a group."""
        return np.asarray(np.hypot(super().sigmas(designs), WIDE))

    def watts(self, designs: Designs, load: Load, utilisation: Floats | float) -> Floats:
        """Each GPU's as in a group of its own kind."""
        total = np.zeros(len(designs))
        for g, gpus in self.by_class(designs):
            same = like(len(designs), 1)
            total += gpus * self.of_class[g.id].watts(same, load, utilisation) * (gpus > 0)
        return total

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of every GPU: shape (n, GPUs)."""
        most = np.broadcast_to(DEFAULT_SEQUENCES if sequences is None else sequences, (len(designs),))
        own = cache(lambda shard, each: self._shard_memory(shard, tokens_per_step, each))
        rows = []
        for i, each in zip(which(designs), most.tolist(), strict=True):
            parts = [own(shard, each) for shard in self.stagings[i]]
            rows.append([[x[0, 0] for x in same] for same in zip(*(p.parts for p in parts), strict=True)])
        deepest = max((len(row[0]) for row in rows), default=1)
        filled = np.zeros((5, len(rows), deepest))
        filled[4] = np.inf
        for i, row in enumerate(rows):
            filled[:, i, : len(row[0])] = row
        return Memory.by_stage(filled)

    def _shard_memory(self, shard: Shard | Stage, tokens_per_step: int, sequences: int) -> Memory:
        model, (low, high, part) = self.of_class[shard.node_class], _between(shard)
        a, b = (model.memory_by_stage(like(1, tp), tokens_per_step, sequences) for tp in (low, high))
        weights, activation, reserve, capacity, kv = (
            (1 - part) * x + part * y for x, y in zip(a.parts, b.parts, strict=True)
        )
        buffers = (1 - part) * COLLECTIVES_BYTES if low == 1 else 0.0  # a single GPU has none
        return Memory(weights, activation, reserve + buffers, capacity, kv - buffers, a.stage)

    def _held(self, designs: Designs, tokens: Floats) -> Floats:
        held = np.zeros((*tokens.shape, int(designs.gpus.max(initial=1))))
        own = {shard: self._shard_held(shard, tokens) for shard, _ in self._shards}
        for row, i in enumerate(which(designs)):
            for at, shard in enumerate(self.stagings[i]):
                held[row, :, at] = own[shard][row]
        return held

    def _shard_held(self, shard: Stage, tokens: Floats) -> Floats:
        """Bytes of cache of one sequence of `tokens` (n, w) on a GPU: (n, w)."""
        low, high, part = _between(shard)
        at = (like(len(tokens), tp) for tp in (low, high))
        a, b = (kv_bytes_per_seq(self.card, designs, self.precisions, self.engine, tokens) for designs in at)
        return (1 - part) * a + part * b

    def _stages_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        seconds = self._slowest(designs, load, _layers_s) + self._slowest(designs, load, _head_s)
        seconds = seconds + 2 * len(self.card.stack) * self._meet_s(designs, self._message(load))
        return seconds, seconds

    def _busy_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        return self._slowest(designs, load, _compute_s), self._slowest(designs, load, _memory_s)

    def hops_s(self, designs: Designs, load: Load) -> Floats:
        return np.zeros(len(designs))

    def _slowest(
        self, designs: Designs, load: Load, part: Callable[[CostModel, Load, int], Floats]
    ) -> Floats:
        """Seconds of `part` on the slowest GPU of each group, (n,)."""
        staging, worst = which(designs), np.zeros(len(designs))
        for shard, held in self._shards:
            rows = np.flatnonzero(held[staging])
            if len(rows) == 0:
                continue
            own, (low, high, share) = load.take(rows), _between(shard)
            model = self.of_class[shard.node_class]
            seconds = (1 - share) * part(model, own, low) + share * part(model, own, high)
            worst[rows] = np.maximum(worst[rows], seconds)
        return worst

    def _meet_s(self, designs: Designs, message: Floats) -> Floats:
        """One all-reduce over the whole group."""
        near, far = np.zeros(len(designs)), np.zeros(len(designs))
        for node, gpus in self.by_class(designs):
            links, some = self.of_class[node.id].links, gpus > 0
            inside = np.minimum(np.maximum(gpus, 1), links.domain)
            near = np.maximum(near, np.where(some, links.all_reduce_s(message, inside), 0.0))
            away = links.hop_s(message, np.full(len(designs), links.domain + 1))
            far = np.maximum(far, np.where(some, 2 * away, 0.0))
        joined = [x for x in self.cluster_links if len(self._ends(x)) == 2]
        slow = sum(2 * (x.latency_s + message / x.bytes_per_s) for x in joined)
        return np.asarray(near + far + slow)

    def _ends(self, link: ClusterLink) -> set[str]:
        nodes = [m.node_class for m in self.of_class.values()]
        return {a.id for a in nodes for b in nodes if link.joins(a, b)}


def _between(shard: Stage) -> tuple[int, int, float]:
    """The tp on both sides of 1 / share, and how far the share is towards the second."""
    assert isinstance(shard, Shard)
    low, high = shard.of // shard.heads, -(-shard.of // shard.heads)
    if low == high:
        return low, high, 0.0
    return low, high, (1 / low - shard.heads / shard.of) / (1 / low - 1 / high)


def _layers_s(model: CostModel, load: Load, tp: int) -> Floats:
    """Seconds of all layers on one GPU, without messages."""
    at = like(len(load.sequences), tp)
    messages = 2 * len(model.card.stack) * model.layers.summed_s(load.rows, at.tp)
    layers = model.layers_s(load, at) @ model.layers_by_kind
    return np.asarray(np.maximum(layers - messages, 0.0))


def _head_s(model: CostModel, load: Load, tp: int) -> Floats:
    return model.layers.head_s(load.sampled, like(len(load.sequences), tp))


def _compute_s(model: CostModel, load: Load, tp: int) -> Floats:
    return _at_peak_s(model, load, tp, 0)


def _memory_s(model: CostModel, load: Load, tp: int) -> Floats:
    return _at_peak_s(model, load, tp, 1)


def _at_peak_s(model: CostModel, load: Load, tp: int, part: int) -> Floats:
    every = model.at_peak_s(load, like(len(load.sequences), tp))[part]
    return np.asarray(every @ model.layers_by_kind)

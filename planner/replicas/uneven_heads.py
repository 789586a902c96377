"""One tensor-parallel group over GPUs of two classes in a zone, each with its own share of heads and FFN
columns: every division of the KV heads among up to MOST GPUs, one share a class.

All GPUs take a layer's kernels at once and meet twice a layer:

    layer   the slowest class's T(s), T the layer without messages on a GPU with a share s of it
            + 2 all-reduces: inside each class over its own links, then between the two over the NICs

T(s) is linear between the integer tp on both sides of 1/s, as bytes and FLOPs are proportional to s and
fixed costs are in both ends; so is memory. Source: TPI-LLM (arXiv:2410.00531) and Galaxy (arXiv:2405.17245).

No engine starts such a group as it comes: vLLM's patch for it was closed unmerged (pull 50735), llama.cpp
divides rows unevenly (`--split-mode row`) but keeps the KV cache whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass, declared_link
from model_zoo.schema import Attention, ModelCard
from planner.candidates.candidate import Key
from planner.candidates.setup import Made
from planner.cost.attention import Load
from planner.cost.bands import WIDE
from planner.cost.memory import Memory, kv_bytes_per_seq
from planner.cost.model import CostModel
from planner.cost.reserve import COLLECTIVES_BYTES, Sequences, taken
from planner.cost.several import SeveralClasses
from planner.designs.shape import Designs, Floats, Ints, Stage, StagedDesigns, like, which
from planner.designs.shape import designs_of as stages_as_designs
from planner.replicas.kind import Space

MOST = 8
"""GPUs of a group."""


@dataclass(frozen=True)
class Shard(Stage):
    """The `tp` GPUs of one class in a group, each with `heads` of the `of` KV heads of every layer."""

    heads: int
    of: int

    @property
    def part(self) -> str:
        return f"{self.heads}/{self.of}"


Group = tuple[Shard, Shard]


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each engine with its groups, where tensor-parallel groups may stand on two classes."""
    ask = space.ask
    wanted = ask.freedom and ask.freedom.shares and not ask.offload
    for engine in ask.mixing if wanted else ():
        able = space.able(engine)
        if found := list(groups(able, ask.card)):
            model = UnevenModel(ask.card, able, space.links, found, engine, ask.precisions, ask.calibration)
            yield Made.of(Key("", engine, kind), ask.setup(model, designs_of(found), able), None, ("mixed",))


def groups(classes: Sequence[NodeClass], card: ModelCard) -> Iterator[Group]:
    """Every division; none where attention has no KV heads of its own to divide (MLA, recurrent layers)."""
    heads = {m.kv_heads if isinstance(m, Attention) else 0 for m in card.mixers.values()}
    if len(heads) != 1 or 0 in heads:
        return
    of, every = heads.pop(), (0, len(card.stack))
    for a, b in combinations(classes, 2):
        if a.zone != b.zone or a.device.name == b.device.name:
            continue
        sizes = (range(1, min(node.gpus_per_node, MOST - 1) + 1) for node in (a, b))
        for n, m, own in product(*sizes, range(1, of)):
            left = of - n * own
            if n + m <= MOST and left > 0 and left % m == 0:
                yield Shard(a.id, n, every, own, of), Shard(b.id, m, every, left // m, of)


def designs_of(groups: Sequence[Group]) -> StagedDesigns:
    """One design a group; tp is all its GPUs."""
    designs = stages_as_designs(groups)
    return replace(designs, tp=designs.sizes, moe_tp=designs.sizes, pp=np.ones_like(designs.pp))


class UnevenModel(SeveralClasses):
    """What a model takes on each group of `stagings`."""

    stagings: tuple[Group, ...]

    def sigmas(self, designs: Designs) -> Floats:
        """Wider than its classes': no run shows such a group."""
        return np.asarray(np.hypot(super().sigmas(designs), WIDE))

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of a GPU of each class: shape (n, 2)."""

        def parts(model: CostModel, at: Designs, rows: Ints) -> Floats:
            room = model.room(at, tokens_per_step, taken(sequences, rows))
            weights, activation, reserve, capacity, kv = room.parts
            buffers = COLLECTIVES_BYTES * (at.tp == 1)[:, None]  # which a GPU by itself has none of
            return np.hstack((weights, activation, reserve + buffers, capacity, kv - buffers))

        return Memory.by_stage(np.moveaxis(self._by_share(designs, 5, parts), 2, 0))

    def _held(self, designs: Designs, tokens: Floats) -> Floats:
        def held(model: CostModel, at: Designs, rows: Ints) -> Floats:
            return kv_bytes_per_seq(self.card, at, self.precisions, self.engine, tokens[rows])

        return self._by_share(designs, tokens.shape[1], held).swapaxes(1, 2)

    def _stages_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        def computed(model: CostModel, at: Designs, rows: Ints) -> Floats:
            own = load.take(rows)
            by_kind = [np.sum(model.layers.computed_s(kind, own, at), axis=0) for kind in self.kinds]
            layers = np.stack(by_kind, axis=1) @ self.layers_by_kind
            return np.stack([layers, model.layers.head_s(own.sampled, at)], axis=1)

        kernels = self._by_share(designs, 2, computed).max(axis=1).sum(axis=1)
        seconds = kernels + 2 * len(self.card.stack) * self._meet_s(designs, self._message(load))
        return seconds, seconds

    def _busy_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        def at_peak(model: CostModel, at: Designs, rows: Ints) -> Floats:
            both = model.at_peak_s(load.take(rows), at, reached)
            return np.stack([by_kind @ self.layers_by_kind for by_kind in both], axis=1)

        compute, memory = self._by_share(designs, 2, at_peak).max(axis=1).T
        return compute, memory

    def _by_share(
        self, designs: Designs, width: int, quantity: Callable[[CostModel, Designs, Ints], Floats]
    ) -> Floats:
        """A quantity on a GPU of each class: (n, 2, width). `quantity`: that of a class and tp for `rows` of
        the designs, (rows, width)."""
        total = np.zeros((len(designs), 2, width))
        for gpu, has in self._gpus.items():
            rows, side = np.nonzero(has[which(designs)])
            model, tp = self.of_class[gpu.node_class], gpu.of // gpu.heads
            few, more = (quantity(model, like(len(rows), degree), rows) for degree in (tp, tp + 1))
            towards = (tp + 1) * (1 - tp * gpu.heads / gpu.of)  # of the way from 1 / tp to 1 / (tp + 1)
            total[rows, side] = (1 - towards) * few + towards * more
        return total

    @cached_property
    def _gpus(self) -> dict[Shard, NDArray[np.bool_]]:
        """Which groups have such a GPU, and on which side, (groups, 2)."""
        each = [[replace(shard, tp=1) for shard in group] for group in self.stagings]
        distinct = {gpu for both in each for gpu in both}
        return {one: np.array([[gpu == one for gpu in both] for both in each]) for one in distinct}

    def _meet_s(self, designs: Designs, message: Floats) -> Floats:
        """One all-reduce over the whole group."""
        seconds = np.zeros(len(designs))
        for (a, n), (b, m) in combinations(self.by_class(designs), 2):
            ends = [(self.of_class[g.id].links, np.maximum(gpus, 1)) for g, gpus in ((a, n), (b, m))]
            inside = np.maximum(*(links.all_reduce_s(message, gpus) for links, gpus in ends))
            across = np.maximum(*(links.hop_s(message, links.domain + gpus) for links, gpus in ends))
            link = declared_link(self.cluster_links, a, b)
            if link:
                across = across + link.latency_s + message / link.bytes_per_s
            seconds = np.where((n > 0) & (m > 0), inside + 2 * across, seconds)
        return seconds

"""Replicas in one node whose weights lie partly in host memory: every placement worth a column.

For each engine that offloads (`OFFLOADS` in `planner/rules/designs.py`), each usual number of a node's
GPUs, and every number of sequences the placement with the least away from the GPUs that leaves cache for so
many. As fewer sequences never need more to be away, these are all the counts of layers that can be best: a
batch in between runs as fast on the one made for more. Routed experts leave first, being met least by a
byte; only where all of them have left and it still does not fit, whole layers do, the first ones. The split
of layers over GPUs is by `solvers.offload`. Where the engine keeps as many experts of every layer on the
GPU, all their numbers are. Where the engine streams whole layers, all the bytes that its options can name
are, each spread most evenly.

On the CPU or over PCIe is not a placement: each step takes the faster (`planner/cost/offload.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from cluster_configs.schema import NodeClass
from model_zoo.schema import MoeFfn
from planner.candidates.ask import Ask, usual_sizes
from planner.candidates.candidate import Key
from planner.candidates.mix import Mix
from planner.candidates.setup import Made, Setup
from planner.cost.host import HostStage, host_of
from planner.cost.memory import kv_bytes_by_stage
from planner.cost.offload import OffloadModel
from planner.cost.placements import Held, HostStaging
from planner.cost.reserve import counted_tokens_per_step
from planner.designs.shape import Floats, designs_of, like
from planner.replicas.kind import Space
from planner.rules.designs import OFFLOADS, why_not_moe, why_not_tp
from planner.rules.devices import why_unsupported
from solvers import offload
from solvers.offload import OffloadProblem, OffloadSolution

TOKENS_PER_STEP = 2048
"""Tokens of a step at least: experts that are copied over PCIe for a prompt are copied once a step
(`--ubatch-size`, `--chunked-prefill-size`)."""

MOST_SEQUENCES = 256
"""Sequences for which placements are made at most: beyond, cache is what counts and everything else has
left."""

STREAMED = ("nvidia", "amd")
"""Vendors whose GPUs copy weights while they compute, in streams of their own."""


def made(kind: str, space: Space) -> Iterator[Made]:
    """A setup for each class and engine that has placements, where weights may lie in host memory."""
    for node in space.classes if space.ask.offload else ():
        for engine in engines(node, space.ask):
            s = setup(node, engine, space.ask)
            if s is not None:
                yield Made.of(Key(node.id, engine, kind), s, node, ("mixed",))


def engines(node: NodeClass, ask: Ask) -> list[str]:
    """Engines that serve the model on the class with a part of it in host memory."""
    host = host_of(node, 1, 1)
    if host is None:
        return []
    able = [e for e in ask.engines if e in OFFLOADS and (ask.moe or OFFLOADS[e].layers)]
    if not host.pcie_bytes_per_s or node.device.vendor not in STREAMED:
        able = [e for e in able if not OFFLOADS[e].streams]
    return [e for e in able if why_unsupported(node.device, e, ask.precisions, ask.moe, ask.picks) is None]


def setup(node: NodeClass, engine: str, ask: Ask) -> Setup | None:
    """All placements of one engine on one class, with their memory; None where there are none."""
    stagings = [s for gpus in _sizes(node, engine, ask) for s in Placements(node, engine, ask, gpus).all()]
    if not stagings:
        return None
    model = OffloadModel(ask.card, node, stagings, engine, ask.precisions, ask.calibration)
    return ask.setup(model, designs_of(stagings), [node], TOKENS_PER_STEP)


def holds(node: NodeClass, engine: str, ask: Ask) -> bool:
    """Whether some placement has room for one sequence."""
    for gpus in _sizes(node, engine, ask):
        stagings = Placements(node, engine, ask, gpus).roomiest()
        if stagings:
            model = OffloadModel(ask.card, node, stagings, engine, ask.precisions, ask.calibration)
            s = ask.setup(model, designs_of(stagings), [node], TOKENS_PER_STEP)
            if s.holds["mixed"].all(axis=1).any():
                return True
    return False


def _sizes(node: NodeClass, engine: str, ask: Ask) -> list[int]:
    sizes = np.arange(1, min(node.gpus_per_node, len(ask.card.stack)) + 1)
    found: list[int] = sizes[usual_sizes(sizes, node.gpus_per_node)].tolist()
    if OFFLOADS[engine].split == "pp":
        return found
    return [
        tp
        for tp in found
        if tp <= node.scale_up_gpus
        and why_not_tp(ask.card, engine, tp, ask.precisions) is None
        and why_not_moe(ask.card, tp, 1, ask.precisions) is None
    ]


class Placements:
    """Where the layers of a model may lie, for one engine on `gpus` GPUs of a node."""

    def __init__(self, node: NodeClass, engine: str, ask: Ask, gpus: int) -> None:
        self.node, self.engine, self.ask, self.gpus = node, engine, ask, gpus
        self.rule = OFFLOADS[engine]
        self.kind = np.asarray(ask.card.kinds[1])
        self.layers = len(self.kind)
        self.stages = gpus if self.rule.split == "pp" else 1
        self.tp = gpus // self.stages
        budget = counted_tokens_per_step(engine, [node.device])
        self.tokens = max(budget, TOKENS_PER_STEP)
        self.firsts = dict[int, int]()  # layers before the first GPU, by sequences: more never need fewer

    def all(self) -> list[HostStaging]:
        """Every placement worth a design; none where the model does not fit however little is on the GPUs."""
        if self.rule.streams:
            ways, layers = groups(tuple(self.held.layer[self.kind])), (0, self.layers)
            return [(HostStage(self.node.id, self.tp, layers, group=g, streamed=n),) for g, n in ways]
        if self.rule.popular:
            found = (self.popular(n) for n in range(1, MOST_SEQUENCES + 1))
            return list(dict.fromkeys(staging for staging in found if staging))
        return list(self.steps())

    def roomiest(self) -> list[HostStaging]:
        """Some that hold one sequence, if any does."""
        if self.rule.streams:
            return self.all()
        found = self.popular(1) if self.rule.popular else (self.least(1) or (0.0, None))[1]
        return [found] if found else []

    def steps(self) -> Iterator[HostStaging]:
        """Placements that differ in what is away, each for the most sequences that it has room for. What is
        away never falls with the sequences: between two numbers alike all are."""
        found = dict[int, tuple[float, HostStaging | None]]()
        spans = [(1, MOST_SEQUENCES)]
        while spans:
            low, high = spans.pop()
            for n in (low, high):
                if n not in found:
                    found[n] = self.least(n) or (np.inf, None)
            if high - low > 1 and not _alike(found[low][0], found[high][0]):
                middle = (low + high) // 2
                spans += [(low, middle), (middle, high)]
        ordered = [found[n] for n in sorted(found)]
        for (cost, staging), (more, _) in pairwise([*ordered, (np.nan, None)]):
            if staging is not None and not _alike(cost, more):
                yield staging

    def least(self, sequences: int) -> tuple[float, HostStaging] | None:
        """The placement that leaves cache for `sequences` with the least away, and bytes that are."""
        s = self._solve(sequences, 0, self.held.experts)
        if s.cost is not None:
            return s.cost, self._staging(s, 0)
        if not self.rule.layers:
            return None
        out = self._first_layers(sequences)
        if out is None:
            return None
        s = self._solve(sequences, out, 0.0 * self.held.experts, self.held.experts)
        bytes_out = float(self.held.experts[self.kind].sum() + self.held.layer[self.kind[:out]].sum())
        return bytes_out, self._staging(s, out, all_experts=True)

    def popular(self, sequences: int) -> HostStaging | None:
        """The placement with as many experts of every layer on the GPU as leave cache for `sequences`."""
        experts = float(self.held.experts[self.kind].sum()) / self.tp
        left = float(self.room[0]) + experts - sequences * float(self.cache[self.kind].sum())
        many = [k.ffn.experts if isinstance(k.ffn, MoeFfn) else 0 for k in self.model.kinds]
        if left < 0:
            return None
        kept = min(int(max(many) * left / experts), max(many) - 1)
        away = int(np.count_nonzero(np.array(many)[self.kind]))
        return (HostStage(self.node.id, self.tp, (0, self.layers), away, kept),)

    def _first_layers(self, sequences: int) -> int | None:
        """The fewest layers before the first GPU, with all experts away; None where even all but one a GPU
        are too few."""
        known = self.firsts
        low = max((first - 1 for n, first in known.items() if n <= sequences), default=0)
        low, high = max(low, 0), min((first for n, first in known.items() if n >= sequences), default=-1)
        if high < 0:
            high = self.layers - self.stages
            if self._solve(sequences, high, 0.0 * self.held.experts, self.held.experts).cost is None:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._solve(sequences, middle, 0.0 * self.held.experts, self.held.experts).cost is not None
            low, high = (low, middle) if fits else (middle, high)
        known[sequences] = high
        return high

    def _solve(self, sequences: int, first: int, freed: Floats, out: Floats | None = None) -> OffloadSolution:
        """The layers from `first` on over the GPUs, by kind less `out` bytes for good, and `freed` that may
        leave."""
        held = self.held.layer + sequences * self.cache - (0.0 if out is None else out)
        return offload.solve(OffloadProblem(self.kind[first:], held, freed, freed, self.whole_room))

    def _staging(self, s: OffloadSolution, first: int, all_experts: bool = False) -> HostStaging:
        moe = [isinstance(self.model.kinds[k].ffn, MoeFfn) for k in self.kind]
        found = []
        for (a, b), away in zip(s.stages, s.away, strict=True):
            many = sum(moe[first + a : first + b]) if all_experts else sum(away)
            found.append(HostStage(self.node.id, self.tp, (first + a, first + b), many, 0, first * (a == 0)))
        return tuple(found)

    @cached_property
    def model(self) -> OffloadModel:
        """With the model evenly on the GPUs: what layers and all else take is read off it."""
        ends = np.linspace(0, self.layers, self.stages + 1).round().astype(int).tolist()
        ranges = pairwise(ends)
        even = tuple(HostStage(self.node.id, self.tp, (a, b)) for a, b in ranges)
        return OffloadModel(
            self.ask.card, self.node, [even], self.engine, self.ask.precisions, self.ask.calibration
        )

    @property
    def held(self) -> Held:
        return self.model.held

    @cached_property
    def room(self) -> Floats:
        """Bytes of each GPU that are left with the layers evenly on them: negative where they don't fit."""
        memory = self.model.memory_by_stage(designs_of(self.model.stagings), self.tokens)
        return np.asarray(memory.kv_bytes[0, : self.stages])

    @cached_property
    def whole_room(self) -> Floats:
        """Bytes of each GPU for layers and their cache."""
        weights = [self.held.layer[self.kind[slice(*stage.layers)]].sum() for stage in self.model.stagings[0]]
        return np.asarray(self.room + np.array(weights))

    @cached_property
    def cache(self) -> Floats:
        return cache_by_kind(self.ask, self.model.engine, self.tp)


def cache_by_kind(ask: Ask, engine: str, tp: int = 1) -> Floats:
    """Bytes of cache of a sequence of mean context in a layer of each kind, on one GPU, (kinds,)."""
    kind, context = np.asarray(ask.card.kinds[1]), np.array([[max(Mix.of(ask.workload).context, 1.0)]])
    ranges = [(i, i + 1) for i in (int(np.argmax(kind == k)) for k in range(kind.max() + 1))]
    held = kv_bytes_by_stage(ask.card, like(1, tp), ask.precisions, engine, context, ranges)
    return np.asarray(held[0, 0])


def _alike(a: float, b: float) -> bool:
    """Whether as many bytes are away."""
    return a == b or abs(a - b) <= 1e-12 * min(a, b)


@lru_cache(maxsize=256)
def groups(sizes: tuple[float, ...]) -> list[tuple[int, int]]:
    """By rising bytes all that can be streamed of layers of `sizes` bytes, as (group, streamed of each
    group): of the ways to stream as much the one with the fewest next to each other, as the GPU computes
    others while they are copied.

    >>> groups((1.0, 1.0, 1.0, 1.0, 1.0))
    [(3, 1), (2, 1), (3, 2), (5, 4), (1, 1)]
    """
    at, size = np.arange(len(sizes)), np.array(sizes)
    found: dict[int, tuple[int, int]] = {}
    for streamed in range(1, len(sizes) + 1):
        for group in range(streamed, len(sizes) + 1):
            found.setdefault(round(size[at % group >= group - streamed].sum()), (group, streamed))
    return [found[moved] for moved in sorted(found)]

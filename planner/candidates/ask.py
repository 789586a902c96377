"""What candidates are asked for, the engines that may serve it on a class, and the replica sizes on offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from model_zoo.schema import ModelCard
from planner.candidates.idle_cache import Keep, Where, levels, places
from planner.candidates.mix import Mix, Promise
from planner.candidates.needs import Counts
from planner.candidates.setup import BUSIEST, Setup
from planner.cost.calibration import Calibration
from planner.cost.idle_cache import Resting
from planner.cost.model import CostModel
from planner.cost.reserve import counted_tokens_per_step
from planner.designs.shape import Designs, Ints, Precisions
from planner.drafts.kinds import Draft
from planner.engines import named
from planner.inputs.workload import Workload
from planner.objectives import Objective
from planner.operating.room import counted
from planner.rules.devices import picks_entries, why_unsupported

CONTEXTS, LONG = (1, 2, 4, 8, 16), 32_768
"""Values of cp that are offered where prompts are so long, in tokens."""

CHUNKS = (2048, 8192, 16_384, 32_768, 65_536)
"""Tokens of a step that engines are told for prompts so long (vLLM `--max-num-batched-tokens`, SGLang
`--chunked-prefill-size`, TensorRT-LLM `--max_num_tokens`): small ones fill pipelines, large ones make a ring
pass less often."""


@dataclass(frozen=True)
class Freedom:
    """What stages of one replica may differ in: layers, tp, and in how many classes they stand. `shares`:
    the GPUs of one tensor-parallel group, in heads. `apart`: attention and FFNs stand on different GPUs.
    `engines`: of these alone, where some are named."""

    layers: bool = True
    tp: bool = True
    classes: int = 3
    shares: bool = False
    apart: bool = False
    engines: Sequence[str] = ()


STOCK = {"vllm": Freedom(tp=False), "sglang": Freedom(tp=False), "llama.cpp": Freedom(tp=False)}
"""What engines start as they come: one tp in all stages, layers as told (VLLM_PP_LAYER_PARTITION,
SGLANG_PP_LAYER_PARTITION, --tensor-split). TensorRT-LLM builds all stages for one device."""


@dataclass(frozen=True)
class Ask:
    """What candidates are for."""

    card: ModelCard
    precisions: Precisions
    engines: Sequence[str]
    workload: Workload
    promise: Promise
    objective: Objective
    risk_z: float = 0.0  # deviations that the risk asks for
    watts_limited: bool = False  # a budget in watts
    calibration: Calibration | None = None  # None: the shipped one
    freedom: Freedom | None = None  # None: what the engine starts as it comes
    contexts: Sequence[int] = ()  # values of cp; empty: by the length of prompts
    offload: bool = False  # weights may lie in host memory: then only such replicas
    resting: Resting | None = None  # what returns to the cache, for levels of keeping it
    keep: Keep | None = None  # the level of one setup
    drafts: Sequence[Draft] = ()  # ways to draft that replicas may have
    busiest: float = BUSIEST  # share of its time that a server which only prefills is busy at most
    power_limits: Mapping[str, Sequence[float]] = field(default_factory=dict)  # by class: watts of a GPU
    most_sequences: Mapping[str, float] = field(default_factory=dict)  # of a server, by class
    waits: bool = False  # limits are on the mean over all routes: no column keeps them by itself
    queue_z: float | None = None  # deviations of prompts in queues; None: as many as of all else

    @property
    def counts(self) -> Counts:
        """What the objective and the budget make count beside resources."""
        return replace(Counts.of(self.objective.goal, self.watts_limited), waits=self.waits)

    @property
    def mixing(self) -> Sequence[str]:
        """Engines whose replicas over several classes are made."""
        named = self.freedom.engines if self.freedom else ()
        return [e for e in self.engines if e in named or not named]

    def may(self, engine: str) -> Freedom | None:
        """What the stages of one replica may differ in; None: nothing."""
        return self.freedom or STOCK.get(engine)

    def setup(
        self,
        model: CostModel,
        designs: Designs,
        classes: Sequence[NodeClass],
        least_tokens: int = 0,
        told: int = 0,
    ) -> Setup:
        """`designs` of `model`, which stand on `classes`, with their memory. `least_tokens` a step can take,
        or just `told`, where the engine is told so."""
        mix, engine = Mix.of(self.workload, self.keep, model.emitted), model.engine
        budget = counted_tokens_per_step(engine, (n.device for n in classes))
        budget = told or max(budget, least_tokens)
        memory = counted(model, designs, budget, max(mix.context, 1.0))
        place = None
        if self.keep is not None and self.keep.place != "hbm":
            own = [p for p in places(classes[0], engine, self.card) if p.name == self.keep.place]
            place = own[0]
        reserves = named(engine).admits_whole
        return Setup(
            *(model, designs, memory, mix, self.promise, budget, reserves, self.risk_z, self.keep, place),
            busiest=self.busiest,
            queue_z=self.queue_z,
            most_sequences=min((self.most_sequences.get(n.id, np.inf) for n in classes), default=np.inf),
        )

    def keeping(self, node: NodeClass, engine: str) -> list[Ask]:
        """Asks for each level at which idle cache may be kept on a class."""
        if self.resting is None or self.offload:
            return []
        share = np.array(self.workload.shares)
        names: list[Where] = ["hbm", *(p.name for p in places(node, engine, self.card))]
        return [replace(self, keep=k) for k in levels(self.resting, share, names)]

    @property
    def context_groups(self) -> Sequence[int]:
        """Values of cp that are offered."""
        return self.contexts or (CONTEXTS if self.workload.longest >= LONG else (1,))

    @property
    def moe(self) -> bool:
        return self.card.moe

    @property
    def picks(self) -> bool:
        return picks_entries(self.card)


def serving(node: NodeClass, ask: Ask) -> list[str]:
    """The engines that serve the model on the class; llama.cpp only when asked for or when no other does."""
    able = [
        e for e in ask.engines if why_unsupported(node.device, e, ask.precisions, ask.moe, ask.picks) is None
    ]
    return [e for e in able if e != "llama.cpp"] or able


def usual_sizes(gpus: Ints, node_gpus: int) -> NDArray[np.bool_]:
    """Which replica sizes are offered: whole nodes; inside a node of 2, 4, 8 … GPUs powers of two, inside an
    odd one any.

    >>> [g for g in range(1, 25) if usual_sizes(np.array([g]), 8)[0]]
    [1, 2, 4, 8, 16, 24]
    >>> [g for g in range(1, 13) if usual_sizes(np.array([g]), 6)[0]]
    [1, 2, 3, 4, 5, 6, 12]
    """
    even = node_gpus & (node_gpus - 1) == 0
    inside = (gpus <= node_gpus) & ((gpus & (gpus - 1) == 0) if even else True)
    return np.asarray(inside | (gpus % node_gpus == 0))

"""Servers under loads of their own, one a row, as arrays: what `predict` is asked and calibration fits.

Rows of one `Group` share all but parallelism, lengths and load. What comes of a load: `served.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass
from model_zoo.schema import ModelCard
from planner.cost.calibration import Calibration
from planner.cost.eras import engine_of
from planner.cost.memory import Memory
from planner.cost.model import CostModel
from planner.cost.reserve import counted_tokens_per_step
from planner.cost.told import AS_USUAL, Told
from planner.cost.unequal import UnequalModel
from planner.designs.shape import Designs, Floats, Precisions, Staging, designs_of
from planner.drafts.kinds import Draft, mtp_card
from planner.drafts.model import DraftedModel
from planner.engines import named
from planner.operating.requests import Requests, Terms, computed
from planner.operating.room import counted, held_tokens
from planner.predict.rows import Row, held_back
from planner.queueing import Loop, Percentile, Role


@dataclass(frozen=True)
class Pipeline:
    """Stages on several devices, the classes they stand on (each once), and the links between those."""

    staging: Staging
    classes: tuple[NodeClass, ...]
    links: tuple[ClusterLink, ...] = ()


@dataclass(frozen=True)
class Group:
    """What rows must share to be computed at once; `card`, `node_class` and `pipeline` are shared objects,
    compared as such. `engine`: with its era (planner/cost/eras.py). `chunk`: prompt tokens of a step that it
    is told, 0 its default. `buckets`: lengths of requests that each row has."""

    card: ModelCard
    node_class: NodeClass
    engine: str
    role: Role
    used: Precisions
    draft_tokens: int = 0
    chunk: int = 0
    told: Told = AS_USUAL
    loop: Loop = "closed"
    percentile: Percentile = "mean"
    buckets: int = 1
    pipeline: Pipeline | None = None

    def cost(self, calibration: Calibration | None = None) -> CostModel:
        """The cost model of its servers."""
        by = (self.engine, self.used)
        told = (calibration, self.told)
        if p := self.pipeline:
            return UnequalModel(self.card, p.classes, p.links, [p.staging], *by, *told)
        if self.draft_tokens:
            draft = Draft("mtp", self.draft_tokens, 0.0, mtp_card(self.card))
            return DraftedModel(self.card, self.node_class, *by, draft, *told)
        return CostModel(self.card, self.node_class, *by, *told)

    @property
    def token_budget(self) -> int:
        """Tokens of a micro-batch at most: as told, or what the engine takes on the smallest device."""
        classes = self.pipeline.classes if self.pipeline else (self.node_class,)
        engine = engine_of(self.engine)
        default = counted_tokens_per_step(engine, (n.device for n in classes))
        return self.chunk or default

    @property
    def terms(self) -> Terms:
        """On which its servers work."""
        return Terms(self.role, float(self.token_budget), self.percentile, self.loop, 1.0 + self.draft_tokens)

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self._identity() == other._identity()

    def _identity(self) -> tuple[Hashable, ...]:
        each = ((f.name, getattr(self, f.name)) for f in fields(self))
        return tuple(id(value) if name in SHARED else value for name, value in each)


SHARED = ("card", "node_class", "pipeline")
"""Fields of a group that are compared as objects, not by value."""


@dataclass(frozen=True)
class Rows:
    """Many rows as arrays: designs, and what one server of each has to do. All (n,) but `asked` and `longest`
    (n, w)."""

    designs: Designs
    asked: Requests
    longest: Floats  # tokens of an answer that an engine which reserves keeps room for
    sequences: Floats  # in flight on one server of a closed loop
    rate: Floats  # requests/s that come to one server of an open loop
    running: Floats  # most at once on one server, by what the engine is told
    waits: Floats  # decode steps that a first token waits beside the queue
    wave: Floats  # 1 where all requests came at once at the start, 0 in steady state
    alike: Floats  # 1 where all come together for ever: alike in length, prompts before decode steps
    train: Floats  # 1 where each comes a step after the one before it: alike, prompts beside decode steps

    @classmethod
    def of(cls, group: Group, rows: Sequence[Row]) -> Rows:
        """The rows as arrays."""

        def ints(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array([getattr(row, name) for row in rows], dtype=np.int64)

        def floats(name: str) -> Floats:
            return np.array([getattr(row, name) for row in rows], dtype=np.float64)

        designs = Designs(*(ints(field.name) for field in fields(Designs)))
        if group.pipeline:
            designs = designs_of([group.pipeline.staging]).take(np.zeros(len(rows), dtype=np.int64))
        isl, osl, share = np.moveaxis(np.array([row.requests for row in rows], dtype=np.float64), 2, 0)
        hit, emitted = floats("prefix_hit")[:, None], 1 + floats("accepted_tokens")[:, None]
        equal = np.array([float(row.lengths == "alike") for row in rows])
        alike = equal * named(engine_of(group.engine)).prompts_first
        share = share / share.sum(axis=1, keepdims=True)
        # prompts of a crowd all come after an answer
        answer = np.maximum((share * osl / emitted).sum(axis=1), 1.0)
        looks = np.where(alike > 0, answer, np.maximum(floats("receive_steps"), 1.0))
        asked = Requests(computed(isl, hit * isl), isl, osl, share, emitted, looks)
        longest = np.maximum(floats("max_osl")[:, None], osl)
        wave = np.array([float(row.start == "at_once") for row in rows])
        ranks, most = designs.attn_dp, floats("max_running")
        loop, rate = floats("concurrency") / ranks, floats("rate_rps") / ranks
        running = np.where(most > 0, np.maximum(most / ranks, 1.0), np.inf)
        waits = held_back(group.engine, rows, designs.attn_dp, loop, asked.mean(asked.osl))
        server = (loop, rate, running, waits, wave, alike, equal - alike)
        return cls(designs, asked, longest, *server)


@dataclass(frozen=True)
class Places:
    """What the KV cache of each row's servers holds, shape (n,): bytes per GPU of one sequence, sequences
    (0: does not fit); the part of a sequence's bytes that a prompt in work holds on average."""

    memory: Memory
    held_bytes: Floats
    sequences: Floats
    prompt: Floats

    @classmethod
    def of(cls, cost: CostModel, load: Rows, token_budget: int) -> Places:
        """Memory of the model's devices under the load's designs."""
        asked = load.asked
        memory = counted(cost, load.designs, token_budget, np.maximum(asked.context, 1.0))
        tokens = held_tokens(cost.engine, asked.new, asked.osl, load.longest)
        weight = asked.share * np.maximum(asked.osl - 1, 1e-9)
        each = cost.cache_bytes(load.designs, tokens, memory.stage)
        held = np.maximum((weight * each).sum(axis=1) / weight.sum(axis=1), 1.0)
        whole = asked.mean(cost.cache_bytes(load.designs, asked.new, memory.stage))
        fit = np.maximum(memory.kv_bytes, 0.0) / held
        return cls(memory, held, np.minimum(fit, load.running), whole / 2 / held)

    @property
    def capacity(self) -> Floats:
        """Sequences that fit on average, infinite where not one does: times are then as if it did."""
        return np.where(self.sequences >= 1, self.sequences, np.inf)

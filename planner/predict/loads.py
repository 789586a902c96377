"""Replicas under loads of their own, one a row, as arrays: what `predict` answers and calibration fits.

A closed loop: N requests are always in flight, a new one starts as soon as one ends, and those that find no
room in the KV cache wait. A benchmark's has a first wave, in which all come at once: `together` says how many
of all requests are of it. Of a crowd of M, of which g fit one step, a prompt has its first token when its
step ends: (M + g) / 2 prompts after the start on average. Its TTFT is longer by what its TPOT is shorter, as
the crowd decodes without meeting prompts later on. Where lengths are alike and the engine computes prompts
before it decodes, all stay one crowd for ever: nobody decodes before the last prompt is done, so all end at
once. A row may say that it means the steady state, as plans do: then nobody comes in a first wave. An open
loop: requests come at random, so many a second. Rows of one `Group` share all but parallelism, lengths, load.

Where a decode step emits e tokens of a sequence (speculative decoding), a request takes (osl - 1) / e of them
at the same contexts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace

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
from planner.designs.shape import Designs, Floats, Precisions, Staging, StepTimes, designs_of
from planner.drafts.kinds import Draft, mtp_card
from planner.drafts.model import DraftedModel
from planner.engines import named
from planner.operating.requests import Requests, Terms, computed
from planner.operating.room import counted, held_tokens
from planner.operating.steps import batch_at, batch_of, decoding_steps, prompt_steps
from planner.operating.times import arriving
from planner.predict.rows import Row, held_back
from planner.queueing import Estimate, Loop, Percentile, Role, closed_loop, decode_s, prefill_s
from planner.queueing.load import column

ROUNDS = 12
"""At most, of finding the batch at which the step is made linear."""

SETTLED = 1e-4
"""Relative change of that batch at which the search ends: nearer changes no time that is read."""

SHORTEST = 0.3
"""Share of the mean TPOT that is left where all others' prompts are done before the first token."""


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
        asked = Requests(
            computed(isl, hit * isl), isl, osl, share / share.sum(axis=1, keepdims=True), emitted
        )
        longest = np.maximum(floats("max_osl")[:, None], osl)
        wave = np.array([float(row.start == "at_once") for row in rows])
        first = named(engine_of(group.engine)).prompts_first
        alike = np.array([float(first and row.lengths == "alike") for row in rows])
        ranks, most = designs.attn_dp, floats("max_running")
        loop, rate = floats("concurrency") / ranks, floats("rate_rps") / ranks
        running = np.where(most > 0, np.maximum(most / ranks, 1.0), np.inf)
        waits = held_back(group.engine, rows, designs.attn_dp, loop, asked.mean(asked.osl))
        return cls(designs, asked, longest, loop, rate, running, waits, wave, alike)


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


@dataclass(frozen=True)
class Host:
    """The figures of `Tuning` that act beside the step, shape (n,) or scalars."""

    request_s: Floats | float
    text_token_s: Floats | float
    arrival_s: Floats | float
    together: Floats | float

    def started_s(self, isl: Floats) -> Floats:
        """Seconds (n, w) that the host adds to the first token of prompts of `isl` tokens (n, w)."""
        return column(self.request_s) + column(self.text_token_s) * isl


@dataclass(frozen=True)
class Operated:
    """What a server answers, and the sequences (n,) at which its step was made linear."""

    estimate: Estimate
    batch: Floats


def operate(cost: CostModel, load: Rows, places: Places, by: Terms) -> Operated:
    """What comes of each row's load: the step is made linear at the batch that results."""
    if by.loop == "open":
        return _open(cost, load, by)
    own = cost.tuning
    host = Host(*(getattr(own, field.name) for field in fields(Host)))
    batch = np.minimum(load.sequences, places.capacity)
    for _ in range(ROUNDS):
        step = steps_of(cost, load, batch, by)
        at = looped(step, load, places, by, host)
        before, batch = batch, next_batch(at, step, batch, load, by)
        if np.allclose(batch, before, rtol=SETTLED):
            break
    return Operated(at, before)


def _open(cost: CostModel, load: Rows, by: Terms) -> Operated:
    """Requests that come at random: as a plan asks at the rate that it gives a replica."""
    batch = 0.0 * load.rate
    if by.role != "prefill":
        batch = batch_of(cost, load.designs, load.asked, load.rate, by)
    step = steps_of(cost, load, batch, by)
    rate = load.rate[:, None] * load.asked.share
    return Operated(arriving(cost, step, load.asked, rate, by), batch)


def steps_of(cost: CostModel, load: Rows, batch: Floats, by: Terms) -> StepTimes:
    """Step times (n,) where `batch` sequences decode."""
    if by.role == "prefill":
        return prompt_steps(cost, load.designs, load.asked, by.token_budget)
    return decoding_steps(cost, load.designs, load.asked, batch, by.token_budget)


def next_batch(at: Estimate, step: StepTimes, batch: Floats, load: Rows, by: Terms) -> Floats:
    """Sequences (n,) that decode at once where that is what comes of steps made linear at `batch`."""
    if by.role == "prefill":
        return batch
    return np.minimum(batch_at(step, load.asked, at.rate, by.role), load.sequences)


def looped(step: StepTimes, load: Rows, places: Places, by: Terms, host: Host) -> Estimate:
    """Times of a closed loop at given step times, the host's share and crowds included."""
    capacity = places.capacity
    asked, single = load.asked, load.asked.in_steps
    emitted, started = np.asarray(asked.emitted), host.started_s(asked.isl)
    lone = 0.0 if by.role == "decode" else np.asarray(asked.mean(started))
    at = closed_loop(
        *(step, asked.new, asked.isl, single.osl, asked.share, load.sequences, by.token_budget),
        role=by.role,
        max_sequences=capacity,
        prompt_places=places.prompt,
        beside_s=lone,
        computed=by.computed,
    )
    if by.role == "decode":
        return replace(at, tpot_s=at.tpot_s / emitted, mean_tpot_s=at.mean_tpot_s / emitted)
    inside = np.minimum(load.sequences, capacity)
    step_prompts = np.clip(by.token_budget / asked.prompt, 1.0, np.maximum(inside, 1.0))
    before = np.maximum((inside + step_prompts) / 2 - 1, 0.0)
    share = np.asarray(host.together / (1 + np.asarray(host.together))) * load.wave
    crowd = np.maximum(share, load.alike) * before
    one = asked.mean(prefill_s(step, asked.new, asked.isl))
    waited = (crowd * (one + host.arrival_s))[:, None]
    tpot = at.tpot_s
    if by.role == "mixed":
        steps = np.maximum(single.osl - 1, 1.0)
        decoding = np.clip(batch_at(step, asked, at.rate, by.role), 1.0, np.maximum(inside, 1.0))[:, None]
        bare = step.t0_s[:, None] + decoding * decode_s(step, asked.isl, single.osl) / steps
        tpot = np.maximum(tpot - waited / steps, np.maximum(SHORTEST * tpot, np.minimum(bare, tpot)))
        waited = (at.tpot_s - tpot) * steps
    held_back = load.waits[:, None] * tpot if by.role == "mixed" else 0.0
    ttft = at.ttft_s + started + waited + held_back
    return replace(at, ttft_s=ttft, tpot_s=tpot / emitted, mean_tpot_s=tpot / emitted)

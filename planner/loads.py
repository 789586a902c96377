"""Replicas under loads of their own, one a row, as arrays: what `predict` answers and calibration fits.

A closed loop: N requests are always in flight, a new one starts as soon as one ends, and those that find no
room in the KV cache wait. A benchmark's has a first wave: all come at once, and where lengths are alike
they stay together: `together` says how much. Of a crowd of M, of which g fit one step, a prompt has its
first token when its step ends: (M + g) / 2 prompts after the start on average. Its TTFT is longer by what
its TPOT is shorter, as the crowd decodes without meeting prompts later on. A row may say that it means the
steady state, as plans do: then nobody comes in a crowd. Rows of one `Group` share all but parallelism,
lengths, load.

Where a decode step emits e tokens of a sequence (speculative decoding), a request takes (osl - 1) / e of them
at the same contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_configs.schema import NodeClass
from model_zoo.schema import ModelCard
from planner.cost.calibration import Calibration
from planner.cost.eras import engine_of
from planner.cost.memory import Memory, default_tokens_per_step, device_bytes, kv_bytes_per_seq, room
from planner.cost.model import CostModel
from planner.cost.queueing import Estimate, Role, closed_loop, prefill_s
from planner.cost.shape import Designs, Floats, Precisions, StepTimes
from planner.operating.room import held_tokens
from planner.operating.steps import decoding_steps, prompt_steps
from planner.rows import Row

ROUNDS = 12
"""At most, of finding the batch at which the step is made linear."""

SETTLED = 1e-4
"""Of that batch: nearer changes no time that is read."""

SHORTEST = 0.3
"""Of the mean TPOT, what is left where all others' prompts are done before the first token."""


@dataclass(frozen=True)
class Group:
    """What rows must share to be computed at once; `card` and `node_class` are shared objects, compared as
    such. `engine`: with its era (planner/cost/eras.py)."""

    card: ModelCard
    node_class: NodeClass
    engine: str
    role: Role
    used: Precisions
    draft_tokens: int = 0

    def cost(self, calibration: Calibration | None = None) -> CostModel:
        """The cost model of its servers."""
        return CostModel(self.card, self.node_class, self.engine, self.used, calibration, self.draft_tokens)

    def __hash__(self) -> int:
        own = (self.engine, self.role, self.used, self.draft_tokens)
        return hash((id(self.card), id(self.node_class), *own))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and hash(self) == hash(other) and self.card is other.card


@dataclass(frozen=True)
class Load:
    """Many rows as arrays of shape (n,): designs, and what one server of each has to do."""

    designs: Designs
    isl: Floats
    osl: Floats
    new: Floats  # prompt tokens that the prefix cache does not have
    context: Floats  # mean over a request's life of decoding
    sequences: Floats  # in flight on one server
    wave: Floats  # 1 where all requests came at once at the start, 0 in steady state
    emitted: Floats  # tokens a decode step gives a sequence: one, and the drafted ones that are accepted

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Load:
        """The rows as arrays."""

        def ints(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array([getattr(row, name) for row in rows], dtype=np.int64)

        designs = Designs.plain(*(ints(name) for name in ("tp", "pp", "attn_dp", "moe_tp", "ep")))
        isl, osl = ints("isl").astype(np.float64), ints("osl").astype(np.float64)
        hit = np.array([row.prefix_hit for row in rows])
        concurrency = np.array([row.concurrency for row in rows])
        new = np.maximum(isl * (1 - hit), 1.0)
        emitted = 1 + np.array([row.accepted_tokens for row in rows])
        wave = np.array([float(row.start == "at_once") for row in rows])
        return cls(designs, isl, osl, new, isl + osl / 2, concurrency / designs.attn_dp, wave, emitted)

    @property
    def decodes(self) -> Floats:
        """Steps in which a request decodes, (n,)."""
        return (self.osl - 1) / self.emitted


@dataclass(frozen=True)
class Places:
    """What the KV cache of each row's servers holds, shape (n,): bytes per GPU of one sequence, sequences
    (0: does not fit); and prompt tokens a step."""

    memory: Memory
    held_bytes: Floats
    sequences: Floats
    token_budget: float

    @classmethod
    def of(cls, group: Group, load: Load) -> Places:
        """Memory of the group's device under the load's designs."""
        available, engine = device_bytes(group.node_class.device), engine_of(group.engine)
        budget = default_tokens_per_step(engine, available)
        memory = room(group.card, available, load.designs, group.used, engine, budget)
        tokens = held_tokens(engine, load.new, load.osl)
        held = np.diagonal(kv_bytes_per_seq(group.card, load.designs, group.used, tokens, stage=memory.stage))
        places = np.maximum(memory.kv_bytes, 0.0) / np.maximum(held, 1.0)
        return cls(memory, held, places, float(budget))

    @property
    def capacity(self) -> Floats:
        """Sequences that fit on average, infinite where not one does: times are then as if it did."""
        return np.where(self.sequences >= 1, self.sequences, np.inf)


@dataclass(frozen=True)
class Host:
    """The figures of `Tuning` that act beside the step, shape (n,) or scalars."""

    request_s: Floats | float
    arrival_s: Floats | float
    together: Floats | float


def operate(cost: CostModel, load: Load, places: Places, role: Role) -> Estimate:
    """The loop's steady state per server, and its first wave where it had one: the step is made linear at the
    batch that results."""
    by, budget = cost.tuning, places.token_budget
    batch = np.minimum(load.sequences, places.capacity)
    for _ in range(ROUNDS):
        step = steps_of(cost, load, batch, role, budget)
        at = looped(step, load, places.capacity, budget, role, Host(by.request_s, by.arrival_s, by.together))
        before, batch = batch, next_batch(at, batch, load)
        if np.allclose(batch, before, rtol=SETTLED):
            break
    return at


def steps_of(cost: CostModel, load: Load, batch: Floats, role: Role, budget: Floats | float) -> StepTimes:
    """Step times (n,) where `batch` sequences decode."""
    if role == "prefill":
        return prompt_steps(cost, load.designs, load.new, load.isl, budget)
    return decoding_steps(cost, load.designs, batch, load.context, load.new, load.decodes, budget)


def next_batch(at: Estimate, batch: Floats, load: Load) -> Floats:
    """Sequences that decode at once, shape (n,)."""
    return np.minimum(np.where(np.isfinite(at.sequences), at.sequences, batch), load.sequences)


def looped(
    step: StepTimes, load: Load, capacity: Floats, token_budget: Floats | float, role: Role, host: Host
) -> Estimate:
    """Times of a closed loop at given step times, the host's share and crowds included."""
    single = 1 + (load.osl - 1) / load.emitted  # tokens that as many steps would give one by one
    step = replace(step, sequence_s=step.sequence_s + step.context_s_per_token * (load.osl - single) / 2)
    new, isl, osl = (x[:, None] for x in (load.new, load.isl, single))
    osl = np.ones_like(osl) if role == "prefill" else osl
    at = closed_loop(
        *(step, new, isl, osl, np.ones_like(new), load.sequences, token_budget),
        role=role,
        kv_tokens=capacity * (load.isl + single / 2),
        max_sequences=capacity,
    )
    if role == "decode":
        return replace(at, tpot_s=at.tpot_s / load.emitted[:, None])
    inside = np.minimum(load.sequences, capacity)
    step_prompts = np.clip(token_budget / load.new, 1.0, np.maximum(inside, 1.0))
    before = np.maximum((inside + step_prompts) / 2 - 1, 0.0)
    crowd = np.asarray(host.together / (1 + np.asarray(host.together))) * before * load.wave
    waited = crowd[:, None] * (prefill_s(step, new, isl) + _column(host.arrival_s))
    tpot = at.tpot_s
    if role == "mixed":
        steps = np.maximum(osl - 1, 1.0)
        tpot = np.maximum(tpot - waited / steps, SHORTEST * tpot)
        waited = (at.tpot_s - tpot) * steps
    ttft = at.ttft_s + _column(host.request_s) + waited
    return replace(at, ttft_s=ttft, tpot_s=tpot / load.emitted[:, None])


def _column(x: Floats | float) -> Floats:
    return np.asarray(x, dtype=np.float64).reshape(-1, 1)

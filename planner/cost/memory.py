"""Bytes per GPU of replica designs: weights, activations, the engine's reserve, and what is left for KV
cache.

A server is one attention-dp rank with all its stages: each of its sequences keeps cache on all tp ranks of
all stages, and the first stage to run out stops it. Blocks of paged caches (16 tokens and more) round a
sequence up: not counted. Parts: `stages.py`, `weights.py`, `activations.py`, `reserve.py`; cache by attention
kind: `model_zoo.derive`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model_zoo.derive import (
    growing_elements_per_token,
    index_elements_per_token,
    kv_shards,
    state_bytes_per_seq,
    window,
    windowed_elements_per_token,
)
from model_zoo.schema import KV_BYTES, Layer, ModelCard
from planner.cost.activations import activation_bytes, sampling_bytes
from planner.cost.eras import engine_of
from planner.cost.reserve import (
    DEFAULT_SEQUENCES,
    Sequences,
    default_tokens_per_step,
    device_bytes,
    reserve_bytes,
)
from planner.cost.weights import weights_bytes
from planner.designs.shape import Designs, Floats, Ints, Precisions
from planner.designs.stages import Ranges, Stages, stage_layers, stages_of
from planner.engines import named

__all__ = [
    "DEFAULT_SEQUENCES",
    "Memory",
    "default_tokens_per_step",
    "device_bytes",
    "fullest",
    "fullest_at",
    "kv_bytes_by_stage",
    "kv_bytes_per_seq",
    "kv_capacity",
    "longest_context",
    "room_by_stage",
    "stage_layers",
]

BINDING_CONTEXT = 8192.0
"""Context at which the stage that runs out of cache first is looked for, unless told."""


@dataclass(frozen=True)
class Memory:
    """Bytes per GPU; weights + activation + reserve + kv = capacity. kv <= 0: does not fit.

    All of shape (n,), of the fullest stage, whose index is `stage`; from `room_by_stage` all of shape (n,
    stages), kv infinite where a design has fewer stages.
    """

    weights_bytes: Floats
    activation_bytes: Floats
    reserve_bytes: Floats
    capacity_bytes: Floats
    kv_bytes: Floats
    stage: Ints

    @classmethod
    def by_stage(cls, parts: Sequence[Floats] | Floats) -> Memory:
        """From the five figures, (n, stages) each."""
        weights, activation, reserve, capacity, kv = parts
        stage = np.broadcast_to(np.arange(kv.shape[1], dtype=np.int64), kv.shape)
        return cls(weights, activation, reserve, capacity, kv, stage)

    @property
    def parts(self) -> tuple[Floats, ...]:
        """The five figures: weights, activation, reserve, capacity, kv."""
        own = self.weights_bytes, self.activation_bytes, self.reserve_bytes, self.capacity_bytes
        return (*own, self.kv_bytes)

    def take(self, index: Ints) -> Memory:
        """Memory of the designs at `index`."""
        return Memory(*(part[index] for part in vars(self).values()))

    def at(self, stage: Ints) -> Memory:
        """Memory of one stage of each design, `stage` of shape (n,), where self has all: shape (n,)."""
        pick = (np.take_along_axis(part, stage[:, None], axis=1)[:, 0] for part in self.parts)
        weights, activation, reserve, capacity, kv = pick
        return Memory(weights, activation, reserve, capacity, kv, stage)


def fullest_at(
    card: ModelCard,
    designs: Designs,
    precisions: Precisions,
    engine: str | None,
    by_stage: Memory,
    context: Floats | float = BINDING_CONTEXT,
) -> Memory:
    """Memory of the fullest stage, (n,): of `by_stage` (from `room_by_stage`, with stages as in
    `stage_layers`) the one that holds the fewest sequences of `context` tokens, (n,) or one for all."""
    tokens = np.asarray(context, dtype=np.float64).reshape(-1, 1)
    return fullest(by_stage, kv_bytes_by_stage(card, designs, precisions, engine, tokens)[:, 0])


def fullest(by_stage: Memory, held: Floats) -> Memory:
    """Memory of the one of all stages that holds the fewest sequences of `held` bytes each; all (n,
    stages)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sequences = np.where(held > 0, by_stage.kv_bytes / held, np.copysign(np.inf, by_stage.kv_bytes))
    return by_stage.at(np.asarray(np.argmin(sequences, axis=1), dtype=np.int64))


def room_by_stage(
    card: ModelCard,
    device_memory_bytes: float,
    designs: Designs,
    precisions: Precisions,
    engine: str,
    tokens_per_step: int,
    max_sequences: Sequences | None = None,
    layers: Ranges | None = None,
    share: float = 0.0,
) -> Memory:
    """Memory of every stage, shape (n, stages).

    `device_memory_bytes`: see `device_bytes`. `tokens_per_step`: the most one server takes into a step, see
    `default_tokens_per_step`. `max_sequences`: in flight on one server, of all designs or of each
    (n,) (default DEFAULT_SEQUENCES): what sampling and captured graphs are for. `layers`:
    stage ranges in place of `stage_layers`, for all designs. `share`: of memory that the engine is told.

    Error: weights and KV bytes are exact but for padding; reserve and activations are within about 1 GB.
    """
    stages = stages_of(card, designs, layers)
    sequences = DEFAULT_SEQUENCES if max_sequences is None else max_sequences
    weights = weights_bytes(card, designs, precisions, stages)
    sampling = sampling_bytes(card, engine, sequences)
    activation = activation_bytes(card, designs, stages, tokens_per_step, sampling)
    kept = (engine, device_memory_bytes, designs, tokens_per_step, weights, activation, sequences)
    reserve = reserve_bytes(*kept, share)
    left = np.where(stages.exists, device_memory_bytes - weights - activation - reserve, np.inf)
    capacity = np.full(left.shape, float(device_memory_bytes))
    return Memory.by_stage((weights, activation, reserve, capacity, left))


def kv_bytes_per_seq(
    card: ModelCard,
    designs: Designs,
    precisions: Precisions,
    engine: str | None,
    context: Floats,
    layers: Ranges | None = None,
    stage: Ints | None = None,
) -> Floats:
    """Bytes of cache of one sequence of `context` tokens, (w,) or (n, w), on one GPU of its server: (n, w).

    Of stage `stage`, shape (n,) (`Memory.stage`), or of the stage where they are most. Windows saturate where
    `engine` lets go of what lies before them (None: an engine that does); recurrent states do not grow. A
    latent (MLA) is whole on every tp rank; beyond tp = KV heads, each head is repeated.
    """
    tokens = np.atleast_2d(np.asarray(context, dtype=np.float64))
    held = kv_bytes_by_stage(card, designs, precisions, engine, tokens, layers)
    if stage is None:
        return np.asarray(held.max(axis=2))
    return np.take_along_axis(held, stage[:, None, None], axis=2)[:, :, 0]


def kv_bytes_by_stage(
    card: ModelCard,
    designs: Designs,
    precisions: Precisions,
    engine: str | None,
    context: Floats,
    layers: Ranges | None = None,
) -> Floats:
    """Bytes of cache of one sequence of `context` tokens, (n or 1, w), on a GPU of each stage: (n, w,
    stages)."""
    return _held(designs, precisions, engine, context, stages_of(card, designs, layers))


def _held(
    designs: Designs,
    precisions: Precisions,
    engine: str | None,
    context: Floats,
    stages: Stages,
) -> Floats:
    """The same on stages that are known."""
    past = named(engine_of(engine)).past_windows if engine else 0.0
    tokens = context / designs.cp[:, None]
    by_kind = [_held_by_layer(layer, designs, precisions, tokens, past) for layer in stages.kinds]
    return np.asarray(np.einsum("nsk,nwk->nws", stages.counts, np.stack(by_kind, axis=2)))


def kv_capacity(
    card: ModelCard,
    designs: Designs,
    precisions: Precisions,
    engine: str | None,
    by_stage: Memory,
    context: Floats,
) -> Floats:
    """Whole sequences of `context` tokens, shape (w,), that one server holds: shape (n, w); 0 where nothing
    fits.

    `by_stage`: from `room_by_stage`, with stages as in `stage_layers`. A replica holds attn_dp times as many.
    """
    tokens = np.asarray(context, dtype=np.float64)[None, :]
    held = kv_bytes_by_stage(card, designs, precisions, engine, tokens)
    left = np.maximum(by_stage.kv_bytes, 0.0)[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        sequences = np.where(held > 0, left / held, np.where(left > 0, np.inf, 0.0))
    return np.asarray(np.floor(sequences.min(axis=2)))


def longest_context(
    card: ModelCard, designs: Designs, precisions: Precisions, engine: str | None, by_stage: Memory
) -> Ints:
    """Tokens of the longest single sequence that one server holds, at most the model's `max_context`; 0 where
    nothing fits. Shape (n,); by bisection, as cache never shrinks with context."""
    low = np.zeros(len(designs), dtype=np.int64)
    high = np.full(len(designs), card.max_context, dtype=np.int64)
    stages = stages_of(card, designs)
    while (low < high).any():
        middle = (low + high + 1) // 2
        tokens = middle[:, None].astype(np.float64)
        held = _held(designs, precisions, engine, tokens, stages)[:, 0]
        fits = (held <= by_stage.kv_bytes).all(axis=1)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low


def _held_by_layer(
    layer: Layer, designs: Designs, used: Precisions, context: Floats, past_windows: float
) -> Floats:
    """Bytes of cache of one sequence in one layer on one GPU: (n, w). Index keys are whole on every rank."""
    mixer, element = layer.mixer, KV_BYTES[used.kv]
    inside = np.minimum(context, np.maximum(window(mixer) or 0, past_windows * context))
    elements = growing_elements_per_token(mixer) * context + windowed_elements_per_token(mixer) * inside
    shards = np.minimum(designs.tp, kv_shards(mixer))[:, None]
    whole = element * index_elements_per_token(mixer) * context
    return np.asarray((element * elements + state_bytes_per_seq(mixer)) / shards + whole)

"""Holding: bytes of a model on the GPUs of each design, and of the cache that goes from one to another."""

from __future__ import annotations

import numpy as np

from cluster_configs.schema import NodeClass
from model_zoo.derive import growing_elements_per_token, index_elements_per_token
from model_zoo.schema import KV_BYTES, ModelCard
from planner.cost.memory import (
    Memory,
    device_bytes,
    fullest,
    kv_bytes_by_stage,
    kv_bytes_per_seq,
    room_by_stage,
)
from planner.cost.reserve import Sequences
from planner.designs.shape import Designs, Floats, Ints, Precisions, Staging, like
from planner.designs.stages import Ranges


class Holding:
    """What a model under one engine and set of precisions holds on one node class."""

    card: ModelCard
    node_class: NodeClass
    engine: str
    precisions: Precisions

    memory_share: float
    """Share of memory that the engine is told to take, in the engine's own sense of it; 0: its default."""

    stagings: tuple[Staging, ...] = ()
    """Where stages differ: those that designs name (`planner/cost/unequal.py`)."""

    def cache_gpus(self, designs: Designs) -> Ints:
        """GPUs of each design that hold cache."""
        return designs.gpus

    def memory(
        self,
        designs: Designs,
        tokens_per_step: int,
        context: Floats | float,
        sequences: Sequences | None = None,
    ) -> Memory:
        """Memory of the stage that holds the fewest sequences of `context` tokens, (n,) or one for all.
        `sequences`: in flight on one server, which sampling and graphs take memory for."""
        every = self.memory_by_stage(designs, tokens_per_step, sequences)
        tokens = np.broadcast_to(np.asarray(context, dtype=np.float64), len(designs))
        return self._fullest(designs, every, tokens)

    def _fullest(self, designs: Designs, every: Memory, tokens: Floats) -> Memory:
        """Memory of the one of all stages that holds the fewest sequences of `tokens` (n,): shape (n,)."""
        return fullest(every, self._held(designs, tokens[:, None])[:, 0])

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of every stage, (n, stages): `planner.cost.memory.room_by_stage`."""
        return self.room(designs, tokens_per_step, sequences)

    def room(
        self,
        designs: Designs,
        tokens_per_step: int,
        sequences: Sequences | None = None,
        layers: Ranges | None = None,
    ) -> Memory:
        """Memory of every stage, (n, stages), with layer ranges of the stages in place of even ones."""
        own = device_bytes(self.node_class.device)
        args = (self.card, own, designs, self.precisions, self.engine, tokens_per_step, sequences)
        return room_by_stage(*args, layers=layers, share=self.memory_share)

    def cache_bytes(self, designs: Designs, tokens: Floats, stage: Ints) -> Floats:
        """Bytes of cache of one sequence of `tokens`, (w,) or (n, w), on a GPU of `stage` (n,) of each
        design: (n, w)."""
        held = self._held(designs, np.broadcast_to(tokens, (len(designs), tokens.shape[-1])))
        return np.take_along_axis(held, stage[:, None, None], axis=2)[:, :, 0]

    def _held(self, designs: Designs, tokens: Floats) -> Floats:
        """Bytes of cache of one sequence of `tokens` (n, w) on one GPU of each stage: (n, w, stages)."""
        return kv_bytes_by_stage(self.card, designs, self.precisions, self.engine, tokens)

    def transfer_bytes(self, isl: Floats) -> Floats:
        """Bytes of KV cache of prompts of `isl` tokens, shape (w,), that go from a prefill to a decode
        replica."""
        return np.asarray(kv_bytes_per_seq(self.card, like(1, 1), self.precisions, None, isl)[0])

    def handed_bytes(self, designs: Designs, isl: Floats) -> tuple[Floats, Floats]:
        """What is handed over of the cache of prompts of `isl` tokens (w,): bytes that the rank with most of
        it sends or fetches, and how many copies all ranks of its server keep, (n, w) each."""
        whole = self.transfer_bytes(isl)
        if self.stagings:
            return whole / self.cache_gpus(designs)[:, None], np.ones((len(designs), len(isl)))
        held = kv_bytes_by_stage(self.card, designs, self.precisions, None, isl[None, :])
        kept = held.sum(axis=2) * (designs.tp * designs.cp)[:, None]
        return held.max(axis=2), np.round(np.maximum(kept / np.maximum(whole, 1.0), 1.0), 3)

    def last_share(self, new: Floats, isl: Floats, chunk: float) -> Floats:
        """Share of a prompt's cache (w,) that its last chunk of at most `chunk` tokens adds, windows and
        recurrent states with it; 1 where one chunk is enough."""
        mixers = [layer.mixer for layer in self.card.stack]
        growing = sum(growing_elements_per_token(m) + index_elements_per_token(m) for m in mixers)
        before = KV_BYTES[self.precisions.kv] * growing * (isl - chunk)
        return np.where(new > chunk, 1 - before / np.maximum(self.transfer_bytes(isl), 1.0), 1.0)

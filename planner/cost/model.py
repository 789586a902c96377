"""CostModel: seconds of a step, its linear form, watts and error bands of replica designs, as arrays.

A step is one engine iteration of a server (an attention-dp rank with its stages; its peers do the same).
Every distinct layer is timed once and counted as often as a stage has it; a step takes the fullest stage.
With pp stages it is one round of pp micro-batches: pp times the fullest stage, and the hops of one token's
way.

With speculative decoding (planner/drafts) a step verifies 1 + `draft_tokens` tokens of every sequence, whose
cache it reads once, and drafts the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from model_zoo.derive import growing_elements_per_token, index_elements_per_token
from model_zoo.schema import KV_BYTES, ModelCard
from planner.cost.attention import Load
from planner.cost.bands import PROMPTS, WIDE, Phase, band_sigma
from planner.cost.calibration import Calibration, Traits, shipped
from planner.cost.communication import Links
from planner.cost.compute import distinct
from planner.cost.efficiency.reading import Chip, Efficiency
from planner.cost.eras import engine_of
from planner.cost.layers import ACTIVATION_BYTES, Layers
from planner.cost.memory import (
    Memory,
    device_bytes,
    kv_bytes_by_stage,
    kv_bytes_per_seq,
    room,
    room_by_stage,
)
from planner.cost.power import activity_watts
from planner.cost.reserve import Sequences
from planner.cost.shape import Designs, Floats, Ints, Precisions, Staging, StepTimes, like
from planner.cost.stages import stage_counts

SHORTEST_STEP_S = 1e-6
"""What every step takes beside its sequences: never nothing."""

SPREAD = 0.05
"""Half-width of the finite differences of `step_times`, relative to the operating point."""


class CostModel:
    """What one model takes on one node class, engine and set of precisions."""

    stagings: tuple[Staging, ...] = ()
    """Where stages differ: those that designs name (`planner/cost/unequal.py`)."""

    draft_tokens = 0
    """That a step verifies of each sequence beside the next one."""

    emitted = 1.0
    """Tokens that a step gives each sequence."""

    def __init__(
        self,
        card: ModelCard,
        node_class: NodeClass,
        engine: str,
        precisions: Precisions,
        calibration: Calibration | None = None,
    ) -> None:
        self.card, self.node_class, self.precisions = card, node_class, precisions
        self.engine = engine_of(engine)
        self.chip = Chip.of(node_class.device)
        self.calibration = calibration or shipped()
        self.traits = Traits.of(card, node_class.device, engine, precisions)
        self.tuning = self.calibration.tuning(self.traits)
        self.fits = Efficiency(node_class.device, engine, self.tuning)
        self.links = Links(node_class, self.fits)
        self.layers = Layers(card, self.chip, self.fits, self.links, precisions, self.calibration.popularity)
        self.kinds = card.kinds[0]

    def step_s(
        self,
        designs: Designs,
        sequences: Floats | float,
        context: Floats | float,
        prefill_tokens: Floats | float,
        prefill_context: Floats | float,
    ) -> Floats:
        """Seconds of a step of a server, shape (n,): `sequences` decoding at mean cached `context`, and
        `prefill_tokens` prompt tokens that attend to `prefill_context` tokens each on average (half the
        prompt, for a whole prompt in one step).

        Error: docs/calibration.md#steps; the median is about 10-20 % where the device was measured.
        """
        args = self._spread(designs, sequences, context, prefill_tokens, prefill_context)
        return self._round_s(designs, *args)

    def step_times(
        self, designs: Designs, sequences: Floats | float, context: Floats | float, chunk: Floats | float
    ) -> StepTimes:
        """The step as a linear function near `sequences` decoding at `context` with prompts in chunks of
        `chunk` tokens.

        Exact at the operating point without prompts, and with one chunk that attends to context/2 tokens;
        slopes are central differences, clipped to be >= 0 with t0 >= 0.
        """
        b, ctx, new, none = self._spread(designs, sequences, context, chunk, 0.0)
        b, ctx, new = np.maximum(b, 1e-3), np.maximum(ctx, 1.0), np.maximum(new, 1.0)
        up, down, keys = 1 + SPREAD, 1 - SPREAD, ctx / 2
        here, longer, shorter, more, fewer, alone, meeting = self._at_once(
            designs,
            [
                (b, ctx, none, none),
                (b, ctx * up, none, none),
                (b, ctx * down, none, none),
                (b * up, ctx, none, none),
                (b * down, ctx, none, none),
                (b, ctx, new, none),
                (b, ctx, new, keys),
            ],
        )
        by_context = (longer - shorter) / (2 * SPREAD * b * ctx)
        by_sequence = (more - fewer) / (2 * SPREAD * b)
        slope = np.clip(by_sequence, 0.0, np.maximum(here - SHORTEST_STEP_S, 0.0) / b)
        per_context = np.clip(by_context, 0.0, slope / ctx)
        per_sequence = np.maximum(slope - per_context * ctx, 0.0)
        per_pair = np.maximum((meeting - alone) / (new * keys), 0.0)
        per_token = np.maximum((meeting - here) / new - per_pair * keys, 0.0)
        t0 = np.maximum(here - slope * b, 0.0)
        stages = self.concurrent(designs).astype(np.float64)
        return StepTimes(t0, per_token, per_pair, per_sequence, per_context, stages)

    def floor_s(
        self,
        designs: Designs,
        sequences: Floats | float,
        context: Floats | float,
        prefill_tokens: Floats | float,
        prefill_context: Floats | float,
    ) -> Floats:
        """The roofline: no step of this work can take less on this device, shape (n,)."""
        return np.maximum(*self.peaks_s(designs, sequences, context, prefill_tokens, prefill_context))

    def peaks_s(
        self,
        designs: Designs,
        sequences: Floats | float,
        context: Floats | float,
        prefill_tokens: Floats | float,
        prefill_context: Floats | float,
    ) -> tuple[Floats, Floats]:
        """Seconds of the step's FLOPs at peak, and of its bytes at full bandwidth, shape (n,) each."""
        args = self._spread(designs, sequences, context, prefill_tokens, prefill_context)
        return self._busy_s(designs, *args)

    def watts(
        self,
        designs: Designs,
        utilisation: Floats | float,
        sequences: Floats | float,
        context: Floats | float,
        prefill_tokens: Floats | float,
        prefill_context: Floats | float,
    ) -> Floats:
        """Watts of a replica that is busy a share `utilisation` of the time with such steps, shape (n,).
        Error: 25 %."""
        args = self._spread(designs, sequences, context, prefill_tokens, prefill_context)
        compute, memory = self._busy_s(designs, *args)
        step = np.maximum(self._round_s(designs, *args), 1e-9)
        device = self.node_class.device
        busy = np.broadcast_to(utilisation, step.shape)
        each = activity_watts(self.fits.power, device.tdp_watts, busy, compute / step, memory / step)
        return np.asarray(each * designs.gpus)

    def engine_s(self, designs: Designs, sequences: Floats) -> Floats:
        """The engine's own share of a step without prompts, shape (n,)."""
        batches = np.clip(sequences, 1.0, self.concurrent(designs))
        return np.asarray(batches * self.tuning.step_s + sequences * self.tuning.sequence_s)

    def concurrent(self, designs: Designs) -> Ints:
        """Micro-batches that pass the stages of each design at once."""
        return designs.pp

    @property
    def most_gpus(self) -> int:
        """GPUs there are for one replica."""
        return self.node_class.gpus

    def cache_gpus(self, designs: Designs) -> Ints:
        """GPUs of each design that hold cache."""
        return designs.gpus

    def hop_bytes(self, designs: Designs) -> Floats:
        """Bytes of a token between two stages."""
        return np.full(len(designs), ACTIVATION_BYTES * self.card.hidden)

    def needs_domain(self, designs: Designs) -> NDArray[np.bool_]:
        """Timed in one scale-up domain of several nodes, where that is not the class's to say."""
        return np.zeros(len(designs), dtype=bool)

    def by_class(self, designs: Designs) -> list[tuple[NodeClass, Ints]]:
        """GPUs of each class that each design takes."""
        return [(self.node_class, designs.gpus)]

    def memory(
        self,
        designs: Designs,
        tokens_per_step: int,
        context: Floats | float,
        sequences: Sequences | None = None,
    ) -> Memory:
        """Of the stage that holds the fewest sequences of `context` tokens, (n,) or one for all:
        `planner.cost.memory.room`.
        `sequences`: in flight on one server, which sampling and graphs take memory for."""
        own = device_bytes(self.node_class.device)
        args = (self.card, own, designs, self.precisions, self.engine, tokens_per_step, sequences)
        return room(*args, context=context)

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Of every stage: `planner.cost.memory.room_by_stage`."""
        own = device_bytes(self.node_class.device)
        args = (self.card, own, designs, self.precisions, self.engine, tokens_per_step, sequences)
        return room_by_stage(*args)

    def cache_bytes(self, designs: Designs, tokens: Floats, stage: Ints) -> Floats:
        """Bytes of cache of one sequence of `tokens`, (w,) or (n, w), on a GPU of `stage` (n,) of each
        design: (n, w)."""
        return kv_bytes_per_seq(self.card, designs, self.precisions, tokens, stage=stage)

    def transfer_bytes(self, isl: Floats) -> Floats:
        """Bytes of KV cache of prompts of `isl` tokens, shape (w,), that go from a prefill to a decode
        replica."""
        return np.asarray(kv_bytes_per_seq(self.card, like(1, 1), self.precisions, isl)[0])

    def handed_bytes(self, designs: Designs, isl: Floats) -> tuple[Floats, Floats]:
        """Of the cache of prompts of `isl` tokens (w,): bytes that the rank with most of it sends or fetches,
        and how many copies all ranks of its server keep, (n, w) each."""
        whole = self.transfer_bytes(isl)
        if self.stagings:
            return whole / self.cache_gpus(designs)[:, None], np.ones((len(designs), len(isl)))
        held = kv_bytes_by_stage(self.card, designs, self.precisions, isl[None, :])
        kept = held.sum(axis=2) * (designs.tp * designs.cp)[:, None]
        return held.max(axis=2), np.round(np.maximum(kept / np.maximum(whole, 1.0), 1.0), 3)

    def last_share(self, new: Floats, isl: Floats, chunk: float) -> Floats:
        """Share of a prompt's cache (w,) that its last chunk of at most `chunk` tokens adds, windows and
        recurrent states with it; 1 where one chunk is enough."""
        mixers = [layer.mixer for layer in self.card.stack]
        growing = sum(growing_elements_per_token(m) + index_elements_per_token(m) for m in mixers)
        before = KV_BYTES[self.precisions.kv] * growing * (isl - chunk)
        return np.where(new > chunk, 1 - before / np.maximum(self.transfer_bytes(isl), 1.0), 1.0)

    @property
    def sigma_tpot(self) -> float:
        """Standard deviation of the log of measured / predicted TPOT."""
        return self._sigma("tpot", "decode")

    @property
    def sigma_ttft(self) -> float:
        """Standard deviation of the log of measured / predicted TTFT: queueing adds to the kernels' error."""
        return self._sigma("ttft", "prefill")

    def _sigma(self, kind: str, phase: Phase) -> float:
        """The calibration's; what borrowed kernels add comes on top, where runs on the device don't show
        it."""
        sigma = self.calibration.sigma(kind, self.traits)
        if self.calibration.measured(kind, self.traits):
            return sigma
        return band_sigma(sigma, self.card, self.fits, self.precisions, phase)

    def sigmas(self, designs: Designs) -> Floats:
        """Standard deviations of the log of measured / predicted TTFT and TPOT by design, shape (2, n)."""
        wide = (designs.groups > 1) | (designs.gpus > self.node_class.scale_up_gpus)
        unseen = wide | (designs.redundant > 0)
        both = np.array([[self.sigma_ttft], [self.sigma_tpot]])
        return np.asarray(np.hypot(both, np.where(unseen, WIDE, 0.0)))

    def sigma_prompts(self, designs: Designs) -> Floats:
        """Standard deviation of the log of measured / predicted seconds of prompts, which prefill's rate
        hangs on, shape (n,): the fitted part of TPOT's, `PROMPTS` times, and what the design adds to it."""
        fitted = self.calibration.sigma("tpot", self.traits)
        return np.asarray(np.hypot(self.sigmas(designs)[1], fitted * np.sqrt(PROMPTS**2 - 1)))

    def _spread(self, designs: Designs, *args: Floats | float) -> tuple[Floats, ...]:
        """Every argument as an array of shape (n,)."""
        return tuple(np.broadcast_to(np.asarray(a, dtype=np.float64), (len(designs),)) for a in args)

    def _at_once(self, designs: Designs, points: Sequence[tuple[Floats, ...]]) -> Floats:
        """`_round_s` at several `points` of each design, shape (points, n): in one pass, as for few designs
        the calls cost
        more than the arithmetic."""
        every = designs.take(np.tile(np.arange(len(designs)), len(points)))
        args = (np.concatenate(parts) for parts in zip(*points, strict=True))
        return self._round_s(every, *args).reshape(len(points), -1)

    def _round_s(self, designs: Designs, b: Floats, ctx: Floats, new: Floats, keys: Floats) -> Floats:
        """Seconds of one round: every sequence gets a token, all prompt tokens their turn.

        k micro-batches share the work: pp of them, or as many as there are sequences. A round takes k times
        the fullest stage, and never less than one micro-batch's way through all stages. A rank sees the
        prompt tokens and the cache of its context-parallel group, and all decoding sequences.
        """
        k = np.where(new > 0, designs.pp, np.clip(b, 1.0, designs.pp))
        load = Load(b / k, ctx / designs.cp, new / (k * designs.cp), keys, 1.0 + self.draft_tokens)
        fullest, all_stages = self._stages_s(designs, load)
        hop = self._hops_s(designs, load)
        kernels = np.maximum(k * fullest, all_stages)
        factor = np.where(designs.attn_dp > 1, self.tuning.attn_dp, 1.0)
        prompts = np.where(new > 0, self.tuning.prompt_layer_s * len(self.card.stack), 0.0)
        host = k * self.tuning.step_s + b * self.tuning.sequence_s
        return np.asarray(kernels * factor + hop + host + prompts)

    def _hops_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of one token's way between stages, the sampled token's way back included."""
        each = self.links.hop_s(self._message(load), designs.gpus)
        return np.where(designs.pp > 1, designs.pp * each, 0.0)

    def _message(self, load: Load) -> Floats:
        """Bytes of a micro-batch between stages."""
        return ACTIVATION_BYTES * load.rows * self.card.hidden

    def _stages_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        """Seconds of one micro-batch on the fullest stage and on all stages, shape (n,): their layers, on the
        last the LM head and drafting."""
        per_layer = np.stack([self.layers.layer_s(kind, load, designs) for kind in self.kinds], axis=1)
        head = self.layers.head_s(load.decoded, designs) + self.drafting_s(load, designs)
        return self._over_stages(designs, per_layer, head)

    def drafting_s(self, load: Load, designs: Designs) -> Floats | float:
        """Seconds of drafting for every sequence of a micro-batch, shape (n,): nothing is drafted."""
        return 0.0

    def _over_stages(self, designs: Designs, per_layer: Floats, head: Floats) -> tuple[Floats, Floats]:
        """Largest and sum over each design's stages of a quantity by layer kind (n, kinds), with `head` (n,)
        on the last."""
        largest, total = np.empty(len(designs)), np.empty(len(designs))
        for pp in distinct(designs.pp):
            at = designs.pp == pp
            by_stage = per_layer[at] @ stage_counts(self.card, pp).T
            by_stage[:, -1] += head[at]
            largest[at], total[at] = by_stage.max(axis=1), by_stage.sum(axis=1)
        return largest, total

    def _busy_s(
        self, designs: Designs, b: Floats, ctx: Floats, new: Floats, keys: Floats
    ) -> tuple[Floats, Floats]:
        """Seconds that FLOPs at peak and bytes at full bandwidth take of a round on the fullest stage.

        Weights count once although every micro-batch reads them: a bound, not an estimate.
        """
        load = Load(b, ctx / designs.cp, new / designs.cp, keys, 1.0 + self.draft_tokens)
        none = np.zeros(len(designs))
        compute, memory = (self._over_stages(designs, x, none)[0] for x in self.at_peak_s(load, designs))
        return compute, memory

    def at_peak_s(self, load: Load, designs: Designs) -> tuple[Floats, Floats]:
        """Seconds that FLOPs at peak and bytes at full bandwidth take of a layer of each kind, (n, kinds)."""
        none = np.zeros(len(designs))
        busy = []
        for kind in self.kinds:
            works = self.layers.works(kind, load, designs)
            flops = sum((w.flops / peak for peak, w in works), none)
            moved = sum((w.bytes for _, w in works), none) / self.chip.bytes_per_s
            busy.append((flops, moved))
        return np.stack([x[0] for x in busy], axis=1), np.stack([x[1] for x in busy], axis=1)

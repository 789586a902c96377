"""CostModel: seconds of a step, its linear form, watts and error bands of replica designs, as arrays.

A step is one engine iteration of a server (an attention-dp rank with its stages; its peers do the same).
Every distinct layer is timed once and counted as often as a stage has it; a step takes the fullest stage.
With pp stages it is one round of pp micro-batches: pp times the fullest stage, and the hops of one token's
way; where the stages of an engine take turns, pp times all stages.

With speculative decoding (planner/drafts) a step verifies 1 + `draft_tokens` tokens of every sequence, whose
cache it reads once, and drafts the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.banded import Banded
from planner.cost.calibration import Calibration, Traits, shipped
from planner.cost.communication import Links
from planner.cost.efficiency.reading import Chip, Efficiency
from planner.cost.eras import TAKING_TURNS, engine_of
from planner.cost.fused import norm_apart_s
from planner.cost.launches import AROUND_S, Kernels, graph_tokens, hidden, launching_s
from planner.cost.layers import ACTIVATION_BYTES, Layers
from planner.cost.powered import own_limit_watts
from planner.cost.told import AS_USUAL, Told
from planner.designs.shape import Designs, Floats, Ints, Precisions, StepTimes, distinct
from planner.designs.stages import stage_counts
from planner.engines import named

SHORTEST_STEP_S = 1e-6
"""What every step takes beside its sequences: never nothing."""

SPREAD = 0.05
"""Half-width of the finite differences of `step_times`, relative to the operating point."""


class CostModel(Banded):
    """What one model takes on one node class, engine and set of precisions."""

    draft_tokens = 0
    """That a step verifies of each sequence beside the next one."""

    emitted = 1.0
    """Tokens that a step gives each sequence."""

    fewer_alike = False
    """Whether prompts that share a step may take less each: see `planner/operating/steps.py`."""

    @property
    def computed(self) -> float:
        """Tokens that a step computes of each sequence."""
        return 1.0 + self.draft_tokens

    def __init__(
        self,
        card: ModelCard,
        node_class: NodeClass,
        engine: str,
        precisions: Precisions,
        calibration: Calibration | None = None,
        told: Told = AS_USUAL,
    ) -> None:
        self.card, self.node_class, self.precisions = card, node_class, precisions
        self.memory_share = told.memory_share
        self.engine, self.takes_turns = engine_of(engine), engine in TAKING_TURNS
        self.chip = Chip.of(node_class.device)
        self.calibration = calibration or shipped()
        self.traits = Traits.of(card, node_class.device, engine, precisions)
        self.tuning = self.calibration.tuning(self.traits)
        self.fits = Efficiency(node_class.device, engine, self.tuning)
        self.links = Links(node_class, self.fits)
        generation = str(node_class.device.generation)
        apart_s = norm_apart_s(card, generation, engine)
        popularity = self.calibration.popularity
        self.layers = Layers(card, self.chip, self.fits, self.links, precisions, popularity, apart_s)
        self.kinds = card.kinds[0]
        kernels = Kernels.of(apart_s[0] > 0, self.engine, generation, precisions)
        self.launching_s = launching_s(card, self.tuning, kernels)
        usual = graph_tokens(card, generation, engine)
        self.graph_tokens = usual if told.graph_tokens is None else told.graph_tokens
        self.graphs_alone = named(self.engine).graphs_alone
        self.prompts_first = named(self.engine).prompts_first
        self.rank_waits = named(self.engine).rank_waits.get(generation, 1.0)
        self.ranks_gather = named(self.engine).balance_steps > 0
        self.shares_hops = named(self.engine).shares_hops
        self.decodes_whole = named(self.engine).decodes_whole
        self.limit_watts = own_limit_watts(node_class)

    def step_times(self, designs: Designs, load: Load) -> StepTimes:
        """The step as a linear function near the sequences and context of `load` with prompts in chunks of
        its tokens.

        Exact at the operating point without prompts, and with one chunk that attends to context/2 tokens;
        slopes are central differences, clipped to be >= 0 with t0 >= 0. Where a pipeline has hardly more
        sequences than stages, each is a micro-batch of its own, and once the fullest stage is always busy the
        last of them seems to make the whole round: there the slope is at most that of a full pipeline.
        """
        at = self._spread(designs, load)
        b, ctx, new = np.maximum(at.sequences, 1e-3), np.maximum(at.context, 1.0), np.maximum(at.tokens, 1.0)
        up, down, keys, none = 1 + SPREAD, 1 - SPREAD, ctx / 2, np.zeros(len(designs))
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
        stages = self.concurrent(designs).astype(np.float64)
        by_context = (longer - shorter) / (2 * SPREAD * b * ctx)
        by_sequence = (more - fewer) / (2 * SPREAD * b)
        few = np.flatnonzero((stages > 1) & (b * down < stages))
        if len(few):
            full, ctx_few, zero = np.maximum(b, stages)[few], ctx[few], none[few]
            points = [(full, ctx_few, zero, zero), (full * up, ctx_few, zero, zero)]
            filled, fuller = self._at_once(designs.take(few), points)
            by_sequence[few] = np.minimum(by_sequence[few], (fuller - filled) / (SPREAD * full))
        slope = np.clip(by_sequence, 0.0, np.maximum(here - SHORTEST_STEP_S, 0.0) / b)
        per_context = np.clip(by_context, 0.0, slope / ctx)
        per_sequence = np.maximum(slope - per_context * ctx, 0.0)
        per_pair = np.maximum((meeting - alone) / (new * keys), 0.0)
        per_token = np.maximum((meeting - here) / new - per_pair * keys, 0.0)
        t0 = np.maximum(here - slope * b, 0.0)
        return StepTimes(t0, per_token, per_pair, per_sequence, per_context, stages)

    def floor_s(self, designs: Designs, load: Load) -> Floats:
        """The roofline: no step under `load` can take less on this device, shape (n,)."""
        return np.maximum(*self.peaks_s(designs, load))

    def peaks_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        """Seconds of the step's FLOPs at peak, or at the best rates that were `reached`, and of its bytes at
        full bandwidth, shape (n,) each."""
        return self._busy_s(designs, self._spread(designs, load), reached)

    def engine_s(self, designs: Designs, sequences: Floats) -> Floats:
        """The engine's own share of a step without prompts, shape (n,): of each micro-batch, also of those
        that take turns."""
        return self._engine_s(sequences, self.decoding_batches(designs, sequences))

    def decoding_batches(self, designs: Designs, sequences: Floats) -> Floats:
        """Those that `sequences` decode in: one for each stage as far as they go round, or one of all."""
        return np.asarray(np.clip(sequences, 1.0, 1 if self.decodes_whole else designs.pp))

    def concurrent(self, designs: Designs) -> Ints:
        """Micro-batches that pass the stages at once: one where these take turns."""
        return np.ones_like(designs.pp) if self.takes_turns else designs.pp

    @property
    def most_gpus(self) -> int:
        """GPUs there are for one replica."""
        return self.node_class.gpus

    def hop_bytes(self, designs: Designs) -> Floats:
        """Bytes of a token between two stages."""
        return np.full(len(designs), ACTIVATION_BYTES * self.card.hidden)

    def needs_domain(self, designs: Designs) -> NDArray[np.bool_]:
        """Timed in one scale-up domain of several nodes, where that is not the class's to say."""
        return np.zeros(len(designs), dtype=bool)

    def _spread(self, designs: Designs, load: Load) -> Load:
        """The load of every design, with the tokens that a step verifies."""
        return load.over(len(designs), self.computed)

    def _at_once(self, designs: Designs, points: Sequence[tuple[Floats, ...]]) -> Floats:
        """`step_s` at several `points` of each design, shape (points, n): in one pass, as for few designs the
        calls cost more than the arithmetic."""
        every = designs.take(np.tile(np.arange(len(designs)), len(points)))
        b, ctx, new, keys = (np.concatenate(parts) for parts in zip(*points, strict=True))
        return self.step_s(every, Load(b, ctx, new, keys)).reshape(len(points), -1)

    def _round_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of one round, shape (n,): every sequence gets a token, all prompt tokens their turn. An
        engine that computes prompts first has them in steps of their own, for which weights are read again
        and which the host launches while the GPU still decodes (SGLang's overlap scheduler); so has one that
        cuts prompts, but not what decodes, into micro-batches of a pipeline."""
        apart = self.prompts_first | (designs.pp > 1) & self.decodes_whole
        rest, at, prompts = load.in_turn(apart)
        kernels_s, engine_s = self._steps_s(designs, rest)
        if len(at):
            more = self._steps_s(designs.take(at), prompts)
            kernels_s[at], engine_s[at] = kernels_s[at] + more[0], engine_s[at] + more[1]
        return np.asarray(self._launched_s(kernels_s, load, designs) + engine_s)

    def _steps_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        """Seconds of the kernels of a round whose prompts and sequences are in the same steps, and of the
        engine itself, shape (n,) each.

        k micro-batches share the work: pp of them, or `decoding_batches` without prompts. A round takes k
        times the fullest stage, and never less than one micro-batch's way through all stages; where stages
        take turns, k times that way.
        """
        cut = (load.tokens > 0) & (not self.takes_turns)
        k = np.where(cut, designs.pp, self.decoding_batches(designs, load.sequences))
        own = load.divided(k, designs.cp)
        fullest, all_stages = self._stages_s(designs, own)
        waits = np.where(designs.attn_dp > 1, self.tuning.attn_dp * self.rank_waits, 1.0)
        hops = self.hops_s(designs, own)
        if self.takes_turns:
            return k * (all_stages * waits + hops), self._engine_s(load.sequences, k)
        return np.maximum(k * fullest, all_stages) * waits + hops, self._engine_s(load.sequences, k)

    def _engine_s(self, sequences: Floats, micro_batches: Floats | float) -> Floats:
        """Seconds of the engine itself in a round of so many micro-batches without prompts."""
        return np.asarray(micro_batches * self.tuning.step_s + sequences * self.tuning.sequence_s)

    def _launched_s(self, kernels_s: Floats, load: Load, designs: Designs) -> Floats:
        """Seconds of kernels that the host launches one by one where a step has prompts: the one hides behind
        the other."""
        return np.where(load.tokens > 0, hidden(kernels_s, self.launching(load, designs)), kernels_s)

    def launching(self, load: Load, designs: Designs) -> Floats:
        """Seconds of the host to launch a step with prompts, less where these are replayed from graphs, and
        what it does for the others while they wait."""
        anywhere = not self.graphs_alone
        replayed = (load.tokens <= self.graph_tokens) & (
            anywhere | (designs.attn_dp == 1) & (designs.pp == 1)
        )
        around = AROUND_S * load.sequences if self.prompts_first else 0.0
        return np.where(replayed, self.tuning.captured, 1.0) * self.launching_s + around

    def hops_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of one token's way between stages, the sampled token's way back included."""
        ranks = designs.tp if self.shares_hops else np.ones_like(designs.tp)
        sent = self.links.round_s(self._message(load), designs.tp * designs.groups, designs.pp, ranks)
        return sent + (designs.pp - 1) * named(self.engine).hop_s

    def _message(self, load: Load) -> Floats:
        """Bytes of a micro-batch between stages."""
        return ACTIVATION_BYTES * load.rows * self.card.hidden

    def _stages_s(self, designs: Designs, load: Load) -> tuple[Floats, Floats]:
        """Seconds of one micro-batch on the fullest stage and on all stages, shape (n,): their layers, on the
        last the LM head and drafting."""
        per_layer = self.layers_s(load, designs)
        head = self.layers.head_s(load.sampled, designs) + self.drafting_s(load, designs)
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

    def _busy_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        """Seconds that FLOPs at peak (or at the best rates that were `reached`) and bytes at full bandwidth
        take of a round on the fullest stage.

        Weights count once although every micro-batch reads them: a bound, not an estimate.
        """
        own, none = load.divided(1, designs.cp), np.zeros(len(designs))
        compute, memory = self.at_peak_s(own, designs, reached)
        return self._over_stages(designs, compute, none)[0], self._over_stages(designs, memory, none)[0]

    @property
    def layers_by_kind(self) -> Ints:
        """How many layers of each kind the model has, (kinds,)."""
        return np.bincount(np.asarray(self.card.kinds[1]), minlength=len(self.kinds))

    def layers_s(self, load: Load, designs: Designs) -> Floats:
        """Seconds of a layer of each kind, (n, kinds)."""
        return np.stack([self.layers.layer_s(kind, load, designs) for kind in self.kinds], axis=1)

    def mean_layer_s(self, load: Load, designs: Designs) -> Floats:
        """Seconds of the mean layer, (n,)."""
        shares = self.layers_by_kind / len(self.card.stack)
        return np.asarray(self.layers_s(load, designs) @ shares)

    def at_peak_s(self, load: Load, designs: Designs, reached: bool = False) -> tuple[Floats, Floats]:
        """Seconds that FLOPs at peak (or at the best rates that were `reached`) and bytes at full bandwidth
        take of a layer of each kind, (n, kinds)."""
        none = np.zeros(len(designs))
        busy = []
        for kind in self.kinds:
            works = self.layers.works(kind, load, designs, reached)
            flops = sum((w.flops / peak for peak, w in works), none)
            busy.append((flops, sum((w.bytes for _, w in works), none) / self.chip.bytes_per_s))
        return np.stack([x[0] for x in busy], axis=1), np.stack([x[1] for x in busy], axis=1)

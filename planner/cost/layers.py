"""Seconds of one layer of a model on one server, by part: GEMMs, attention, experts, glue and messages.

A layer is a mixer (attention or a recurrent kind) and an FFN. tp divides the heads and dense matrices of a
server; experts are divided over the ranks of all groups of a stage (moe_tp * ep of them). All shapes (n,).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from model_zoo.derive import kv_elements_per_token, kv_shards
from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms, v_dim
from model_zoo.schema import KV_BYTES, Attention, DenseFfn, Gemm, Layer, Mla, ModelCard, MoeFfn
from planner.cost import attention
from planner.cost.attention import Load, Recurrent
from planner.cost.communication import Links
from planner.cost.compute import Matmul, Work, glue_s, kernel_s, matmul_s, sharded
from planner.cost.efficiency.reading import Chip, Efficiency
from planner.cost.exchange import Exchange, taking_turns
from planner.cost.experts import AS_ASSUMED, Routed, expert_work, experts_s
from planner.cost.fused import MOST_TOKENS, absorbing_kernels, joint_norms_apart, quantised_before
from planner.cost.popularity import Popularity
from planner.designs.precision import MatrixPrecision
from planner.designs.shape import Designs, Floats, Ints, Precisions

ACTIVATION_BYTES = 2.0
NORM_BYTES = 8.0
"""A token's two sums of squares, of Q and of K over the heads of all ranks (vLLM's
`MiniMaxText01RMSNormTP`)."""

MIXER_KERNELS = 2
"""Small kernels around attention: norm with residual, rotary embedding with cache write."""
JOINT_KERNELS = 2
"""Small kernels of norms over the heads of all ranks: the sums of squares, and the norm."""
FFN_KERNELS = 2
"""Small kernels around an FFN: norm with residual, activation."""


class Layers:
    """The layers of one model on one device under one engine."""

    def __init__(
        self,
        card: ModelCard,
        chip: Chip,
        fits: Efficiency,
        links: Links,
        used: Precisions,
        popularity: Popularity = AS_ASSUMED,
        norm_apart_s: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.popularity, self.norm_apart_s = popularity, norm_apart_s
        self.card, self.chip, self.fits, self.links, self.used = card, chip, fits, links, used
        self.exchange = Exchange(links, fits.sends_wide)
        self.precision = MatrixPrecision(card, used)
        self.glue = fits.fit("elementwise", "bf16")

    def layer_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """Seconds of one layer: of a batch, or of two halves that take turns where experts are far away."""
        seconds = self.mixer_s(layer, load, designs) + self.ffn_s(layer, load, designs)
        if not isinstance(layer.ffn, MoeFfn) or not (apart := self.exchange.apart(designs)).any():
            return seconds
        at = np.flatnonzero(apart).astype(np.int64)
        half, some = load.take(at).divided(2), designs.take(at)
        computed = self.mixer_s(layer, half, some) + self._ffn_computed_s(layer, half, some)
        sent = self._ffn_messages_s(layer, half, some)
        seconds[at] = taking_turns(seconds[at], computed, sent, half.tokens > 0)
        return seconds

    def mixer_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """Seconds of the mixer with its all-reduce over tp."""
        mixer, rows, tp = layer.mixer, load.rows, designs.tp
        if mixer is None:
            return np.zeros(len(designs))
        t = self._mixer_computed_s(layer, load, designs)
        if (designs.cp > 1).any() and isinstance(mixer, Attention | Mla):
            t = t + np.where(designs.cp > 1, self._context_s(mixer, load, designs), 0.0)
        if getattr(mixer, "joint_norm", False):
            t = t + self._joint_norm_s(rows, tp)
        return t + self.summed_s(rows, tp, designs.attn_dp)

    def _joint_norm_s(self, rows: Floats, tp: Ints) -> Floats:
        """Seconds of norms of Q and K over the heads of all ranks: an all-reduce of the sums of squares, and
        the small kernels before and after it where no other takes them in (fused.py)."""
        t = self.links.all_reduce_s(NORM_BYTES * rows, tp)
        if not joint_norms_apart(self.fits.engine):
            return t
        message = ACTIVATION_BYTES * rows * self.card.hidden / tp
        return t + glue_s(self.glue, self.chip, 4 * message, JOINT_KERNELS)

    def summed_s(self, rows: Floats, tp: Ints, groups: Ints | int = 1) -> Floats:
        """Seconds of an all-reduce of `rows` tokens over tp, and what the norm after it takes apart: where
        there are `groups` of ranks more."""
        sent = self.links.all_reduce_s(ACTIVATION_BYTES * rows * self.card.hidden, tp)
        alone_s, grouped_s = self.norm_apart_s
        if not grouped_s:
            return sent
        apart = (tp > 1) & (rows > 0) & (rows <= MOST_TOKENS)
        return np.asarray(sent + np.where(apart, np.where(groups > 1, grouped_s, alone_s), 0.0))

    def _mixer_computed_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """What a rank computes of the mixer."""
        t = self._gemms_s(self.mixer_matmuls(layer, designs.tp), load.rows)
        t = t + self._mixed_s(layer, load, designs)
        if isinstance(layer.mixer, Mla):
            t = t + self._absorbing_s(layer.mixer, load, designs.tp)
        message = ACTIVATION_BYTES * load.rows * self.card.hidden
        return t + glue_s(self.glue, self.chip, 4 * message, MIXER_KERNELS)

    def _absorbing_s(self, mixer: Mla, load: Load, tp: Ints) -> Floats:
        """Seconds of the small kernels around decoding tokens' products in the latent form (fused.py)."""
        kernels = absorbing_kernels(self.fits.engine, self.fits.generation, self.used.gemm)
        width = mixer.heads * (mixer.qk_nope + mixer.kv_lora_rank) / tp
        moved = 2 * ACTIVATION_BYTES * load.decoded * width
        return glue_s(self.glue, self.chip, moved, kernels) if kernels else 0.0 * load.rows

    def _mixed_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """Seconds of attention, or of its recurrent kin, beside their GEMMs."""
        if isinstance(layer.mixer, Attention | Mla):
            return self._attention_s(layer.mixer, load, designs.tp)
        return self._recurrent_s(layer.mixer, load, designs.tp) if layer.mixer else np.zeros(len(designs))

    def computed_s(self, layer: Layer, load: Load, designs: Designs) -> tuple[Floats, Floats, Floats]:
        """Seconds of what a rank computes of a layer: attention, routed experts, and the matrices that every
        token passes with the small kernels around them."""
        attention, routed = self._mixed_s(layer, load, designs), self.routed_s(layer, load, designs)
        own = self._mixer_computed_s(layer, load, designs) if layer.mixer else 0.0
        return attention, routed, own + self._ffn_computed_s(layer, load, designs) - attention - routed

    def _context_s(self, mixer: Attention | Mla, load: Load, designs: Designs) -> Floats:
        """Seconds of messages between context-parallel groups: keys and values that prompt tokens attend to
        pass all groups in a ring (Liu et al. 2023, Ring Attention), not hidden behind attention here; the
        parts of decoding sequences' outputs are summed."""
        each = KV_BYTES[self.used.kv] * kv_elements_per_token(mixer)
        cached = np.where(load.tokens > 0, attention.entries(mixer, 2 * load.keys) * each, 0.0)
        ring = self.links.ring_s(cached / np.minimum(designs.tp, kv_shards(mixer)), designs.tp, designs.cp)
        width = mixer.kv_lora_rank if isinstance(mixer, Mla) else v_dim(mixer)
        merged = ACTIVATION_BYTES * load.decoded * mixer.heads * width / designs.tp
        return ring + 2 * self.links.ring_s(merged, designs.tp, designs.cp)

    def ffn_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """Seconds of the FFN with its messages."""
        return self._ffn_computed_s(layer, load, designs) + self._ffn_messages_s(layer, load, designs)

    def _ffn_computed_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """What a rank computes of the FFN."""
        ffn, rows, tp = layer.ffn, load.rows, designs.tp
        if ffn is None:
            return np.zeros(len(designs))
        t = self._gemms_s(self.ffn_matmuls(layer, tp), rows)
        message = ACTIVATION_BYTES * rows * self.card.hidden
        inner = ffn.inner if isinstance(ffn, DenseFfn) else ffn.shared_inner
        glued = 4 * message + 3 * ACTIVATION_BYTES * rows * inner / tp
        t = t + glue_s(self.glue, self.chip, glued, FFN_KERNELS)
        return t + self.routed_s(layer, load, designs)

    def _ffn_messages_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """An all-reduce over tp, or tokens to their experts and back."""
        ffn, rows = layer.ffn, load.rows
        if ffn is None:
            return np.zeros(len(designs))
        all_reduce = self.summed_s(rows, designs.tp)
        if not isinstance(ffn, MoeFfn) or not (designs.groups > 1).any():
            return all_reduce
        sent = self.exchange.seconds(ffn, self.card.hidden, rows, designs, load.tokens > 0)
        return np.where(designs.groups > 1, sent, all_reduce)

    def routed_s(self, layer: Layer, load: Load, designs: Designs) -> Floats:
        """Seconds of the routed experts of the FFN, 0 where it has none."""
        ffn = layer.ffn
        if not isinstance(ffn, MoeFfn):
            return np.zeros(len(designs))
        precision, each = self.expert_weights(layer)
        tokens = load.rows * designs.groups
        routed = Routed(ffn, self.card.hidden, tokens, designs, each, self.popularity)
        alone, ranks = self.fits.families(precision, self.used.kernels)
        seconds = experts_s(self.fits.fit("moe", precision, family=alone), self.chip, routed)
        if alone == ranks or not (designs.attn_dp > 1).any():
            return seconds
        others = experts_s(self.fits.fit("moe", precision, family=ranks), self.chip, routed)
        return np.where(designs.attn_dp > 1, others, seconds)

    def head_s(self, rows: Floats, designs: Designs) -> Floats:
        """Seconds of the LM head: one row a decoded token."""
        gemm = Gemm("lm_head", self.card.vocab, self.card.hidden, "out")
        name = self.precision.lm_head
        return self._gemms_s([(name, sharded(gemm, designs.tp, self.precision.bytes(name)))], rows)

    def draft_s(self, load: Load, tokens: int, designs: Designs) -> Floats:
        """Seconds in which this model drafts `tokens` for every sequence, one after the other, by all its
        layers and the LM head. The first pass takes in all tokens of the step."""
        one = replace(load, tokens=0 * load.tokens, queries=1.0)
        again = self._all_s(one, designs) if tokens > 1 else 0.0
        picked = tokens * self.head_s(load.sequences, designs)
        return np.asarray(self._all_s(load, designs) + (tokens - 1) * again + picked)

    def _all_s(self, load: Load, designs: Designs) -> Floats:
        """Seconds of all layers."""
        kinds, index = self.card.kinds
        each = [index.count(i) * self.layer_s(kind, load, designs) for i, kind in enumerate(kinds)]
        return np.asarray(np.sum(each, axis=0))

    def works(
        self, layer: Layer, load: Load, designs: Designs, reached: bool = False
    ) -> list[tuple[float, Work]]:
        """All FLOPs and bytes of a layer with the peak FLOP/s they could run at (or the best that was
        `reached`): what `roofline` adds up."""
        matmuls = self.mixer_matmuls(layer, designs.tp) + self.ffn_matmuls(layer, designs.tp)
        found = [(self.rate("gemm", p, reached), m.work(load.rows, 0.0)) for p, m in matmuls]
        mixer = layer.mixer
        if isinstance(mixer, Attention | Mla):
            fastest = max(
                map(self.chip.most, self.chip.flops_per_s) if reached else self.chip.flops_per_s.values()
            )
            found += [(fastest, attention.decode_work(mixer, load, designs.tp, self.used.kv))]
            found += [(fastest, attention.prefill_work(mixer, load, designs.tp))]
        elif mixer is not None:
            peak = self.rate("recurrent_prefill", attention.recurrent_kind(mixer), reached)
            found += [(peak, attention.recurrent_decode_work(mixer, load, designs.tp))]
            found += [(peak, attention.recurrent_prefill_work(mixer, load, designs.tp))]
        if isinstance(layer.ffn, MoeFfn):
            precision, each = self.expert_weights(layer)
            tokens = load.rows * designs.groups
            routed = Routed(layer.ffn, self.card.hidden, tokens, designs, each, self.popularity)
            work = expert_work(routed)
            found += [(self.rate("moe", precision, reached), Work(work.flops, work.weights, 0.0 * tokens))]
        return found

    def mixer_matmuls(self, layer: Layer, tp: Ints) -> list[tuple[str, Matmul]]:
        """The GEMMs of the mixer as one rank runs them, each with its precision."""
        gemms = mixer_gemms(layer.mixer, self.card.hidden)
        return [self._sharded(gemm, self.precision.attention(layer, gemm), tp) for gemm in gemms]

    def ffn_matmuls(self, layer: Layer, tp: Ints) -> list[tuple[str, Matmul]]:
        """The GEMMs of the FFN that every token passes (routed experts apart), each with its precision."""
        gemms = ffn_gemms(layer.ffn, self.card.hidden)
        return [self._sharded(gemm, self.precision.dense(layer, gemm), tp) for gemm in gemms]

    def _sharded(self, gemm: Gemm, name: str, tp: Ints) -> tuple[str, Matmul]:
        quantised = quantised_before(gemm.name, name, self.fits.engine)
        return name, sharded(gemm, tp, self.precision.bytes(name), quantised)

    def _gemms_s(self, matmuls: list[tuple[str, Matmul]], rows: Floats) -> Floats:
        """Seconds of `rows` through all `matmuls`."""
        t = np.zeros(len(rows))
        for name, matmul in matmuls:
            t = t + matmul_s(self.fits.fit("gemm", name), self.chip, matmul, rows)
        return t

    def _attention_s(self, mixer: Attention | Mla, load: Load, tp: Ints) -> Floats:
        """Decoding sequences and prompt tokens are separate kernels; so is the scoring of sparse
        attention."""
        kind, size = ("mla_", None) if isinstance(mixer, Mla) else ("", (mixer.head_dim + v_dim(mixer)) // 2)
        kv = self.used.kv
        decode, prefill = (self.fits.fit(kind + phase, kv, size) for phase in ("decode", "prefill"))
        t = kernel_s(decode, self.chip, attention.decode_work(mixer, load, tp, kv), load.sequences > 0)
        t = t + kernel_s(prefill, self.chip, attention.prefill_work(mixer, load, tp), load.tokens > 0)
        if mixer.indexer and not mixer.indexer.shared:
            work = attention.index_work(mixer, mixer.indexer, load, kv)
            t = t + kernel_s(self.fits.fit("index", "bf16"), self.chip, work, load.rows > 0)
        return t

    def _recurrent_s(self, mixer: Recurrent, load: Load, tp: Ints) -> Floats:
        """Decoding sequences and prompt tokens are separate kernels."""
        kind = attention.recurrent_kind(mixer)
        decode, prefill = (self.fits.fit(f"recurrent_{phase}", kind) for phase in ("decode", "prefill"))
        t = kernel_s(decode, self.chip, attention.recurrent_decode_work(mixer, load, tp), load.sequences > 0)
        work = attention.recurrent_prefill_work(mixer, load, tp)
        return t + kernel_s(prefill, self.chip, work, load.tokens > 0)

    def expert_weights(self, layer: Layer) -> tuple[str, float]:
        """Precision of the routed experts and bytes a weight, averaged over their matrices."""
        gemms = expert_gemms(layer.ffn, self.card.hidden)
        names = [self.precision.expert(layer, g) for g in gemms]
        held = sum(g.params * self.precision.bytes(n) for g, n in zip(gemms, names, strict=True))
        return names[0], held / sum(g.params for g in gemms)

    def rate(self, kernel: str, precision: str, reached: bool = False) -> float:
        """FLOP/s that a kernel could run at: the peak, or the best that was `reached`."""
        rate = self.fits.fit(kernel, precision).peak
        return self.chip.most(rate) if reached else self.chip.peak(rate)[0]

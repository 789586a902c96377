"""Seconds, watts and memory of decode replicas whose attention and FFNs stand on different GPUs
(attention-FFN disaggregation, AFD): each block by the cost model of its class, and messages between them.

The attention block has attn_dp ranks of tp GPUs: attention weights, KV cache, embedding, LM head, sampling.
The FFN block has moe_tp * ep GPUs: experts divided by both, what every token passes (dense layers, shared
experts, routers) by moe_tp and repeated ep times; a dense model has ep = 1. Prompts come from prefill
replicas, their cache goes to the attention block. A **layout** is one such replica; a design names one by its
index.

A step decodes b sequences on each of r = attn_dp ranks, in m micro-batches that take turns. Of a layer and a
micro-batch

    A     the mixer of b/m sequences on one rank
    F     the FFN of r*b/m tokens on its block, with what its GPUs exchange inside a scale-up domain
    D, C  tokens sent to the FFN block (dispatch), results sent back (combine): each way runs by itself

and each of the four is one resource that serves a micro-batch at a time, in order of layers, then of
micro-batches; the LM head stands after the last layer, on A. The step is what this line takes (`line_s`), and
the engine's own seconds. With n equal layers, L = A + F + D + C and B = max(A, F, D, C), that is

    (n - 1) * max(L, m*B)   every layer: one micro-batch's way, or all m on the busiest
    + L + (m - 1)*B         the last layer, and the line drains

and m = 1 is plain turns. Of MICRO_BATCHES the m with the shortest step is taken, at most one a sequence.

Messages have 16 bits a value, 8 towards experts that are divided (as in `Layers`). Each attention GPU sends
an equal part of its rank's tokens, each FFN GPU takes an equal part of all: the slower side, and a declared
link between the classes, set the time. A token goes once to each scale-up domain of the FFN block that holds
one of its top_k experts, N*(1 - (1 - 1/N)^k) of N on average, and inside it on to them (that is in F). Where
both blocks are of one class and stand in one domain its links carry all; else the NICs.

Source: the line of micro-batches is MegaScale-Infer's (arXiv:2504.02263, m*F >= 2*(F + D) where A = F); see
also Step-3 (arXiv:2507.19427). Draining, unlike layers and the engine are ours. Error: unknown, no run of
such a replica is among our measurements (docs/afd.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import ClusterLink, NodeClass, declared_link
from model_zoo.schema import DenseFfn, Layer, ModelCard, MoeFfn
from planner.cost.afd_layout import Layout, blocks, together
from planner.cost.afd_line import Parts, line_s
from planner.cost.attention import Load
from planner.cost.bands import WIDE
from planner.cost.calibration import Calibration
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.memory import Memory, device_bytes, room_by_stage
from planner.cost.model import CostModel
from planner.cost.reserve import Sequences, taken
from planner.cost.several import SeveralClasses
from planner.designs.shape import Designs, Floats, Ints, Precisions
from planner.designs.shape import which as which_of

Bools = NDArray[np.bool_]

MICRO_BATCHES = (1, 2, 3, 4)
"""Tried in every step: where A = F, 2 hide no message and 3 those of half that time (MegaScale-Infer)."""


class AfdModel(SeveralClasses):
    """What a model takes in each of `layouts` on several node classes; designs: `afd_layout.designs_of`."""

    def __init__(
        self,
        card: ModelCard,
        classes: Sequence[NodeClass],
        links: Sequence[ClusterLink],
        layouts: Sequence[Layout],
        engine: str,
        precisions: Precisions,
        calibration: Calibration | None = None,
        micro_batches: Sequence[int] = MICRO_BATCHES,
    ) -> None:
        self.nodes = {c.id: c for c in classes}
        stagings = [blocks(x, self.nodes, len(card.stack)) for x in layouts]
        super().__init__(card, classes, links, stagings, engine, precisions, calibration)
        self.names = tuple(self.of_class)
        self.of_class = {g: _half(m, mixer=True) for g, m in self.of_class.items()}
        # as if it stood in one domain: what crosses nodes is in D and C
        wide = [replace(c, scale_up_gpus=max(c.gpus, c.scale_up_gpus)) for c in classes]
        within = {c.id: CostModel(card, c, engine, precisions, calibration) for c in wide}
        self.ffn_of = {g: _half(m, mixer=False) for g, m in within.items()}
        self.layouts, self.micro_batches = tuple(layouts), tuple(sorted(micro_batches))
        self.counts = self.layers_by_kind.astype(np.float64)
        self.attends, self.feeds = (
            np.array([self.names.index(getattr(x, side)) for x in layouts], dtype=np.int64)
            for side in ("attention", "ffn")
        )
        self.near = np.array([together(x, self.nodes) for x in layouts], dtype=bool)
        sizes = [-(-x.ffn_gpus // self.nodes[x.ffn].scale_up_gpus) for x in layouts]
        self.domains = np.array(sizes, dtype=np.int64)
        self.link_s, self.link_s_per_byte = self._declared(links)

    def cache_gpus(self, designs: Designs) -> Ints:
        """GPUs that a prompt's cache goes to, (n,)."""
        return designs.tp * designs.attn_dp

    def hop_bytes(self, designs: Designs) -> Floats:
        """Bytes that a decoded token sends between the blocks in all layers, the fuller way, (n,)."""
        ways = np.zeros((2, len(designs)))
        for kind, layers in zip(self.kinds, self.counts, strict=True):
            if kind.mixer is not None and kind.ffn is not None:
                ways += layers * np.array(self._sent_bytes(kind.ffn, designs, np.ones(len(designs))))
        return np.asarray(ways.max(axis=0))

    def needs_domain(self, designs: Designs) -> Bools:
        """Whether it was timed in one scale-up domain of several nodes, (n,)."""
        whole = np.array([c.gpus_per_node for c in self.nodes.values()])
        which = which_of(designs)
        return np.asarray(self.near[which] & (designs.gpus > whole[self.attends[which]]))

    def sigmas(self, designs: Designs) -> Floats:
        """Deviations of the log of measured over predicted TTFT and TPOT, (2, n): as wide as the less known
        of the classes has them, and wider, as no run of such a replica is known."""
        return np.asarray(np.hypot(super().sigmas(designs), WIDE))

    def best_micro_batches(self, designs: Designs, load: Load) -> Ints:
        """Micro-batches of the shortest step, (n,)."""
        best = self._lines_s(designs, self._spread(designs, load)).argmin(axis=0)
        return np.asarray(np.array(self.micro_batches, dtype=np.int64)[best])

    def parts(self, designs: Designs, load: Load) -> Parts:
        """Seconds of a micro-batch; `load` is one attention rank's."""
        which, shape = which_of(designs), (len(designs), len(self.kinds))
        attention, ffn, head = np.zeros(shape), np.zeros(shape), np.zeros(len(designs))
        for g, rows in self._classes(self.attends[which]):
            m, at, own = self.of_class[g], designs.take(rows), load.take(rows)
            attention[rows], head[rows] = m.layers_s(own, at), m.layers.head_s(own.decoded, at)
        whole, on_ffn = _ffn_load(load, designs), _ffn_designs(designs)
        for g, rows in self._classes(self.feeds[which]):
            ffn[rows] = self.ffn_of[g].layers_s(whole.take(rows), on_ffn.take(rows))
        dispatch, combine = self._messages_s(designs, load.rows * designs.attn_dp)
        return Parts(attention, ffn, dispatch, combine, head)

    def watts(self, designs: Designs, load: Load, utilisation: Floats | float) -> Floats:
        """Watts of a replica, shape (n,): each block by its own device."""
        load = self._spread(designs, load)
        step = np.maximum(self._round_s(designs, load), 1e-9)
        busy, which = np.broadcast_to(utilisation, step.shape), which_of(designs)
        total = np.zeros(len(designs))
        for side, gpus, compute, memory in self._sides(designs, load):
            for g, rows in self._classes(side[which]):
                m, shares = self.of_class[g], (compute[rows] / step[rows], memory[rows] / step[rows])
                total[rows] += gpus[rows] * m.gpu_watts(busy[rows], *shares)
        return total

    def _fullest(self, designs: Designs, every: Memory, tokens: Floats) -> Memory:
        """The attention block, which has all cache; kv < 0 by what the FFN block lacks where it does not
        fit."""
        own = every.at(np.zeros(len(designs), dtype=np.int64))
        return replace(own, kv_bytes=np.where(every.kv_bytes[:, 1] < 0, every.kv_bytes[:, 1], own.kv_bytes))

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of a GPU of the attention block and one of the FFN block, shape (n, 2)."""
        parts = np.zeros((5, len(designs), 2))
        halves = (self.attends, attention_only(self.card)), (self.feeds, ffn_only(self.card))
        for j, (side, card) in enumerate(halves):
            for g, rows in self._classes(side[which_of(designs)]):
                at, own = designs.take(rows), device_bytes(self.nodes[g].device)
                at = at if j == 0 else replace(at, tp=at.moe_tp)  # tokens of all attention ranks
                most = taken(sequences, rows)
                m = room_by_stage(card, own, at, self.precisions, self.engine, tokens_per_step, most)
                for part, x in zip(parts, m.parts, strict=True):
                    part[rows, j] = x[:, 0]
        return Memory.by_stage(parts)

    def _round_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of a step with the best number of micro-batches."""
        line = self._lines_s(designs, load).min(axis=0)
        waits = np.where(designs.attn_dp > 1, self.tuning.attn_dp, 1.0)
        launched = self._launched_s(line * waits, load, designs)
        return np.asarray(launched + self._engine_s(load.sequences, 1.0))

    def _lines_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of kernels and messages with each number of micro-batches, (choices, n); infinite with more
        of them than sequences."""
        choices, n = np.array(self.micro_batches), len(designs)
        m, each = np.repeat(choices, n), np.tile(np.arange(n), len(choices))
        parts = self.parts(designs.take(each), load.take(each).divided(m))
        line = line_s(parts, self.card.kinds[1], self.micro_batches)
        return np.where(choices[:, None] <= np.maximum(np.rint(load.sequences), choices[0]), line, np.inf)

    def _busy_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        sides = self._sides(designs, load, reached)
        return np.maximum(sides[0][2], sides[1][2]), np.maximum(sides[0][3], sides[1][3])

    def _sides(
        self, designs: Designs, load: Load, reached: bool = False
    ) -> list[tuple[Ints, Ints, Floats, Floats]]:
        """What either block is and is busy for: the class of each layout, GPUs, seconds at peak FLOP/s (or at
        the best that was `reached`) and at full bandwidth."""
        found, which = [], which_of(designs)
        gpus = designs.tp * designs.attn_dp
        for side, size, models, at, own in (
            (self.attends, gpus, self.of_class, designs, load),
            (self.feeds, designs.gpus - gpus, self.ffn_of, _ffn_designs(designs), _ffn_load(load, designs)),
        ):
            compute, memory = np.zeros(len(designs)), np.zeros(len(designs))
            for g, rows in self._classes(side[which]):
                peak = models[g].at_peak_s(own.take(rows), at.take(rows), reached)
                compute[rows], memory[rows] = (x @ self.counts for x in peak)
            found.append((side, size, compute, memory))
        return found

    def _messages_s(self, designs: Designs, tokens: Floats) -> tuple[Floats, Floats]:
        """Seconds of dispatch and combine of `tokens` (n,) of all ranks, by kind of layer (n, kinds)."""
        attention_gpus = designs.tp * designs.attn_dp
        ends = ((self.attends, attention_gpus), (self.feeds, designs.gpus - attention_gpus))
        which = which_of(designs)
        t = np.zeros((2, len(designs), len(self.kinds)))
        for k, kind in enumerate(self.kinds):
            if kind.mixer is None or kind.ffn is None:
                continue  # tokens stay where they are
            for i, sent in enumerate(self._sent_bytes(kind.ffn, designs, tokens)):
                slower = np.max([self._end_s(designs, side, sent / gpus) for side, gpus in ends], axis=0)
                t[i, :, k] = slower + self.link_s[which] + sent * self.link_s_per_byte[which]
        return t[0], t[1]

    def _sent_bytes(self, ffn: DenseFfn | MoeFfn, designs: Designs, tokens: Floats) -> tuple[Floats, Floats]:
        """Bytes of `tokens` to the FFN block and back, in all copies, (n,) each."""
        whole = tokens * ACTIVATION_BYTES * self.card.hidden
        if isinstance(ffn, DenseFfn):
            return whole, whole
        domains = self.domains[which_of(designs)]
        copies = domains * -np.expm1(ffn.top_k * np.log1p(-1 / np.maximum(domains, 2)))
        whole = whole * np.where(domains > 1, copies, 1.0)
        return np.where(designs.ep > 1, whole / 2, whole), whole

    def _end_s(self, designs: Designs, side: Ints, message: Floats) -> Floats:
        """Seconds of `message` bytes through each GPU of the block on the classes `side`, (n,)."""
        which, t = which_of(designs), np.zeros(len(designs))
        for g, rows in self._classes(side[which]):
            links = self.of_class[g].links
            t[rows] = links.hop_s(message[rows], np.where(self.near[which[rows]], 1, links.domain + 1))
        return t

    def _classes(self, side: Ints) -> list[tuple[str, Ints]]:
        """The classes that occur in `side` (n,), each with its rows."""
        found = [(g, np.flatnonzero(side == i).astype(np.int64)) for i, g in enumerate(self.names)]
        return [(g, rows) for g, rows in found if len(rows)]

    def _declared(self, links: Sequence[ClusterLink]) -> tuple[Floats, Floats]:
        """Latency and seconds a byte, for every layout, of the declared link that its messages cross, or
        0."""
        found = np.zeros((2, len(self.layouts)))
        for i, x in enumerate(self.layouts):
            link = declared_link(links, self.nodes[x.attention], self.nodes[x.ffn])
            if link is not None:
                found[:, i] = link.latency_s, 1 / link.bytes_per_s
        return found[0], found[1]


def _half(model: CostModel, mixer: bool) -> CostModel:
    """`model` with only the mixers or only the FFNs of its layers."""
    model.kinds = tuple(Layer(k.mixer, None) if mixer else Layer(None, k.ffn) for k in model.kinds)
    return model


def attention_only(card: ModelCard) -> ModelCard:
    return ModelCard.model_construct(**{**dict(card), "ffns": {}})


def ffn_only(card: ModelCard) -> ModelCard:
    rest = {"mixers": {}, "vocab": 0, "vision_params": 0, "extra_params": 0}
    return ModelCard.model_construct(**{**dict(card), **rest})


def _ffn_designs(designs: Designs) -> Designs:
    """The FFN block as `Layers` knows designs: what every token passes on groups of moe_tp, side by side."""
    return replace(designs, tp=designs.moe_tp, attn_dp=designs.ep)


def _ffn_load(load: Load, designs: Designs) -> Load:
    """The load of one group of the FFN block: its share of all ranks' tokens, which attend to nothing
    there."""
    none = np.zeros(len(designs))
    return Load(load.rows * designs.attn_dp / designs.ep, none, none, none)

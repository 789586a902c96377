"""Bytes of weights on one GPU of a stage, counted anew from the card: the least any engine holds, and the
most.

Engines differ: dense layers beside attention-dp are split over the rank or over the whole stage, shared
experts are split or copied, vision towers and MTP layers are loaded or left out. `Span.low` takes the
leanest choice everywhere and `Span.high` the most generous one. A plan must state something between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from model_zoo.schema import (
    KV_BYTES,
    WEIGHT_BYTES,
    Attention,
    DenseFfn,
    Indexer,
    Layer,
    LinearAttention,
    Mamba2,
    Mla,
    ModelCard,
    MoeFfn,
)
from planner.plans.schema import PrecisionUsed, Replica

WIDEST_BYTES = 4.0  # an unquantised leftover kept in fp32


@dataclass(frozen=True)
class Span:
    """Least and most."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    def times(self, span: Span) -> Span:
        """Product of two spans of numbers >= 0."""
        return Span(self.low * span.low, self.high * span.high)


@dataclass(frozen=True)
class Split:
    """How many ways a stage is cut: `tp` within a rank, `gpus` in all, `experts` = moe_tp * ep there, over
    which `copies` of experts lie beside one each."""

    tp: int
    gpus: int
    experts: int
    copies: int = 0


WHOLE = Split(1, 1, 1)


def known(used: PrecisionUsed) -> bool:
    """Whether bytes are known of all that the precisions name."""
    return {used.weights, used.experts} <= WEIGHT_BYTES.keys() and used.kv in KV_BYTES


@dataclass(frozen=True)
class Parts:
    """Parameters (or bytes) of one GPU of a stage, by kind of weight."""

    attention: Span = Span()
    dense: Span = Span()
    experts: Span = Span()
    embedding: Span = Span()  # the input table: looked up, never read as a whole
    head: Span = Span()
    other: Span = Span()  # norms, routers, vision tower, MTP layers: in none of the low figures

    def __add__(self, other: Parts) -> Parts:
        return Parts(*(a + b for a, b in zip(self.spans, other.spans, strict=True)))

    def times(self, layers: int) -> Parts:
        """The same of so many layers."""
        return Parts(*(span.times(Span(layers, layers)) for span in self.spans))

    @property
    def spans(self) -> list[Span]:
        """Kind by kind."""
        return [*vars(self).values()]

    @property
    def total(self) -> Span:
        """All kinds together."""
        return sum(self.spans, Span())


@dataclass(frozen=True)
class Away:
    """What of a replica lies beside its GPUs: so many layers before the first stage, and of layers the share
    of their routed experts; layers whose weights are copied to the GPUs in every step; and behind a stage so
    many layers in its node's memory."""

    layers: int = 0
    experts: Mapping[int, float] = field(default_factory=dict)
    streamed: frozenset[int] = frozenset()
    after: Mapping[int, int] = field(default_factory=dict)


ALL_HERE = Away()


def counted(layers: Sequence[Layer]) -> list[tuple[Layer, int]]:
    """Layers that are one and the same once, and how many of them there are."""
    one = {id(layer): layer for layer in layers}
    return [(one[key], count) for key, count in Counter(map(id, layers)).items()]


def stage_bytes(card: ModelCard, replica: Replica, index: int, away: Away = ALL_HERE) -> Parts:
    """Bytes of weights on one GPU of stage `index`, by kind."""
    stage, used = replica.stages[index], replica.precision
    split, parts = Split(stage.tp, stage.gpus, stage.gpus, replica.redundant_experts), Parts()
    kinds, order = card.kinds
    here = (i for i in range(*stage.layers) if i not in away.streamed)
    for (kind, gone), count in Counter((order[i], away.experts.get(i, 0.0)) for i in here).items():
        own = layer_bytes(card, used, kinds[kind], split)
        left = replace(own, experts=own.experts.times(Span(1 - gone, 1 - gone))) if gone else own
        parts += left.times(count)
    first = stage.layers[0] == 0 or (index == 0 and away.layers > 0)
    ends = end_params(card, split, first, stage.layers[1] == len(card.stack))
    return parts + in_bytes(ends, card, used, Layer(None, None))


def layer_bytes(card: ModelCard, used: PrecisionUsed, layer: Layer, split: Split) -> Parts:
    """Bytes of weights of one layer on one GPU, by kind."""
    return in_bytes(layer_params(layer, card.hidden, split), card, used, layer)


def end_params(card: ModelCard, split: Split, first: bool, last: bool) -> Parts:
    """Parameters on one GPU outside the layers: who runs the first embeds, who runs the last has the LM head
    and MTP layers."""
    table = float(card.vocab * card.hidden)
    spread = Span(table / split.gpus, table)
    parts = Parts(embedding=spread) if first else Parts()
    other = float(card.extra_params + card.vision_params)
    if last:
        shared = first and card.tied_embeddings
        parts += Parts(head=Span(spread.low, 0.0 if shared else spread.high))
        parts += Parts(embedding=Span(-spread.low, 0.0)) if shared else Parts()
        mtp = card.layer(card.mtp_layer) if card.mtp_layer else card.stack[-1]
        extra = layer_params(mtp, card.hidden, split).total.high + 2 * card.hidden**2 + 2 * table
        other += card.mtp_layers * extra
    return parts + Parts(other=Span(0.0, other))


def in_bytes(params: Parts, card: ModelCard, used: PrecisionUsed, layer: Layer) -> Parts:
    """Parameters to bytes. A kind is stored as the plan says, or as the checkpoint does (with its
    exceptions for single matrices) where the plan keeps its precision."""
    own = card.weights
    kept = used.weights in (own.attention, own.dense)
    mixer = [own.attention, *layer.mixer.precision.values()] if layer.mixer and kept else []
    ffn = [*layer.ffn.precision.values()] if layer.ffn else []
    return Parts(
        attention=params.attention.times(_sizes(used.weights, *mixer)),
        dense=params.dense.times(_sizes(used.weights, *([own.dense, *ffn] if kept else []))),
        experts=params.experts.times(_sizes(used.experts, *(ffn if used.experts == own.experts else []))),
        embedding=params.embedding.times(_sizes(used.weights, own.embedding)),
        head=params.head.times(_sizes(used.weights, own.embedding, own.lm_head or own.embedding)),
        other=params.other.times(Span(0.0, WIDEST_BYTES)),
    )


def _sizes(*precisions: str) -> Span:
    sizes = [WEIGHT_BYTES[precision] for precision in precisions]
    return Span(min(sizes), max(sizes))


def layer_params(layer: Layer, hidden: int, split: Split) -> Parts:
    """Parameters of one layer on one GPU."""
    parts = Parts()
    if layer.mixer is not None:
        parts += Parts(attention=mixer_params(layer.mixer, hidden, split.tp))
    if isinstance(layer.ffn, DenseFfn):
        whole = float(layer.ffn.matrices * hidden * layer.ffn.inner)
        parts += Parts(dense=Span(whole / split.gpus, whole / split.tp))
    elif layer.ffn is not None:
        parts += moe_params(layer.ffn, hidden, split)
    return parts


def moe_params(moe: MoeFfn, hidden: int, split: Split) -> Parts:
    """Routed experts over moe_tp * ep; shared experts and latent projections split over the stage at best,
    copied at worst."""
    routed = float((moe.experts + split.copies) * moe.matrices * (moe.latent or hidden) * moe.inner)
    beside = float(moe.matrices * hidden * moe.shared_inner + (2 * hidden * moe.latent if moe.latent else 0))
    return Parts(
        experts=Span(routed / split.experts, routed / split.experts),
        dense=Span(beside / split.gpus, beside),
        other=Span(0.0, float(hidden * moe.experts)),  # the router, whole on every GPU
    )


def mixer_params(mixer: Attention | Mla | LinearAttention | Mamba2, hidden: int, tp: int) -> Span:
    """Parameters of one mixer on one of `tp` ranks. KV heads fewer than ranks are copied; MLA's
    down-projections always are."""
    if isinstance(mixer, Attention):
        pooled = 4 * mixer.head_dim * hidden if mixer.compress else 0  # at most two windows wide
        low, extra = _attention(mixer, hidden, tp), pooled + _indexer(mixer.indexer, hidden, mixer)
    elif isinstance(mixer, Mla):
        up = mixer.kv_lora_rank * mixer.heads * (mixer.qk_nope + mixer.v_head_dim) / tp
        low, extra = _mla(mixer, hidden, tp), up + _indexer(mixer.indexer, hidden, mixer)  # kept transposed
    elif isinstance(mixer, LinearAttention):
        keys, values = mixer.key_heads * mixer.key_dim, mixer.value_heads * mixer.value_dim
        ranks = (mixer.decay_rank or 0) + (mixer.gate_rank or 0)
        low = hidden * (2 * keys + 2 * values) / tp
        extra = hidden * (values + 2 * mixer.value_heads) / tp + ranks * (hidden + keys + values)
    else:
        low = hidden * 3 * mixer.heads * mixer.head_dim / tp
        extra = hidden * (2.0 * mixer.groups * mixer.state + mixer.heads)
    return Span(low, low + extra)


def _attention(mixer: Attention, hidden: int, tp: int) -> float:
    value_dim = mixer.v_head_dim or mixer.head_dim
    queries = mixer.heads * mixer.head_dim * (2 if mixer.output_gate else 1)
    into = queries / tp * (mixer.q_lora_rank or hidden) + hidden * (mixer.q_lora_rank or 0)
    one = mixer.k_is_v or mixer.shared_kv
    keys_values = max(mixer.kv_heads / tp, 1.0) * (mixer.head_dim + (0 if one else value_dim))
    wide = mixer.heads * value_dim
    if mixer.o_lora_rank is None:
        return into + hidden * (keys_values + wide / tp)
    return into + hidden * keys_values + mixer.o_lora_rank * (wide + hidden * mixer.o_groups) / tp


def _mla(mixer: Mla, hidden: int, tp: int) -> float:
    wide = mixer.heads * (mixer.qk_nope + mixer.qk_rope)
    query = mixer.q_lora_rank * (hidden + wide / tp) if mixer.q_lora_rank else hidden * wide / tp
    latent = hidden * (mixer.kv_lora_rank + mixer.qk_rope)
    up = mixer.kv_lora_rank * mixer.heads * (mixer.qk_nope + mixer.v_head_dim) / tp
    out = hidden * mixer.heads * mixer.v_head_dim * (2 if mixer.output_gate else 1) / tp
    return query + latent + up + out


def _indexer(indexer: Indexer | None, hidden: int, mixer: Attention | Mla) -> float:
    if indexer is None or indexer.shared:
        return 0.0
    source = mixer.q_lora_rank or hidden
    return float(source * indexer.heads * indexer.head_dim + hidden * (4 * indexer.head_dim + indexer.heads))

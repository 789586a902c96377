"""The least that tokens take of a device: FLOPs over its best product that was measured, bytes over its
bandwidth.

Arithmetic of its own, from the model card and the datasheet alone: it shares nothing with the cost model that
it is held against. Every figure errs low: products run at the fastest rate their weights may run at,
attention reads only what it selects, of routed experts only those are read that are met at least, nothing is
held twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cluster_configs.schema import Device
from model_zoo.derive import kv_elements_per_token
from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Attention, Gemm, Layer, Mla, ModelCard, MoeFfn
from planner.designs.shape import Floats

FASTEST: Mapping[str, tuple[str, ...]] = {
    "fp8": ("fp8",),
    "fp8_block": ("fp8",),
    "int8": ("int8",),
    "nvfp4": ("fp4", "fp8"),
    "mxfp4": ("fp4", "fp8"),
}
"""Rates that products with weights of a precision may run at, the fastest first; all others, and those of a
device that has none of these, in 16 bits."""


@dataclass(frozen=True)
class Work:
    """Of a model on one kind of device: GPU-seconds at the best product and bytes, of the whole model."""

    card: ModelCard
    device: Device
    kv: str

    @cached_property
    def token_s(self) -> float:
        """One token through the matrices of all layers."""
        return sum(times * self._matrices_s(layer) for layer, times in self.layers)

    @cached_property
    def head_s(self) -> float:
        """One token through the LM head."""
        return 2.0 * self.card.vocab * self.card.hidden / self.most(self._head)

    def pairs_s(self, context: Floats) -> Floats:
        """Scores and values of one query at `context` cached tokens."""
        flops = sum((n * _pair_flops(y) * _met(y, context) for y, n in self.layers), 0.0 * context)
        return np.asarray(flops / self.most("fp8" if self.kv == "fp8" else "bf16"))

    def prompt_s(self, new: Floats, isl: Floats) -> Floats:
        """A prompt of which the last `new` tokens are computed. What a query meets grows ever slower with its
        context, so the mean of both ends errs low."""
        pairs = (self.pairs_s(isl - new) + self.pairs_s(isl)) / 2
        return np.asarray(new * (self.token_s + pairs) + self.head_s)

    def decode_s(self, isl: Floats, osl: Floats) -> Floats:
        """The mean decode step of one sequence."""
        return np.asarray(self.token_s + self.head_s + (self.pairs_s(isl) + self.pairs_s(isl + osl)) / 2)

    def read_bytes(self, tokens: Floats) -> Floats:
        """Weights that a step of `tokens` reads: all but the input embedding, of routed experts those that
        are met at least, popularity falling off as an exponential does."""
        total = self.card.vocab * self.card.hidden * WEIGHT_BYTES[self._head] + 0.0 * tokens
        for layer, times in self.layers:
            total = total + times * sum(_bytes(self.card, layer, g) for g in _common(self.card, layer))
            if isinstance(layer.ffn, MoeFfn):
                share = layer.ffn.top_k / layer.ffn.experts
                met = tokens * share / (1 - share + tokens * share) * layer.ffn.experts
                one = sum(_bytes(self.card, layer, g) for g in _expert(self.card, layer))
                total = total + times * met * one
        return np.asarray(total)

    def cache_bytes(self, context: Floats) -> Floats:
        """What a decode step reads of one sequence's cache."""
        width = ((y, n * KV_BYTES[self.kv] * kv_elements_per_token(y.mixer)) for y, n in self.layers)
        return np.asarray(sum((b * _met(y, context) for y, b in width), 0.0 * context))

    @cached_property
    def layers(self) -> list[tuple[Layer, int]]:
        """The distinct layers, and how many there are of each."""
        kinds, order = self.card.kinds
        return [(layer, order.count(i)) for i, layer in enumerate(kinds)]

    @property
    def _head(self) -> str:
        return self.card.weights.lm_head or self.card.weights.embedding

    def _matrices_s(self, layer: Layer) -> float:
        top_k = layer.ffn.top_k if isinstance(layer.ffn, MoeFfn) else 0
        gemms = [(1, g) for g in _common(self.card, layer)] + [(top_k, g) for g in _expert(self.card, layer)]
        return sum(2.0 * n * g.params / self.most(_precision(self.card, layer, g)) for n, g in gemms)

    def most(self, precision: str) -> float:
        """FLOP/s of the fastest rate that products with weights of `precision` may run at."""
        rates: Mapping[str, float] = {str(k): float(v) for k, v in self.device.reached_tflops.items()}
        names = (*FASTEST.get(precision, ()), "bf16", "fp16", "fp32")
        return 1e12 * next(rates[name] for name in names if name in rates)


def _common(card: ModelCard, layer: Layer) -> list[Gemm]:
    """Matrices that every token passes."""
    return [*mixer_gemms(layer.mixer, card.hidden), *ffn_gemms(layer.ffn, card.hidden)]


def _expert(card: ModelCard, layer: Layer) -> list[Gemm]:
    """Matrices of one routed expert."""
    return expert_gemms(layer.ffn, card.hidden)


def _precision(card: ModelCard, layer: Layer, gemm: Gemm) -> str:
    """As the checkpoint stores it; routers stay in 16 bits."""
    own = {**(layer.mixer.precision if layer.mixer else {}), **(layer.ffn.precision if layer.ffn else {})}
    w = card.weights
    mixing = gemm in mixer_gemms(layer.mixer, card.hidden)
    usual = w.attention if mixing else w.experts if gemm.name.startswith("expert_") else w.dense
    return "bf16" if gemm.name == "router" else own.get(gemm.name, usual)


def _bytes(card: ModelCard, layer: Layer, gemm: Gemm) -> float:
    return gemm.params * WEIGHT_BYTES[_precision(card, layer, gemm)]


def _pair_flops(layer: Layer) -> float:
    """FLOPs of one query with one cached entry, all heads: a product for the score and one for the value."""
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return 2.0 * mixer.heads * (mixer.head_dim + (mixer.v_head_dim or mixer.head_dim))
    if isinstance(mixer, Mla):
        return 2.0 * mixer.heads * (mixer.qk_nope + mixer.qk_rope + mixer.v_head_dim)
    return 0.0


def _met(layer: Layer, context: Floats) -> Floats:
    """Cached entries that one query at `context` tokens attends to: all, those of the window, or those that
    an indexer selects."""
    mixer = layer.mixer
    if not isinstance(mixer, Attention | Mla):
        return 0.0 * context
    most = mixer.window or (mixer.indexer.top_k if mixer.indexer else np.inf)
    return np.minimum(context, most)

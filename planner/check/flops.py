"""GPU-seconds that tokens take of a pipeline stage at the best rates that were measured: the arithmetic that
no engine can leave out."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_configs.schema import Device
from model_zoo.schema import Attention, Layer, Mla, ModelCard, MoeFfn
from planner.check import kv, weights
from planner.check.products import reached
from planner.plans.schema import Replica

RATES: dict[str, tuple[str, ...]] = {
    "bf16": ("bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32", "fp8"),
    "int8": ("bf16", "fp16", "fp32", "fp8", "int8"),
    "fp4": ("bf16", "fp16", "fp32", "fp8", "fp4"),
}
FORMAT = {"bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "int8", "int4_wo": "int8"}
"""Of each precision, whose rates products with such weights could run at."""


@dataclass(frozen=True)
class StageWork:
    """GPU-seconds of one token in one stage: mixers' matrices; FFNs with the experts it takes; LM
    head. Its layers, as `weights.counted` has them."""

    mixers_s: float
    ffns_s: float
    head_s: float
    layers: list[tuple[Layer, int]]
    pair_flop_per_s: float

    def pairs_s(self, context: float) -> float:
        """GPU-seconds of one query's scores and values at `context` cached tokens."""
        flops = (n * _pair_flops(layer) * kv.seen(layer, context) for layer, n in self.layers)
        return sum(flops) / self.pair_flop_per_s

    def prompt_pairs_s(self, prompt: float, new: float) -> float:
        """GPU-seconds of scores and values of the last `new` tokens of a prompt. Entries seen grow ever
        slower with context, so the mean of both ends errs low; it is exact for full attention."""
        return new * (self.pairs_s(prompt - new) + self.pairs_s(prompt)) / 2


def stage_work(card: ModelCard, replica: Replica, index: int, device: Device) -> StageWork:
    """The work of stage `index` of a replica, at the fastest rate its precisions could run at."""
    first, end = replica.stages[index].layers
    layers = weights.counted(card.stack[first:end])
    each = (weights.layer_params(layer, card.hidden, weights.WHOLE).times(n) for layer, n in layers)
    params = sum(each, weights.Parts())
    routed = sum(n * _routed_params(layer, card.hidden) for layer, n in layers)
    rate = fastest(device, replica.precision.weights)
    head = card.vocab * card.hidden if end == len(card.stack) else 0
    ffns_s = 2 * params.dense.low / rate + 2 * routed / fastest(device, replica.precision.experts)
    return StageWork(2 * params.attention.low / rate, ffns_s, 2 * head / rate, layers, fastest(device, "fp8"))


def fastest(device: Device, precision: str) -> float:
    """FLOP/s that weights of `precision` could run at: of the rates that their format could use, the best
    that was measured."""
    rates = RATES[FORMAT.get(precision, "fp4")]
    return max((reached(device, rate) for rate in rates if rate in device.tflops), default=float("inf"))


def _routed_params(layer: Layer, hidden: int) -> float:
    """Parameters of the experts that one token takes."""
    if not isinstance(layer.ffn, MoeFfn):
        return 0.0
    moe = layer.ffn
    return float(moe.top_k * moe.matrices * (moe.latent or hidden) * moe.inner)


def _pair_flops(layer: Layer) -> float:
    """FLOPs of one query with one cached entry, all heads: a product for the score and one for the value."""
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return 2.0 * mixer.heads * (mixer.head_dim + (mixer.v_head_dim or mixer.head_dim))
    if isinstance(mixer, Mla):
        return 2.0 * mixer.heads * (mixer.qk_nope + mixer.qk_rope + mixer.v_head_dim)
    return 0.0

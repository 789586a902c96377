"""GPU-seconds at peak that tokens take of a pipeline stage: the arithmetic that no engine can leave out."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_configs.schema import Device
from model_zoo.schema import Attention, Layer, Mla, ModelCard, MoeFfn
from planner.check import kv, weights
from planner.plans.schema import Replica

TERA = 1e12
RATES: dict[str, tuple[str, ...]] = {
    "bf16": ("bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32", "fp8", "int8"),
    "fp4": ("bf16", "fp16", "fp32", "fp8", "int8", "fp4"),
}
FORMAT = {"bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "fp8", "int4_wo": "fp8"}


@dataclass(frozen=True)
class StageWork:
    """GPU-seconds at peak of one token in one stage: mixers' matrices; FFNs with the experts it takes; LM
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
    rate = peak(device, replica.precision.weights)
    head = card.vocab * card.hidden if end == len(card.stack) else 0
    ffns_s = 2 * params.dense.low / rate + 2 * routed / peak(device, replica.precision.experts)
    return StageWork(2 * params.attention.low / rate, ffns_s, 2 * head / rate, layers, peak(device, "fp8"))


def peak(device: Device, precision: str) -> float:
    """Fastest FLOP/s of the device that weights of `precision` could run at."""
    rates = RATES[FORMAT.get(precision, "fp4")]
    known = [float(device.tflops[rate]) for rate in rates if rate in device.tflops]
    return TERA * max(known, default=float("inf"))


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

"""No stored time is below physics: bytes that must move over peak bandwidth, FLOPs over peak FLOP/s.

Every figure here errs low: precisions run at the fastest rate their format could use, sparse attention
reads only what it selects, experts are the expected number of distinct ones spread evenly, and tensors are
split as finely as any engine does. A step of pp stages carries a micro-batch of 1/pp of the sequences
through all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster_configs.schema import Device
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Attention, Layer, Mla, ModelCard, MoeFfn
from planner.check import kv, weights
from planner.check.case import Case, Load
from planner.check.violation import MODEL, Violation, at_most
from planner.plans.schema import Replica, Stage

TERA, GIGA = 1e12, 1e9
RATES: dict[str, tuple[str, ...]] = {
    "bf16": ("bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32", "fp8", "int8"),
    "fp4": ("bf16", "fp16", "fp32", "fp8", "int8", "fp4"),
}
FORMAT = {"bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "fp8", "int4_wo": "fp8"}


def violations(case: Case) -> Iterator[Violation]:
    """Stored step times below their floor, and rates that no hardware could compute."""
    if case.card is None:
        return
    for index, replica in enumerate(case.plan.replicas):
        known = all(stage.node_class in case.classes for stage in replica.stages)
        precise = {replica.precision.weights, replica.precision.experts} <= WEIGHT_BYTES.keys()
        load = case.loads.get(replica.id)
        if load and load.rps and known and precise and replica.precision.kv in KV_BYTES:
            yield from _group(case, case.card, replica, load, f"replicas[{index}]")


def _group(case: Case, card: ModelCard, replica: Replica, load: Load, where: str) -> Iterator[Violation]:
    if replica.role != "prefill" and load.decode_tok_per_s:
        floor = decode_floor_s(case, card, replica, load)
        if not at_most(floor, replica.step.decode_s, MODEL):
            text = f"{replica.step.decode_s:.4g} s, physics needs {floor:.4g} s"
            yield Violation("decode_below_roofline", f"{where}.step.decode_s", text)
    if replica.role != "decode":
        floor = prefill_floor_s(case, card, replica, load)
        if not at_most(floor, replica.step.prefill_s, MODEL):
            text = f"{replica.step.prefill_s:.4g} s, physics needs {floor:.4g} s"
            yield Violation("prefill_below_roofline", f"{where}.step.prefill_s", text)
    busy = busy_floor(case, card, replica, load)
    if not at_most(busy, min(replica.utilisation, 1.0), MODEL):
        text = f"{replica.utilisation:.4g}, but its requests need {busy:.4g} of the peak FLOP/s"
        yield Violation("utilisation_understated", f"{where}.utilisation", text)


def decode_floor_s(case: Case, card: ModelCard, replica: Replica, load: Load) -> float:
    """Least seconds of one decode step: a micro-batch passes all stages, each at least its bytes or its
    FLOPs."""
    batch = sequences(case, replica, load) / replica.count / replica.pp
    context = load.decode_context
    total = 0.0
    for index, stage in enumerate(replica.stages):
        device = case.classes[stage.node_class].device
        moved = weight_read_bytes(card, replica, index, batch)
        moved += batch / replica.attn_dp * kv.read_bytes(card, replica, stage, context)
        compute_s = batch * _token_s(card, replica, index, device, context)
        total += max(moved / (device.memory_gb_per_s * GIGA), compute_s)
    return total


def sequences(case: Case, replica: Replica, load: Load) -> float:
    """Sequences the group decodes at once, by Little's law: at the predicted TPOT where no other group
    shares in it."""
    tpot_s = replica.step.decode_s
    alone = (
        sum(1 for name, group in case.groups.items() if group.role != "prefill" and case.loads[name].rps) == 1
    )
    if alone and (case.workload.rate_rps is None or case.workload.slo.percentile == "mean"):
        tpot_s = max(tpot_s, case.plan.predicted.tpot_ms.value / 1e3)
    return load.decode_tok_per_s * tpot_s


def prefill_floor_s(case: Case, card: ModelCard, replica: Replica, load: Load) -> float:
    """Least seconds of one mean prompt alone: its stages read their weights one after the other, and
    compute at best at once."""
    new = max(load.prompt * (1 - case.workload.prefix_hit), 1.0)
    read_s = compute_s = 0.0
    for index, stage in enumerate(replica.stages):
        device = case.classes[stage.node_class].device
        read_s += weight_read_bytes(card, replica, index, new) / (device.memory_gb_per_s * GIGA)
        compute_s = max(compute_s, _prompt_s(card, replica, index, device, load.prompt, new))
    return max(read_s, compute_s)


def busy_floor(case: Case, card: ModelCard, replica: Replica, load: Load) -> float:
    """Least busy share of the busiest stage: FLOPs per second of all its requests over the peak of its
    GPUs."""
    worst = 0.0
    for index, stage in enumerate(replica.stages):
        device = case.classes[stage.node_class].device
        busy = 0.0
        for bucket, rate in load.buckets:
            if replica.role != "decode":
                new = max(bucket.isl * (1 - case.workload.prefix_hit), 1.0)
                busy += rate * _prompt_s(card, replica, index, device, bucket.isl, new)
            if replica.role != "prefill":
                context = bucket.isl + bucket.osl / 2
                busy += rate * (bucket.osl - 1) * _token_s(card, replica, index, device, context)
        worst = max(worst, busy / replica.count)
    return worst


def weight_read_bytes(card: ModelCard, replica: Replica, index: int, tokens: float) -> float:
    """Bytes of weights one GPU of the stage reads for a step of `tokens` tokens: of the experts, those that
    are met."""
    parts = weights.stage_bytes(card, replica, index)
    first, end = replica.stages[index].layers
    moe = [layer.ffn for layer in card.stack[first:end] if isinstance(layer.ffn, MoeFfn)]
    met = min((distinct_share(ffn, tokens) for ffn in moe), default=0.0)
    return parts.attention.low + parts.dense.low + parts.head.low + met * parts.experts.low


def distinct_share(moe: MoeFfn, tokens: float) -> float:
    """Expected share of the experts that `tokens` tokens meet, each choosing top_k at random.

    >>> round(distinct_share(MoeFfn(experts=8, top_k=2, inner=64), 4), 3)
    0.684
    """
    return float(1 - (1 - moe.top_k / moe.experts) ** tokens)


def _token_s(card: ModelCard, replica: Replica, index: int, device: Device, context: float) -> float:
    """Seconds at peak that one decoded token takes of the whole stage, head included."""
    stage = replica.stages[index]
    layers = card.stack[stage.layers[0] : stage.layers[1]]
    pairs = sum(_pair_flops(layer) * kv.seen(layer, context) for layer in layers)
    return _matrix_s(card, replica, index, device, head=True) + pairs / (stage.gpus * peak(device, "fp8"))


def _prompt_s(
    card: ModelCard, replica: Replica, index: int, device: Device, prompt: float, new: float
) -> float:
    """Seconds at peak that `new` tokens at the end of a prompt take of the whole stage; the head runs once,
    so not at all."""
    stage = replica.stages[index]
    layers = card.stack[stage.layers[0] : stage.layers[1]]
    mean_context = prompt - new / 2
    pairs = new * sum(
        _pair_flops(layer) * min(kv.seen(layer, mean_context), mean_context) for layer in layers
    )
    return new * _matrix_s(card, replica, index, device, head=False) + pairs / _speed(stage, device)


def _speed(stage: Stage, device: Device) -> float:
    return stage.gpus * peak(device, "fp8")


def _matrix_s(card: ModelCard, replica: Replica, index: int, device: Device, head: bool) -> float:
    """Seconds at peak of one token's matrix products on all GPUs of the stage together."""
    stage = replica.stages[index]
    whole = weights.Split(1, 1, 1)
    params = weights.stage_params(card, whole, stage.layers, index == len(replica.stages) - 1)
    layers = card.stack[stage.layers[0] : stage.layers[1]]
    common = params.attention.low + params.dense.low + (params.head.low if head else 0.0)
    routed = sum(_routed_params(layer, card.hidden) for layer in layers)
    seconds = common / peak(device, replica.precision.weights) + routed / peak(
        device, replica.precision.experts
    )
    return 2 * seconds / stage.gpus


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


def peak(device: Device, precision: str) -> float:
    """Fastest FLOP/s of the device that weights of `precision` could run at."""
    rates = RATES[FORMAT.get(precision, "fp4")]
    known = [float(device.tflops[rate]) for rate in rates if rate in device.tflops]
    return TERA * max(known, default=float("inf"))

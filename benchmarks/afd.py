"""What attention and FFNs on different GPUs would decode: `python -m benchmarks.afd [--isl TOKENS] [--only
MODEL …]`.

Decode tokens/s at the largest batch within TPOT and KV room, answers of 1,024 tokens, on 32 GPUs of each
class (64 of one), by vLLM's rules for dividing a model:

    apart     tokens/s a GPU of each class by itself and its layout, the best that the planner knows
    AFD       the layout that decodes most over what its GPUs do by themselves, and its micro-batches m
    tok/s     a GPU of that replica
    same GPUs a GPU of the same GPUs, each class by itself; `gain`: the one before over this
    per $     tokens/s a dollar over those of the better class by itself (list prices)
    over tp   tokens/s a GPU over those of plain replicas with tp alone on the better class: the measure of
              the first papers (none where tp spans nodes)
    bound     what ends the batch, and how much of a step attention, FFN and the busier messages work

No engine release runs such replicas as it comes; the error of these figures is unknown (docs/afd.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cluster_configs.reading import from_gpus
from cluster_configs.schema import NodeClass
from model_zoo import catalog
from planner.candidates import largest
from planner.candidates.ask import Ask
from planner.candidates.candidate import Design
from planner.candidates.largest import MOST_SEQUENCES
from planner.candidates.mix import Promise
from planner.candidates.setup import Setup
from planner.cost.afd import AfdModel
from planner.cost.afd_layout import Layout
from planner.cost.attention import Load
from planner.designs.precision import precisions
from planner.inputs.workload import Bucket, Slo, Workload
from planner.replicas import alike, attention_apart

OSL = 1024
ENGINE = "vllm"
GPUS = ("32xh20,32xh100", "32xl40s,32xh100", "64xh200")
MODELS = ("deepseek-v3", "qwen3-235b-a22b-fp8", "llama-3.1-70b")
LIMITS_MS = (50.0, 100.0)


@dataclass(frozen=True)
class Alone:
    """The best plain decode replica of a class: tokens/s a GPU, its layout; and with tp alone."""

    rate: float
    layout: str
    tp_rate: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.afd")
    parser.add_argument("--only", nargs="*", default=MODELS, help="models")
    parser.add_argument("--isl", type=int, default=4096, help="prompt tokens")
    options = parser.parse_args(argv)
    heads = "GPUs | model | TPOT ms | apart | AFD | tok/s | same GPUs | gain | per $ | over tp | bound"
    print(f"| {heads} |\n|---|---|--:|---|---|--:|--:|--:|--:|--:|---|")
    for gpus in GPUS:
        for model in options.only:
            for tpot_ms in LIMITS_MS:
                print(_line(gpus, ask(model, options.isl, tpot_ms)), flush=True)
    return 0


def ask(model: str, isl: int, tpot_ms: float) -> Ask:
    """Decode within `tpot_ms`, nothing else promised."""
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=isl, osl=OSL)], slo=slo)
    return Ask(card, precisions(card), [ENGINE], load, Promise.of(slo, "closed"), "throughput")


def _line(gpus: str, asked: Ask) -> str:
    classes = from_gpus(gpus).classes
    alone = {c.id: _alone(c, asked) for c in classes}
    found = attention_apart.shortlist(classes, (), asked, ENGINE, {g: x.rate for g, x in alone.items()})
    plain = "; ".join(f"{g} {x.rate:.0f} ({x.layout})" for g, x in alone.items())
    first = f"| {gpus} | {asked.card.name} | {1e3 * asked.promise.tpot_s:.0f} | {plain}"
    if not found.layouts:
        return f"{first} | none | | | | | | |"
    best = found.layouts[0]
    s = attention_apart.setup(classes, [best], (), ENGINE, asked)
    tokens = float(attention_apart.rates(s)[1][0]) * (OSL - 1)
    apart = sum(best.gpus_on(g) * x.rate for g, x in alone.items())
    m, bound = _bound(s, best)
    dollars = {c.id: (c.price_usd_per_hour or np.nan) / c.gpus_per_node for c in classes}
    per_dollar = tokens / sum(best.gpus_on(g) * price for g, price in dollars.items())
    dearest = max(x.rate / dollars[g] for g, x in alone.items())
    tp = max(x.tp_rate for x in alone.values())
    over_tp = f"{tokens / best.gpus / tp:.2f}" if tp else "-"
    rates = f"{tokens / best.gpus:.0f} | {apart / best.gpus:.0f} | {tokens / apart:.2f}"
    return f"{first} | {best}, m {m} | {rates} | {per_dollar / dearest:.2f} | {over_tp} | {bound} |"


def _alone(node: NodeClass, asked: Ask) -> Alone:
    s = alike.setup(node, ENGINE, asked, one_more=False)
    assert s is not None
    index, rate = attention_apart.rates(s)
    if not len(index):
        return Alone(0.0, "does not fit or keep TPOT", 0.0)
    d = s.designs.take(index)
    per_gpu = rate * (OSL - 1) / d.gpus
    at = int(per_gpu.argmax())
    tp, pp, dp, moe_tp, ep = (int(x[at]) for x in (d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep))
    in_node = d.gpus <= node.gpus_per_node
    only_tp = np.where(in_node & (d.pp == 1) & (d.attn_dp == 1) & (d.ep == 1), per_gpu, 0.0)
    return Alone(float(per_gpu[at]), str(Design(tp, pp, dp, moe_tp, ep)), float(only_tp.max()))


def _bound(s: Setup, layout: Layout) -> tuple[int, str]:
    """Micro-batches, and what is full: the limit on the batch, and the share of a step that each part
    works."""
    model, one, ctx = s.model, np.zeros(1, dtype=np.int64), s.mix.context
    assert isinstance(model, AfdModel)
    b = largest.most(s, one, "decode")
    m = int(model.best_micro_batches(s.designs, Load.of(b, ctx))[0])
    step = float(model.step_s(s.designs, Load.of(b, ctx))[0])
    late = float(model.step_s(s.designs, Load.of(b + 1, ctx))[0]) > s.promise.tpot_s
    none = np.zeros(1)
    parts = model.parts(s.designs, Load(b / m, np.array([ctx]), none, none))
    ways = (parts.attention, parts.ffn, np.maximum(parts.dispatch, parts.combine))
    busy = [m * float(x[0] @ model.counts) / step for x in ways]
    full = "TPOT" if late else f"{MOST_SEQUENCES} sequences" if b[0] >= MOST_SEQUENCES else "KV room"
    names = zip(("attention", "FFN", "messages"), busy, strict=True)
    return m, f"{full} at {b[0]:.0f} a rank; " + ", ".join(f"{n} {100 * x:.0f} %" for n, x in names)


if __name__ == "__main__":
    raise SystemExit(main())

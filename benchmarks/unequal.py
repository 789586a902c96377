"""What unequal GPUs serve together: `python -m benchmarks.unequal [--only DEVICE …] [--tpot-ms 50|none]`.

Ten everyday mixes with three models each, chat lengths (1,024 in, 256 out), a closed loop at the most
requests/s. Every column is the best set of replicas of a larger space, exact unless the last column says
otherwise:

    apart     replicas of one class each, of stages alike
    equal     stages of any class with equal layers and the same tp
    layers    stages of any class with the same tp, layers as they serve most
    tp        stages of any class with equal layers, any tp
    all       layers and tp as they serve most

`gain` is all over the better of apart and equal; `fits`: only in unlike stages does the model fit at all.
Where nothing meets the TPOT limit, twice as much is allowed (and so on): the limit is shown. No TTFT is
promised. Cards of one machine reach each other through its host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node, ResolvedCluster
from model_zoo import catalog
from planner.candidates import mixed
from planner.candidates.generate import Ask
from planner.candidates.mixed import Found, Freedom, Replica
from planner.candidates.points import Promise
from planner.cost.precision import precisions
from planner.inputs.workload import Bucket, Slo, Workload
from solvers.linear import Limits, gap

FREEDOMS = {
    "apart": Freedom(layers=False, tp=False, classes=1),
    "equal": Freedom(layers=False, tp=False),
    "layers": Freedom(layers=True, tp=False),
    "tp": Freedom(layers=False, tp=True),
    "all": Freedom(),
}
HOST_GB_PER_S = 12.0
"""Between cards of one machine without peer-to-peer: twice over the host's memory, about half of PCIe 4."""


@dataclass(frozen=True)
class Mix:
    """GPUs by device, in one machine or in one of each class, and the models that such owners run."""

    gpus: dict[str, int]
    models: tuple[str, ...]
    one_machine: bool = False
    link_gb_per_s: float | None = None

    def cluster(self) -> ResolvedCluster:
        nic = HOST_GB_PER_S if self.one_machine else self.link_gb_per_s
        nodes = [Node(device=d, gpus_per_node=n, nic_gb_per_s=nic) for d, n in self.gpus.items()]
        return resolve(Cluster(nodes=nodes, links=list[Link]()))

    def __str__(self) -> str:
        return " + ".join(f"{n}x{device}" for device, n in self.gpus.items())


MIXES = (
    Mix({"rtx-3090": 1, "rtx-4090": 1}, ("qwen3-14b", "qwen2.5-32b-awq", "qwen3-32b-fp8"), True),
    Mix({"rtx-4090": 2, "rtx-5090": 1}, ("qwen3-14b", "gemma-3-27b", "qwen3-32b-fp8"), True),
    Mix({"rtx-3090": 2, "rtx-a6000": 1}, ("qwen3-32b", "gemma-3-27b", "llama-3.1-70b-awq-int4"), True),
    Mix({"rtx-4090": 4, "l40s": 2}, ("qwen3-32b", "llama-3.1-70b-fp8", "qwen3-30b-a3b"), True),
    Mix({"l4": 8, "a10g": 4}, ("qwen3-32b", "llama-3.1-70b-fp8", "gemma-3-27b"), False, 3.125),
    Mix({"a100-sxm-40gb": 4, "a100-sxm": 2}, ("qwen3-32b", "llama-3.1-70b", "qwen3-235b-a22b-fp8")),
    Mix({"v100-sxm2-32gb": 8, "a100-sxm": 4}, ("qwen3-32b", "llama-3.1-70b", "qwen2.5-72b")),
    Mix({"l40s": 8, "h100-sxm": 8}, ("llama-3.1-70b", "qwen3-235b-a22b-fp8", "llama-3.1-405b-fp8")),
    Mix({"h20": 8, "h100-sxm": 8}, ("llama-3.1-70b", "qwen3-235b-a22b-fp8", "llama-3.1-405b-fp8")),
    Mix({"a100-sxm": 8, "h100-sxm": 8}, ("llama-3.1-70b", "qwen3-235b-a22b", "llama-3.1-405b-fp8")),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unequal")
    parser.add_argument("--only", nargs="*", default=[], help="devices: mixes that have one of them")
    parser.add_argument("--tpot-ms", default="50", help="milliseconds, or none")
    parser.add_argument("--seconds", type=float, default=60.0, help="a solve")
    options = parser.parse_args(argv)
    tpot_ms = None if options.tpot_ms == "none" else float(options.tpot_ms)
    print(f"| GPUs | model | TPOT ms | {' | '.join(FREEDOMS)} | gain | best plan | gap | s |")
    print("|---|---|--:|" + "--:|" * (len(FREEDOMS) + 1) + "---|--:|--:|")
    for mix in MIXES:
        if not options.only or set(options.only) & set(mix.gpus):
            for model in mix.models:
                print(_line(mix, model, tpot_ms, Limits(seconds=options.seconds)), flush=True)
    return 0


def _line(mix: Mix, model: str, tpot_ms: float | None, limits: Limits) -> str:
    began, limit = time.perf_counter(), tpot_ms
    found = _found(mix, model, limit, limits)
    while not any(f.replicas for f in found) and tpot_ms is not None and limit is not None:
        limit = limit * 2 if limit < 16 * tpot_ms else None
        found = _found(mix, model, limit, limits)
    seconds = time.perf_counter() - began
    rates = [f.solution.objective or 0.0 for f in found]
    before = max(rates[0], rates[1])
    gain = f"{100 * (rates[-1] / before - 1):+.0f} %" if before else "fits" if rates[-1] else "-"
    shown = " | ".join(f"{rate:.2f}" if rate else "-" for rate in rates)
    best = found[-1]
    plan = "; ".join(map(_plan, best.replicas)) or "-"
    far = max(_gap(f) for f in found)
    limit_shown = "-" if limit is None else f"{limit:g}"
    return (
        f"| {mix} | {model} | {limit_shown} | {shown} | {gain} | {plan} | {100 * far:.1f} % | {seconds:.1f} |"
    )


def _found(mix: Mix, model: str, tpot_ms: float | None, limits: Limits) -> list[Found]:
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=1024, osl=256)], slo=slo)
    ask = Ask(card, precisions(card), ["vllm"], load, Promise.of(slo, None), "throughput")
    return mixed.compare(mix.cluster(), ask, "vllm", limits, list(FREEDOMS.values()))


def _gap(found: Found) -> float:
    s = found.solution
    return (
        0.0 if s.objective is None or s.bound is None or s.bound == s.objective else gap(s.objective, s.bound)
    )


def _plan(replica: Replica) -> str:
    """Its stages in order: device, tp, layers; equal ones next to each other as one."""
    parts: list[tuple[str, list[str]]] = []
    for stage in replica.stages:
        name = stage.node_class + (f" tp{stage.tp}" if stage.tp > 1 else "")
        if not parts or parts[-1][0] != name:
            parts.append((name, []))
        parts[-1][1].append(str(stage.layers[1] - stage.layers[0]))
    text = " → ".join(f"{name}: {'+'.join(layers)}" for name, layers in parts)
    return f"{replica.count} x {text}" if replica.count > 1 else text


if __name__ == "__main__":
    raise SystemExit(main())

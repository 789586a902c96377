"""What unequal GPUs serve together: `python -m benchmarks.unequal [--only DEVICE …] [--tpot-ms 50|none]`.

Ten everyday mixes with three models each, chat lengths (1,024 in, 256 out), a closed loop at the most
requests/s within TPOT, on one engine (vLLM). Every column is the planner's best fleet of a larger space,
solved to a gap of zero over its columns:

    apart     replicas of one class each, which do prefill and decode
    equal     and replicas over several classes: stages with equal layers and the same tp
    layers    layers as they serve most
    tp        equal layers, any tp (no engine starts that as it comes)
    split     apart, and prefill/decode pairs
    all       layers and tp as they serve most, and prefill/decode pairs

`gain` is all over apart; `fits`: only in stages over several classes does the model fit at all. Where nothing
meets the TPOT limit, twice as much is allowed (and so on): the limit is shown. No TTFT is promised. Cards of
one machine reach each other through its host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node, ResolvedCluster
from planner.beside.reasons import describe
from planner.candidates.ask import Freedom
from planner.errors import Infeasible
from planner.inputs.workload import Bucket, Slo, Workload
from planner.plans.found import Found, groups
from planner.question.asked import Asked, read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits, gap

HOST_GB_PER_S = 12.0
"""Between cards of one machine without peer-to-peer: twice over the host's memory, about half of PCIe 4."""

LIMITS = Limits(gap=0.0, seconds=60.0)


@dataclass(frozen=True)
class Way:
    """A space: what stages may differ in, and whether phases may be split."""

    freedom: Freedom
    split: bool = False


APART = Freedom(layers=False, tp=False, classes=1)
WAYS = {
    "apart": Way(APART),
    "equal": Way(Freedom(layers=False, tp=False)),
    "layers": Way(Freedom(layers=True, tp=False)),
    "tp": Way(Freedom(layers=False, tp=True)),
    "split": Way(APART, split=True),
    "all": Way(Freedom(), split=True),
}


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
    options = parser.parse_args(argv)
    tpot_ms = None if options.tpot_ms == "none" else float(options.tpot_ms)
    print(f"| GPUs | model | TPOT ms | {' | '.join(WAYS)} | gain | best plan | gap | s |")
    print("|---|---|--:|" + "--:|" * (len(WAYS) + 1) + "---|--:|--:|")
    for mix in MIXES:
        if not options.only or set(options.only) & set(mix.gpus):
            for model in mix.models:
                print(_line(mix, model, tpot_ms), flush=True)
    return 0


def _line(mix: Mix, model: str, tpot_ms: float | None) -> str:
    began, limit = time.perf_counter(), tpot_ms
    found = [_found(mix, model, limit, way) for way in WAYS.values()]
    while not any(found) and tpot_ms is not None and limit is not None:
        limit = limit * 2 if limit < 16 * tpot_ms else None
        found = [_found(mix, model, limit, way) for way in WAYS.values()]
    seconds = time.perf_counter() - began
    rates = [f.solution.rate if f else 0.0 for f in found]
    gain = f"{100 * (rates[-1] / rates[0] - 1):+.0f} %" if rates[0] else "fits" if rates[-1] else "-"
    shown = " | ".join(f"{rate:.2f}" if rate else "-" for rate in rates)
    best, far = found[-1], max((_gap(f) for f in found if f), default=0.0)
    plan = describe(groups(best)) if best else "-"
    limit_shown = "-" if limit is None else f"{limit:g}"
    return (
        f"| {mix} | {model} | {limit_shown} | {shown} | {gain} | {plan} | {100 * far:.1f} % | {seconds:.1f} |"
    )


def _found(mix: Mix, model: str, tpot_ms: float | None, way: Way) -> Found | None:
    """The best fleet within the way's space; None where there is none."""
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=1024, osl=256)], slo=slo, arrivals="closed")
    asked: Asked = read(mix.cluster(), model, None, load, {}, {"engine": "vllm", "gap": 0.0, "risk": 0.5})
    try:
        _, pool, question = pose(replace(asked, freedom=way.freedom))
    except Infeasible:
        return None
    kept = tuple(c for c in pool.candidates if way.split or c.role == "mixed")
    if not kept:
        return None
    found = find(question, replace(pool, candidates=kept), LIMITS)
    return found if found.solution.objective else None


def _gap(found: Found) -> float:
    s = found.solution
    return 0.0 if s.objective is None or s.bound is None else gap(s.objective, s.bound)


if __name__ == "__main__":
    raise SystemExit(main())

"""Predictions against the roofline: `python -m benchmarks.roofline [--designs 100000] [--seed 0]`.

Random replicas (model x device x engine x role x precision of the cache, by which `predict` computes rows
together; then parallelism x lengths x concurrency) are predicted by `planner.predict.predictions`. What comes
out is compared with arithmetic of our own that errs low everywhere:

compute    FLOPs of all matrices and of attention that the rate asks for, a second, over the best product that
           was measured on these GPUs, of all of them
step       a decode step reads every weight once on its way through the stages (of experts, those that are met
           at least) and the cache of all sequences in its micro-batch, or computes them: on the GPUs of one
           stage at a time
prompt     TTFT: a prompt's FLOPs over all GPUs, and its one way past the weights of all stages

Each is a ratio of the floor to what was predicted; beyond 1 the prediction is faster than the device can be.
A line for each role and depth of the pipeline: designs that fit, how many are beyond the roofline, the worst
ratio of each kind. Below it the worst designs as rows for `meshwright predict`.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.floors import Work
from benchmarks.process import rows
from cluster_configs import devices
from model_zoo import catalog
from model_zoo.derive import weight_bytes
from model_zoo.schema import MoeFfn
from planner.predict.predictions import Prediction, predict_rows

MODELS = (
    *("llama-3.1-8b", "llama-3.1-8b-fp8", "qwen3-14b", "qwen3-32b", "qwen3-32b-fp8", "gemma-3-27b"),
    *("llama-3.1-70b", "llama-3.1-70b-fp8", "llama-3.1-70b-awq-int4", "llama-3.1-405b-fp8", "phi-4"),
    *("mixtral-8x7b", "gpt-oss-20b", "gpt-oss-120b", "qwen3-30b-a3b", "qwen3-235b-a22b", "llama-4-scout"),
    *("qwen3-235b-a22b-fp8", "qwen3-235b-a22b-nvfp4", "deepseek-v2-lite", "deepseek-v3"),
    "qwen3-next-80b-a3b",
)
DEVICES = (
    *("h100-sxm", "h200-sxm", "a100-sxm", "b200-sxm", "gb200", "l40s", "l4", "a10", "rtx-4090", "t4"),
    *("rtx-pro-6000-server", "mi300x", "mi355x", "h20", "v100-sxm2-32gb"),
)
ENGINES, ROLES = ("vllm", "sglang", "trtllm"), ("mixed", "prefill", "decode")
TP, PP, ATTN_DP = (1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 1, 2, 4, 8, 16)
LENGTHS, ANSWERS, IN_FLIGHT = (16, 32_768), (2, 4096), (1, 4096)
"""Of prompts and answers in tokens, and requests in flight on one replica: evenly in their logarithms."""

MOST_GPUS = 144
"""Of one replica."""

SPARE = 1.2
"""Times the weights, the memory that is drawn at least: few designs do not fit."""

GROUP = 100
"""Designs drawn of one model, device, engine, role and cache."""

BEYOND = 1 + 1e-6
"""Ratio from which on a prediction is faster than the device: rounding to six digits is not."""

KINDS = ("compute", "step", "prompt")
WORST = 8
"""Designs that are shown."""


Cells = dict[str, str]


@dataclass(frozen=True)
class Ratio:
    """Of one design what the floor is of what was predicted, by kind."""

    cells: Cells
    of: Mapping[str, float]

    @property
    def worst(self) -> float:
        return max(self.of.values())


def ratios(work: Work, designs: Sequence[Cells], answers: Sequence[Prediction]) -> list[Ratio]:
    """Of designs of one model, device, cache and role, their floors over their predictions."""
    role = designs[0]["role"]
    tp, pp, dp, isl, osl, hit = (
        np.array([float(d[name]) for d in designs])
        for name in ("tp", "pp", "attn_dp", "isl", "osl", "prefix_hit")
    )
    new = np.maximum(isl * (1 - hit), 1.0)
    out = np.array([a.out_tok_per_s for a in answers])
    rate = out / (1.0 if role == "prefill" else osl)
    stage = tp * dp
    prompt_s = work.prompt_s(new, isl) if role != "decode" else 0.0 * isl
    step_s = work.decode_s(isl, osl) if role != "prefill" else 0.0 * isl
    found = {"compute": rate * (prompt_s + (osl - 1) * step_s) / (stage * pp)}
    read_s = 1 / (1e9 * work.device.memory_gb_per_s)
    if role != "prefill":
        tpot_s = np.array([a.tpot_ms or np.inf for a in answers]) / 1e3
        micro = np.maximum(rate * (osl - 1) * tpot_s / pp, 1.0)
        cache = (work.cache_bytes(isl) + work.cache_bytes(isl + osl)) / 2
        floor_s = np.maximum((work.read_bytes(micro) + micro * cache) * read_s, micro * step_s) / stage
        found["step"] = floor_s / tpot_s
    if role != "decode":
        ttft_s = np.array([a.ttft_ms or np.inf for a in answers]) / 1e3
        found["prompt"] = np.maximum(prompt_s / (stage * pp), work.read_bytes(new) * read_s / stage) / ttft_s
    return [Ratio(d, {k: float(v[i]) for k, v in found.items()}) for i, d in enumerate(designs)]


def drawn(rng: np.random.Generator, count: int) -> list[Cells]:
    """Designs of one model, device, engine, role and cache, as rows for `predict`."""

    def one(values: Sequence[str]) -> str:
        return values[int(rng.integers(len(values)))]

    def spread(ends: tuple[int, int]) -> str:
        return str(int(np.exp(rng.uniform(*np.log(ends)))))

    model, device = one(MODELS), one(DEVICES)
    same = {"model": model, "device": device, "engine": one(ENGINES), "role": one(ROLES)}
    same["kv_precision"] = one(("bf16", "fp8"))
    card = catalog.find(model)[0]
    least = SPARE * sum(weight_bytes(card).values()) / (1e9 * devices.find(device).memory_gb)
    moe = any(isinstance(ffn, MoeFfn) for ffn in card.ffns.values())
    every = product(TP, PP, ATTN_DP if moe else (1,))
    sizes = [(tp, pp, dp) for tp, pp, dp in every if least <= tp * pp * dp <= MOST_GPUS]
    designs = []
    for _ in range(count if sizes else 0):
        tp, pp, dp = sizes[int(rng.integers(len(sizes)))]
        ep = tp * dp if rng.random() < 0.5 else 1
        sized = {"tp": str(tp), "pp": str(pp), "attn_dp": str(dp)}
        sized |= {"ep": str(ep), "moe_tp": str(tp * dp // ep)}
        loaded = {"isl": spread(LENGTHS), "osl": spread(ANSWERS), "concurrency": spread(IN_FLIGHT)}
        hit = {"prefix_hit": one(("0", "0", "0", "0.5"))}
        designs.append({**same, **sized, **loaded, **hit})
    return designs


def measured(rng: np.random.Generator, wanted: int) -> tuple[list[Ratio], int]:
    """So many designs that fit against the roofline, and how many were drawn that do not, or cannot be."""
    found: list[Ratio] = []
    left = 0
    while len(found) < wanted:
        designs = drawn(rng, GROUP)
        answers = predict_rows(designs)
        both = zip(designs, answers, strict=True)
        fit = [(d, a) for d, a in both if isinstance(a, Prediction) and a.fits]
        left += len(designs) - len(fit)
        if fit:
            own = fit[0][0]
            work = Work(catalog.find(own["model"])[0], devices.find(own["device"]), own["kv_precision"])
            found += ratios(work, [d for d, _ in fit], [a for _, a in fit])
    return found[:wanted], left


def report(found: Sequence[Ratio], left: int, seed: int) -> str:
    """The table, and the worst designs as rows for `predict`."""
    groups: dict[tuple[str, int], list[Ratio]] = defaultdict(list)
    for r in found:
        groups[r.cells["role"], int(r.cells["pp"])].append(r)
    lines = [["role", "pp", "designs", "beyond the roofline", *(f"worst, {kind}" for kind in KINDS)]]
    for (role, pp), own in sorted(groups.items()):
        beyond = sum(r.worst > BEYOND for r in own)
        worst = (max((r.of[kind] for r in own if kind in r.of), default=None) for kind in KINDS)
        shown = ("" if ratio is None else f"{ratio:.2f}" for ratio in worst)
        lines.append([role, str(pp), str(len(own)), str(beyond), *shown])
    beyond = sum(r.worst > BEYOND for r in found)
    words = f"{len(found):,} designs, seed {seed}: {beyond:,} beyond the roofline"
    parts = [rows(lines, markdown=True), f"\n{words}; {left:,} more do not fit or divide."]
    worst_ones = sorted((r for r in found if r.worst > BEYOND), key=lambda r: -r.worst)[:WORST]
    if worst_ones:
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow([*worst_ones[0].cells, *KINDS])
        for r in worst_ones:
            table.writerow([*r.cells.values(), *(f"{r.of[k]:.2f}" if k in r.of else "" for k in KINDS)])
        parts.append(f"\n{text.getvalue()}")
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, predict, compare; 1 where a prediction is beyond the roofline."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--designs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    found, left = measured(np.random.default_rng(options.seed), options.designs)
    print(report(found, left, options.seed))
    return int(any(r.worst > BEYOND for r in found))


if __name__ == "__main__":
    sys.exit(main())

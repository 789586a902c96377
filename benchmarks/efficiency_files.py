"""Write planner/cost/efficiency/*.yaml from the fits and kernel tables beside the repository.

`python -m benchmarks.efficiency_files` (a minute or two; needs `pyarrow`).

Closed-form fits of measured kernel times (aiconfigurator tables, Apache-2.0). What is changed on the way:

* a GEMM's fixed time is at most 5 us on NVIDIA devices: served engines fuse the quantisation timed apart;
* efficiencies are at most 1: small tables fit in L2 and look faster than DRAM; nothing beats the roofline;
* artefacts (fixed times above 60 us, more than the memory bandwidth) give way to another engine's fit.

A generation's file holds the medians of its devices' fits.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.attention_fits import attention_fit
from benchmarks.expert_fits import expert_fit
from benchmarks.recurrent_fits import recurrent_fits
from planner.cost.efficiency.reading import Fit
from planner.designs.precision import EXPERT_KERNELS

HERE = Path(__file__).resolve().parents[1]
FITS = HERE.parent / "shared" / "data" / "fits.json"
OUT = HERE / "planner" / "cost" / "efficiency"

ENGINES = ("vllm", "sglang", "trtllm")
HEAD_DIMS = (64, 128, 256)
GENERATIONS = {
    "ampere": ["a100_sxm"],
    "ada": ["l40s"],
    "hopper": ["h100_sxm", "h200_sxm"],
    "blackwell_dc": ["b200_sxm", "b300_sxm", "gb200", "gb300"],
    "blackwell_rtx": ["rtx_pro_6000_server"],
    "xe2": ["b60"],
}
KEPT_WEIGHTS = {
    "bf16": ["bfloat16"],
    "fp8": ["fp8"],
    "fp8_block": ["fp8_block"],
    "nvfp4": ["nvfp4"],
    "mxfp4": ["w4a8_mxfp4_mxfp8", "w4a16_mxfp4"],
    "int4_wo": ["int4_wo"],
    "int8": ["sq"],
}
"""Our precision and the names of its tables, the faster kind first."""

PEAK = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "w4a8_mxfp4_mxfp8": "fp8", "sq": "int8"}
"""Tensor rate that a table's fit is relative to; bf16 for all others."""

VANISHING = {"tau_ns": 1.0, "held_ns": 1.0, "ep_us": 0.1}
"""Terms as small as this are left out; 0.01 of any other."""

QUERIES = {"bf16": ["bf16"], "fp8": ["fp8", "bf16"]}
"""Precision of the cache and of queries, the faster kind first."""

ABSORBED = 0.25
"""Share of the FLOP/s, those of heads of their own, below which prompts' latent attention was timed in the
latent form that decoding has, which takes 3.4 times as many: so is SGLang's table on Hopper. Its servers
compute prompts that have no cached prefix with heads of their own (`_handle_attention_backend` in its
deepseek_v2.py)."""

HEADER = """\
# {what}
# Source: measurements from aiconfigurator, Copyright (c) NVIDIA CORPORATION & AFFILIATES, Apache-2.0, subset
# and re-keyed; closed-form fits. Forms and units: reading.py. Written by benchmarks/efficiency_files.py.
"""

Row = dict[str, Any]


def main() -> None:
    """Write one file a device and one a generation."""
    fits = json.loads(FITS.read_text())
    by_device = {}
    for device in fits["gemm"]:
        by_device[device] = {
            "engines": engines(fits, device),
            "links": links(fits, device),
            "power": power(fits, device),
        }
        name = device.replace("_", "-")
        write(OUT / f"{name}.yaml", f"Kernel and link efficiency of {name}.", by_device[device])
    for generation, devices in GENERATIONS.items():
        parts = [engine for d in devices for engine in by_device[d]["engines"].values()]
        content = {"engines": {"any": medians(parts)}}
        write(
            OUT / "generation" / f"{generation}.yaml",
            f"Any engine on a {generation} device: medians.",
            content,
        )


def engines(fits: dict[str, Any], device: str) -> dict[str, Any]:
    """The fits of each engine measured on `device`, artefacts replaced by another engine's."""
    found: dict[str, Any] = {}
    for engine in ENGINES:
        if engine not in fits["gemm"][device]:
            continue
        found[engine] = {
            "gemm": weights(fits["gemm"], device, engine, cap_us=5.0 if device != "b60" else 25.0),
            "decode": attention("decode", device, engine),
            "prefill": attention("prefill", device, engine),
            "mla_decode": mla("mla_decode", device, engine),
            "mla_prefill": mla("mla_prefill", device, engine),
            "moe": experts(device, engine),
            **{f"moe {name}": experts(device, engine, name) for name in EXPERT_KERNELS},
            **rows(recurrent_fits(device, engine)),
        }
    return {engine: {k: v for k, v in parts.items() if v} for engine, parts in found.items()}


def weights(table: dict[str, Any], device: str, engine: str, cap_us: float) -> dict[str, Row]:
    """By weight precision; `cap_us` bounds the fixed time."""
    kept = {}
    for ours, theirs in KEPT_WEIGHTS.items():
        for source in sources(engine):
            rows = table.get(device, {}).get(source, {})
            name = next((t for t in theirs if t in rows), None)
            if name and not (source == "vllm" and name == "fp8_block" and rows[name]["t0_us"] > 60):
                kept[ours] = fit(rows[name], PEAK.get(name, "bf16"), cap_us)
                break
    return kept


def experts(device: str, engine: str, kernels: str = "") -> dict[str, Row]:
    """By weight precision: the usual kernels, or those of the family `kernels`, which in MXFP4 are others in
    each engine but for Marlin's."""
    kept = {}
    for ours, theirs in KEPT_WEIGHTS.items():
        if ours == "mxfp4" and kernels not in ("", "marlin"):
            continue
        for source, name in ((s, n) for s in sources(engine) for n in theirs):
            fit = expert_fit(device, source, ours, name, PEAK.get(name, "bf16"), kernels)
            if fit:
                kept[ours] = row(fit)
                break
    return kept


def sources(engine: str) -> list[str]:
    """The engine itself, then those that stand in for it where its fit is missing or an artefact."""
    return [engine, *(e for e in ("sglang", "vllm", "trtllm") if e != engine)]


def attention(kernel: str, device: str, engine: str) -> dict[str, dict[int, Row]]:
    """By KV precision and head size; TensorRT-LLM's on A100 beats the memory bandwidth and is left out."""
    kept: dict[str, dict[int, Row]] = defaultdict(dict)
    for cache, queries in QUERIES.items():
        for size in HEAD_DIMS:
            for source, dtype in ((s, q) for s in sources(engine) for q in queries):
                if (device, source, kernel) == ("a100_sxm", "trtllm", "decode"):
                    continue
                fit = attention_fit(kernel, device, source, (dtype, cache), size)
                if fit:
                    kept[cache][size] = row(fit)
                    break
    return dict(kept)


def mla(kernel: str, device: str, engine: str) -> dict[str, Row]:
    """By KV precision: the attention kernel alone, its projections are GEMMs of their own."""
    kept = {}
    for cache in QUERIES:
        for source in [engine, *(e for e in ("trtllm", "sglang", "vllm") if e != engine)]:
            fit = attention_fit(kernel, device, source, ("bf16", cache))
            if fit and not (kernel == "mla_prefill" and fit.compute < ABSORBED):
                kept[cache] = row(fit)
                break
    return kept


def fit(row: dict[str, Any], peak: str, cap_us: float) -> Row:
    """One fit in our own short names; terms that vanish are left out."""
    short: Row = {
        "compute": min(1.0, row["eff_c"]),
        "memory": min(1.0, row["eff_m"]),
        "t0_us": min(cap_us, row["t0_us"]),
        "p": row["p"],
        "tau_ns": row.get("tau_ns", 0.0),
        "quantise": row.get("eff_q", 0.0),
    }
    short = {k: three_digits(v) for k, v in short.items() if v > 0.01}
    if peak != "bf16":
        short["peak"] = peak
    return short | {"error": three_digits(row["mdape"] / 100)}


def rows(fits: Mapping[str, Mapping[str, Fit]]) -> dict[str, dict[str, Row]]:
    """Fits of our own as they stand in the files."""
    return {kernel: {key: row(fit) for key, fit in by_key.items()} for kernel, by_key in fits.items()}


def row(fit: Fit) -> Row:
    """One fit in our own short names; terms that vanish are left out."""
    found: Row = {"compute": fit.compute, "memory": fit.memory, "t0_us": 1e6 * fit.t0_s, "p": fit.p}
    terms = {"tau_ns": 1e9 * fit.tau_s, "held_ns": 1e9 * fit.held_s, "ep_us": 1e6 * fit.ep_s}
    terms |= {"quantise": fit.quantise, "rows": fit.rows, "tokens": fit.tokens}
    found |= {k: v for k, v in terms.items() if v > VANISHING.get(k, 0.01)}
    found = {k: three_digits(v) for k, v in found.items()}
    if fit.peak != "bf16":
        found["peak"] = fit.peak
    return found | {"error": three_digits(fit.error)}


def links(fits: dict[str, Any], device: str) -> dict[str, Any]:
    """Collectives as (bytes, microseconds) anchors a factor of four apart; DeepEP exchange as t0 and GB/s."""
    found: dict[str, Any] = {}
    for operation, by_gpus in fits["collective_anchors"][device].items():
        if operation != "alltoall":
            found[operation] = {
                int(n): [[int(b), three_digits(us)] for b, us in rows[::2]] for n, rows in by_gpus.items()
            }
    exchange = fits["deepep"].get(device, {}).get("deepep_low_latency", {})
    for ours, theirs in {"dispatch": "moe_dispatch", "combine": "moe_combine"}.items():
        if theirs in exchange:
            row = exchange[theirs]["nodes1"]["h7168_k8_e256"]
            found[ours] = {"t0_us": three_digits(row["alpha_us"]), "gb_per_s": three_digits(row["eff_gbs"])}
    return found


def power(fits: dict[str, Any], device: str) -> dict[str, float]:
    """Watts = min(limit, base + limit * (compute * share of peak FLOP/s + memory * share of bandwidth))."""
    rows = fits["power"].get(device, {}).get("all", {}).get("all")
    if not rows:
        return {}
    ours = {"base_watts": "p0_w", "limit_watts": "limit_w", "compute": "a", "memory": "b"}
    return {name: rows[theirs] for name, theirs in ours.items()} | {
        "error": three_digits(rows["mdape"] / 100)
    }


def medians(parts: list[Any]) -> Any:
    """The geometric median of every number found at the same place in `parts`."""
    kept = {}
    for key in dict.fromkeys(k for part in parts for k in part):
        values = [part[key] for part in parts if key in part]
        if key in ("tau_ns", "held_ns", "ep_us"):  # left out where they vanish
            values += [0.0] * (len(parts) - len(values))
        if isinstance(values[0], dict):
            kept[key] = medians(values)
        elif isinstance(values[0], str):
            kept[key] = statistics.mode(part.get(key, "bf16") for part in parts)
        else:
            kept[key] = three_digits(max(values) if key == "error" else statistics.median(values))
    return kept


def three_digits(x: float) -> float:
    """Rounded to three significant digits: the fits are good to a few percent."""
    return float(f"{x:.3g}")


def write(path: Path, what: str, content: dict[str, Any]) -> None:
    """The content as YAML: blocks down to the fits, one fit a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER.format(what=what) + "\n".join(lines(content, 0)) + "\n")


def lines(value: dict[Any, Any], depth: int) -> Iterator[str]:
    """YAML lines of nested mappings; a mapping of plain values, and a list, are written in one line."""
    for key, item in value.items():
        if isinstance(item, dict) and any(isinstance(v, dict | list) for v in item.values()):
            yield f"{'  ' * depth}{key}:"
            yield from lines(item, depth + 1)
        elif item:
            yield f"{'  ' * depth}{key}: {flow(item)}"


def flow(item: Any) -> str:
    """One line of YAML."""
    if isinstance(item, dict):
        return "{" + ", ".join(f"{k}: {flow(v)}" for k, v in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ", ".join(flow(v) for v in item) + "]"
    return f"{item:g}" if isinstance(item, float) else str(item)


if __name__ == "__main__":
    main()

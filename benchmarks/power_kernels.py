"""What kernels draw at their card's own limit: laws by device and by kind of kernel, judged on what they have
not seen. Kernels below a tenth of a millisecond are left out: readings of two that are alike differ by 13 to
23 % in the median there, as the sensor is slower than the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.kernel_fits import Table, read
from cluster_configs import devices
from planner.cost.efficiency.reading import Efficiency
from planner.cost.power import busy_watts
from planner.designs.shape import Floats

SYSTEMS = {"h200_sxm": "h200-sxm", "b200_sxm": "b200-sxm", "gb200": "gb200"}
COLUMNS = (
    "op", "backend", "dtype", "attn_dtype", "kv_cache_dtype", "latency_ms", "power_w", "power_limit_w",
    "m", "n", "k", "batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size",
    "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
)  # fmt: skip
SHORTEST_MS = 0.1
FOLDS = 5
BYTES = {"bfloat16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625, "w4a8_mxfp4_mxfp8": 1.0}
"""Of an element of activations; of weights half where they alone have four bits."""

PEAKS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "w4a8_mxfp4_mxfp8": "fp8"}


@dataclass(frozen=True)
class Kernels:
    """n kernels: shares of peak FLOP/s and bandwidth, watts as a share of the limit, and what is held out
    together."""

    device: NDArray[np.str_]
    kind: NDArray[np.str_]
    engine: NDArray[np.str_]
    family: NDArray[np.str_]
    compute: Floats
    memory: Floats
    watts: Floats

    def take(self, rows: NDArray[np.bool_]) -> Kernels:
        return Kernels(*(x[rows] for x in vars(self).values()))


def measured() -> Kernels:
    """All kernels of the table that last long enough."""
    parts = [_of(system, device) for system, device in SYSTEMS.items()]
    return Kernels(*(np.concatenate([vars(p)[name] for p in parts]) for name in vars(parts[0])))


def _of(system: str, device: str) -> Kernels:
    t = read("power", system, COLUMNS)
    chip = devices.find(device)
    work = np.array([_work(t, i) for i in range(len(t["op"]))])
    peak = np.array([_peak(t, i, chip.tflops) for i in range(len(t["op"]))])
    seconds = t["latency_ms"].astype(float) / 1e3
    kernels = Kernels(
        np.full(len(seconds), device),
        t["op"].astype(str),
        t["backend"].astype(str),
        np.array([_family(t, i) for i in range(len(seconds))]),
        work[:, 0] / seconds / (1e12 * peak),
        np.minimum(work[:, 1] / seconds / (1e9 * chip.memory_gb_per_s), 1.2),
        t["power_w"] / t["power_limit_w"],
    )
    return kernels.take((t["latency_ms"] >= SHORTEST_MS) & (work > 0).all(axis=1))


def _work(t: Table, i: int) -> tuple[float, float]:
    """FLOPs and bytes of a kernel."""
    kind, each = t["op"][i], BYTES.get(str(t["dtype"][i]), 2.0)
    if kind == "gemm":
        m, n, k = (float(t[x][i]) for x in "mnk")
        return 2 * m * n * k, each * (m * k + n * k) + 2 * m * n
    if kind == "moe":
        return _experts(t, i, 0.53 if str(t["dtype"][i]).startswith("w4") else each)
    batch, heads, dim = (float(t[x][i]) for x in ("batch_size", "num_heads", "head_dim"))
    kv = float(t["num_key_value_heads"][i]) or heads
    cache = 1.0 if t["kv_cache_dtype"][i] == "fp8" else 2.0
    isl, window = float(t["isl"][i]), float(np.nan_to_num(t["window_size"][i]))
    if kind == "context_attention":
        seen = min(window, isl) if window else isl
        flops = 4 * batch * heads * dim * isl * (seen - seen**2 / (2 * isl))
        return flops, batch * isl * dim * (4 * heads + 2 * kv * cache)
    context = float(np.nan_to_num(isl)) + float(np.nan_to_num(t["step"][i]))
    seen = min(window, context) if window else context
    return 4 * batch * heads * dim * seen, 2 * batch * kv * dim * seen * cache


def _experts(t: Table, i: int, weight: float) -> tuple[float, float]:
    """FLOPs and bytes of a layer of experts on one rank, each token with its own choice."""
    tokens, hidden, inter, topk, experts, tp, ep = (
        float(t[x][i])
        for x in (
            "num_tokens",
            "hidden_size",
            "inter_size",
            "topk",
            "num_experts",
            "moe_tp_size",
            "moe_ep_size",
        )
    )
    routed, local = tokens * topk / ep, inter / tp
    met = experts / ep * (1 - (1 - 1 / experts) ** (tokens * topk))
    moved = 3 * met * hidden * local * weight + 2 * routed * (2 * hidden + 3 * local)
    return 6 * routed * hidden * local, moved


def _peak(t: Table, i: int, tflops: dict[str, float]) -> float:
    """Dense peak TFLOP/s at the precision that a kernel computes in."""
    attention = "attention" in str(t["op"][i])
    fp8 = "fp8" in str(t["attn_dtype"][i])
    name = ("fp8" if fp8 else "bf16") if attention else PEAKS.get(str(t["dtype"][i]), "bf16")
    return tflops.get(name) or tflops["fp8"]


def _family(t: Table, i: int) -> str:
    """What is held out together: a matrix, a set of heads, or experts, at any number of tokens."""
    names = {"gemm": ("dtype", "n", "k"), "moe": ("dtype", "hidden_size", "inter_size", "num_experts")}
    heads = ("attn_dtype", "kv_cache_dtype", "num_heads", "num_key_value_heads", "window_size")
    return "|".join(str(t[x][i]) for x in names.get(str(t["op"][i]), heads))


def drawn(k: Kernels, q: Floats) -> Floats:
    """Watts as a share of the limit."""
    return np.asarray(1 - (1 - q[0]) * np.exp(-(q[1] * k.compute ** q[3] + q[2] * k.memory ** q[4])))


def fitted(k: Kernels) -> Floats:
    """The law at the least error of log watts."""

    def off(q: Floats) -> Floats:
        return np.asarray(np.log(np.maximum(drawn(k, q), 0.05)) - np.log(k.watts))

    low, high = [0, 0, 0, 0.1, 0.1], [0.9, 30, 30, 2, 2]
    return np.asarray(
        least_squares(off, [0.3, 2, 1, 0.7, 0.7], bounds=(low, high), loss="soft_l1", f_scale=0.1).x
    )


def families_out(k: Kernels, by: Sequence[NDArray[np.str_]]) -> Floats:
    """Relative errors, each family's by a fit to others of the same device and groups `by`."""
    errors, folds = np.full(len(k.watts), np.nan), _folds(k.family)
    for own in _groups([k.device, *by]):
        for fold in range(FOLDS):
            here, rest = own & (folds == fold), own & (folds != fold)
            if here.any() and rest.sum() >= 20:
                errors[here] = drawn(k.take(here), fitted(k.take(rest))) / k.watts[here] - 1
    return np.abs(errors)


def devices_out(k: Kernels, by: Sequence[NDArray[np.str_]]) -> Floats:
    """Relative errors, each device's by a fit to the others within the groups `by`."""
    errors = np.full(len(k.watts), np.nan)
    for own in _groups(by):
        for device in SYSTEMS.values():
            here, rest = own & (k.device == device), own & (k.device != device)
            if here.any() and rest.sum() >= 20:
                errors[here] = drawn(k.take(here), fitted(k.take(rest))) / k.watts[here] - 1
    return np.abs(errors)


def today(k: Kernels) -> Floats:
    """Relative errors of the form that plans use."""
    errors = np.empty(len(k.watts))
    for device in SYSTEMS.values():
        here, chip = k.device == device, devices.find(device)
        table = Efficiency(chip, "vllm").power
        watts = busy_watts(table, chip.tdp_watts, k.compute[here], k.memory[here])
        errors[here] = watts / chip.tdp_watts / k.watts[here] - 1
    return np.abs(errors)


def table(k: Kernels) -> Iterator[str]:
    """Median errors by device and kind."""
    rules = {
        "today's form": today(k),
        "by kind: families": families_out(k, [k.kind]),
        "by kind and engine: families": families_out(k, [k.kind, k.engine]),
        "by kind: devices": devices_out(k, [k.kind]),
        "by kind and engine: devices": devices_out(k, [k.kind, k.engine]),
    }
    yield f"| | kernels | {' | '.join(rules)} |"
    yield f"|---|---|{'---|' * len(rules)}"
    names = {f"{d} {kind}": (k.device == d) & (k.kind == kind) for d in SYSTEMS.values() for kind in KINDS}
    names |= {"all": np.ones(len(k.watts), bool)}
    for name, here in names.items():
        cells = (f"{np.nanmedian(e[here]):.1%}" if here.any() else "" for e in rules.values())
        yield f"| {name} | {here.sum():,} | {' | '.join(cells)} |"


KINDS = ("gemm", "moe", "context_attention", "generation_attention")


def _groups(by: Sequence[NDArray[np.str_]]) -> list[NDArray[np.bool_]]:
    names = np.array(["/".join(row) for row in zip(*by, strict=True)])
    return [names == name for name in dict.fromkeys(names.tolist())]


def _folds(family: NDArray[np.str_]) -> NDArray[np.int64]:
    """A fold for each family, drawn once."""
    rng = np.random.default_rng(0)
    names = sorted(set(family.tolist()))
    fold = dict(zip(names, rng.integers(0, FOLDS, len(names)).tolist(), strict=True))
    return np.array([fold[name] for name in family.tolist()])

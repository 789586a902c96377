"""FlexGen: where weights, KV cache and activations of a block rest (GPU, CPU, disk), for the most tokens/s.

One line a GPU batch that the peer tries; the formulas are the peer's own cost model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.answer import Answer, Case, Clock
from solvers import tiers
from solvers.linear import Floats, Limits
from solvers.tiers.types import Line, TiersProblem

OBJECTIVES = ("throughput",)
COLUMNS = {
    "wg": ("weights", "gpu"),
    "wc": ("weights", "cpu"),
    "wn": ("weights", "disk"),
    "cg": ("cache", "gpu"),
    "cc": ("cache", "cpu"),
    "cn": ("cache", "disk"),
    "hg": ("activations", "gpu"),
    "hc": ("activations", "cpu"),
}
ANYWHERE = "anywhere"
"""What a layer takes or a tier holds wherever the tensors rest."""
AT = {name: i for i, name in enumerate([*COLUMNS, ANYWHERE])}
BUSY = (
    ("prefill", "read"),
    ("prefill", "write"),
    ("prefill", "compute"),
    ("decode", "down"),
    ("decode", "read"),
    ("decode", "write"),
    ("decode", "compute"),
)
FITS = (("gpu", "prefill"), ("gpu", "decode"), ("cpu", "prefill"), ("cpu", "decode"), ("disk", "always"))
MEMORY = {"gpu": "gpu_memory_bytes", "cpu": "cpu_memory_bytes", "disk": "disk_bytes"}

Row = Mapping[str, float]


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """The block, its GPU batch and the shares."""
    clock = Clock()
    problem = stated(case["problem"])
    with clock.running():
        found = tiers.solve(problem, Limits(seconds=seconds))
    if found.point is None or found.shares is None:
        return Answer(None, found.bound, found.status, None, clock.seconds)
    gpu_batch = int(found.point.line.key)  # type: ignore[call-overload]
    solution = {
        "block": gpu_batch * found.point.batches,
        "gpu_batch": gpu_batch,
        "num_gpu_batches": found.point.batches,
        "shares": dict(zip(COLUMNS, found.shares.tolist(), strict=True)),
    }
    return Answer(found.tokens_per_s, found.bound, found.status, solution, clock.seconds)


def stated(p: dict[str, Any]) -> TiersProblem:
    """The case as numbers."""
    layers, out = p["model"]["layers"], p["workload"]["output_tokens"]
    usable = p["usable_fraction"]
    return TiersProblem(
        columns=tuple(COLUMNS.values()),
        busy=BUSY,
        times={"prefill": float(layers), "decode": float(layers * (out - 1))},
        fits=FITS,
        room={tier: p["hardware"][key] * usable[tier] for tier, key in MEMORY.items()},
        rate={"all": 1.0},
        lines=[_line(p, int(g)) for g in p["gpu_batch_candidates"]],
    )


def _line(p: dict[str, Any], gpu_batch: int) -> Line:
    """Blocks of GPU batches of this size: rows are affine in the block, so two blocks say all of them."""
    one, two = (_rows(p, gpu_batch, k * gpu_batch) for k in (1, 2))
    seconds, held = (np.stack([2 * a - b, b - a]) for a, b in zip(one, two, strict=True))
    layers, out = p["model"]["layers"], p["workload"]["output_tokens"]
    pieces = {"weights": (layers, 0), "cache": (0, layers * gpu_batch), "activations": (0, gpu_batch)}
    return Line(gpu_batch, float(gpu_batch * out), seconds[:, None], held, None, pieces)


def _rows(p: dict[str, Any], g: int, block: int) -> tuple[Floats, Floats]:
    """Seconds (busy, columns + 1) and bytes (fits, columns + 1)."""
    s, n = p["workload"]["prompt_tokens"], p["workload"]["output_tokens"]
    layers, h = p["model"]["layers"], p["model"]["hidden_size"]
    f, heads = p["model"]["ffn_size"], p["model"]["attention_heads"]
    hw, params = p["hardware"], 8 * h * h + 4 * h * f
    w = params * p.get("weight_bytes_factor", 1.0)
    up, down, read = (hw[f"{k}_bytes_per_s"] for k in ("cpu_to_gpu", "gpu_to_cpu_hidden", "disk_to_cpu"))
    keep = 4 * (s + 1) * h * block  # bytes of a layer's cache after the prompt
    look, add = 4 * block * (s + n / 2) * h, 4 * block * h  # and read, and written, for each token
    hidden = 2 * h * block

    def fetch(tokens: int) -> Row:
        return {"wc": w / up, "wn": w / up, "hc": tokens * hidden / up}

    stored = keep / hw["gpu_to_cpu_cache_bytes_per_s"]
    cpu = _cpu_flops_per_s(hw, g, h)
    prompt_s = block * s * params / hw["matmul_prefill_flops_per_s"]
    prompt_s += 4 * block * s * s * h / hw["attention_prefill_flops_per_s"]
    seconds = [
        _row(fetch(s), {"wn": w / read}),
        _row(
            {"cc": stored, "cn": stored, "hc": s * hidden / down},
            {"cn": keep / hw["cpu_to_disk_cache_prefill_bytes_per_s"]},
        ),
        _row({ANYWHERE: prompt_s}),
        _row(fetch(1), {"hc": hidden / down}),
        _row(fetch(1), {"cn": look / read, "wn": w / (0.95 * read)}),
        _row(fetch(1), {"cn": add / hw["cpu_to_disk_decode_bytes_per_s"]}),
        _row(
            fetch(1),
            {"cg": look / hw["attention_decode_flops_per_s"], "cc": look / cpu, "cn": look / cpu},
            {ANYWHERE: block * params / hw["matmul_decode_flops_per_s"]},
        ),
    ]
    cache, ahead, own = 4 * (s + n) * h * block * layers, 2 * w, 2 * h * g
    home = {"wg": w * layers - ahead, "cg": cache, ANYWHERE: ahead}
    prompt_space = g * (18 * s * h + 2 * heads * s * s + 2 * s * f)
    token_space = g * (14 * h + 2 * f)
    scores = g * (8 * (s + n) * h + 4 * h + 2 * heads * (s + n))
    held = [
        _row(home, {"hg": s * (hidden - own), ANYWHERE: s * own + prompt_space}),
        _row(home, {"hg": hidden - own, "cg": scores, ANYWHERE: own + token_space}),
        _row(
            {"wc": w * layers, "hc": s * hidden, "cc": 4 * s * h * block * layers},
            {"wg": -w, "hg": -s * own, ANYWHERE: w + s * own},
        ),
        _row(
            {"wc": w * layers, "hc": hidden, "cc": cache, "wn": w, "cn": 8 * (s + n) * h * g},
            {ANYWHERE: 2 * heads * (s + n) * g + own},
        ),
        _row({"wn": w * layers, "cn": cache}),
    ]
    return np.stack(seconds), np.stack(held)


def _row(*parts: Row) -> Floats:
    """The sum of `parts` as (columns + 1,)."""
    row = np.zeros(len(AT))
    for part in parts:
        for name, value in part.items():
            row[AT[name]] += value
    return row


def _cpu_flops_per_s(hw: Mapping[str, Any], gpu_batch: int, hidden: int) -> float:
    """Of attention on the CPU, slower for small GPU batches and narrow models."""
    narrow, small = max(0.0, math.log2(4096 / hidden)), max(0.0, math.log2(64 / gpu_batch))
    both, batch, width = hw["cpu_curve"]
    share = max(0.1, 1 + both * small * narrow - batch * small - width * narrow)
    return float(hw["cpu_attention_flops_per_s"] * share)


def peer_value(case: Case) -> float | None:
    """Tokens/s of the peer's own search."""
    result = case.get("known", {}).get("peer_result") or {}
    value = result.get("tokens_per_s")
    return None if value is None else float(value)

"""Fits of recurrent mixers: a layer's kernels together, decoding and prompts apart.

A layer runs its causal convolution and its scan (prompts) or state update (decoding); where an engine has
several kernels for one of them, the faster is taken.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.kernel_fits import Bounds, Case, Table, fitted, read, where
from cluster_configs.devices import find
from model_zoo.schema import LinearAttention
from planner.cost.attention import Load, recurrent_decode_work, recurrent_prefill_work
from planner.cost.compute import Work, kernel_s
from planner.cost.efficiency.reading import Chip, Fit
from planner.designs.shape import Floats

COLUMNS = (
    *("system", "backend", "family", "kernel", "phase", "batch_size", "seq_len"),
    *("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "latency_ms"),
)
SIZES = ("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
KINDS = ("gdn", "kda")
PHASES = {"recurrent_decode": "generation", "recurrent_prefill": "context"}
CACHED_BYTES = (8e6, 256e6)
"""States between these sizes stay in the L2 cache (50-128 MB) when one layer is looped over."""

HOST_S = 300e-6
"""Kernels whose smallest shape takes longer were timed waiting for the host."""

LEAST_TOKENS = 64
"""Of a prompt: what shorter ones cost beside their tokens is their states, which no step is full of."""

START = Fit(compute=1.0, memory=0.5, t0_s=1e-5, p=1.5, tau_s=0.0)
BOUNDS: dict[str, Bounds] = {
    "recurrent_decode": {"memory": (0.05, 0.7, 1.0), "t0_s": (1e-6, 6e-6, 6e-5)},
    "recurrent_prefill": {
        "compute": (0.01, 0.1, 1.0),
        "memory": (0.02, 0.4, 1.0),
        "t0_s": (1e-6, 2e-5, 6e-5),
        "p": (1.0, 1.5, 8.0),
        "tau_s": (1e-9, 4e-8, 3e-7),
    },
}


def recurrent_fits(system: str, engine: str) -> dict[str, dict[str, Fit]]:
    """Kernel -> kind -> fit, of what was measured on `system` under `engine`."""
    table = read("linear_attention", system, COLUMNS)
    found: dict[str, dict[str, Fit]] = {}
    for kernel, phase in PHASES.items():
        for kind in KINDS:
            of_kind = (table["backend"] == engine) & (table["family"] == kind) & (table["phase"] == phase)
            layers = in_layers(where(table, of_kind))
            if layers and min(layers.values()) < HOST_S:
                case = as_case(layers, kernel, Chip.of(find(system.replace("_", "-"))))
                found.setdefault(kernel, {})[kind] = fitted(case, START, BOUNDS[kernel])
    return found


def in_layers(table: Table) -> dict[tuple[int, ...], float]:
    """(key heads, key dim, value heads, value dim, batch, tokens each) -> seconds of all kernels of a
    layer."""
    parts: dict[tuple[int, ...], dict[bool, float]] = defaultdict(dict)
    names = (*SIZES, "batch_size", "seq_len")
    for kernel, seconds, *shape in zip(
        table["kernel"], table["latency_ms"] * 1e-3, *(table[name] for name in names), strict=True
    ):
        part = parts[tuple(int(x) for x in shape)]
        convolution = "conv" in kernel
        part[convolution] = min(part.get(convolution, np.inf), float(seconds))
    return {shape: sum(part.values()) for shape, part in parts.items() if len(part) == 2}


def as_case(layers: dict[tuple[int, ...], float], kernel: str, chip: Chip) -> Case:
    """The rows that say something of a served layer; shapes held out together have the same heads."""
    shapes, works, seconds = [], [], []
    heads = sorted({shape[:4] for shape in layers})
    for number, sizes in enumerate(heads):
        of_size = {shape[4:]: t for shape, t in layers.items() if shape[:4] == sizes}
        batch, tokens = np.array(list(of_size), float).T
        mixer = LinearAttention(
            key_heads=sizes[0], key_dim=sizes[1], value_heads=sizes[2], value_dim=sizes[3]
        )
        work = layer_work(mixer, kernel, batch, tokens)
        if kernel == "recurrent_decode":
            keep = (work.bytes < CACHED_BYTES[0]) | (work.bytes > CACHED_BYTES[1])
        else:
            keep = tokens >= LEAST_TOKENS
        works.append([work.flops[keep], work.bytes[keep], work.items[keep]])
        seconds.append(np.array(list(of_size.values()))[keep])
        shapes.append(np.full(int(keep.sum()), number))
    work = Work(*(np.concatenate(part) for part in zip(*works, strict=True)))
    measured, busy = np.concatenate(seconds), np.ones(len(work.bytes), bool)
    return Case(
        lambda fit: kernel_s(fit, chip, work, busy), measured, np.concatenate(shapes), np.ones(len(measured))
    )


def layer_work(mixer: LinearAttention, kernel: str, batch: Floats, tokens: Floats) -> Work:
    """Of `batch` sequences decoding, or prompts of `tokens` each, on one GPU."""
    none, one = np.zeros_like(batch), np.ones(len(batch), int)
    if kernel == "recurrent_decode":
        return recurrent_decode_work(mixer, Load(batch, none, none, none), one)
    return recurrent_prefill_work(mixer, Load(none, none, batch * tokens, tokens / 2), one)

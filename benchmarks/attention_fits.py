"""Fits of attention kernels at sizes that are served: decoding and prompts, MHA/GQA by head size, and MLA.

Contexts of a few tokens, batches beyond 512 and prompts beyond a step's budget are left out: engines change
kernels there, and a form bent to them misses where models run.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from benchmarks.kernel_fits import Bounds, Case, Table, fitted, read, where
from cluster_configs.devices import find
from model_zoo.schema import KV_BYTES
from planner.cost.compute import Work, kernel_s
from planner.cost.efficiency.reading import Chip, Fit
from planner.designs.shape import Floats

KV_NAMES = {"bf16": "bfloat16", "fp8": "fp8"}
LATENT, ROPE = 512, 64
EXPANDED = 320
"""DeepSeek-V3's sizes: latent and rotary width of a cached entry; key and value width of a head together."""

LEAST_CONTEXT, MOST_SEQUENCES = 256, 512
LEAST_PROMPT, MOST_TOKENS, MOST_PREFIX = 128, 32768, 65536
MOST_HEADS, GROUP = 64, 4
RARE = 0.25
"""Weight of rows with fewer than `GROUP` query heads a KV head (MLA: fewer than 8 heads), and of prefixes."""

LEAST_ROWS = 60
HOST_S = 59e-6
"""Fixed times above it are the host's."""

LOOSE = 0.4
"""Held-out error above which a form does not hold at all."""

IN_L2 = {"l40s": (2e6, 144e6), "rtx_pro_6000_server": (2e6, 192e6)}
"""Bytes that stay in a large L2 cache when one layer is looped over, and come from DRAM in a served model."""

DECODE: Bounds = {
    "compute": (0.02, 0.3, 1.0),
    "memory": (0.03, 0.7, 1.0),
    "t0_s": (2e-6, 1e-5, 6e-5),
    "p": (1.0, 1.5, 8.0),
    "tau_s": (1e-10, 2e-8, 2e-7),
}
PREFILL: Bounds = {
    "compute": (0.02, 0.5, 1.0),
    "memory": (0.03, 0.5, 1.0),
    "t0_s": (2e-6, 1.5e-5, 6e-5),
    "p": (1.0, 1.2, 8.0),
    "tau_s": (1e-10, 5e-9, 2e-7),
}
BOUNDS = {"decode": DECODE, "mla_decode": DECODE, "prefill": PREFILL, "mla_prefill": PREFILL}
SHAPE = ("batch_size", "num_heads", "num_kv_heads")
COLUMNS = {
    "decode": ("attention_generation", ("context_len", "window_size", "head_dim", *SHAPE)),
    "prefill": ("attention_context", ("new_tokens", "prefix_len", "window_size", "head_dim", *SHAPE)),
    "mla_decode": ("mla", ("phase", "level", "batch_size", "num_heads", "new_tokens", "context_len")),
    "mla_prefill": ("mla", ("phase", "level", "batch_size", "num_heads", "new_tokens", "context_len")),
}


@cache
def attention_table(kernel: str, system: str) -> Table:
    """Rows of `kernel` on a system that are of a served size, all engines; MLA's kernels alone."""
    name, columns = COLUMNS[kernel]
    dtype = "mla_dtype" if name == "mla" else "attn_dtype"
    names = ("system", "backend", "kernel", dtype, "kv_cache_dtype", "latency_ms", *columns)
    table = read(name, system, names)
    table["attn_dtype"] = table[dtype]
    if name == "mla":
        phase = "generation" if kernel == "mla_decode" else "context"
        table = where(table, (table["level"] == "kernel") & (table["phase"] == phase))
        table |= {
            "num_kv_heads": table["num_heads"],
            "prefix_len": table["context_len"] - table["new_tokens"],
        }
    if kernel.endswith("decode"):
        served = (table["context_len"] >= LEAST_CONTEXT) & (table["batch_size"] <= MOST_SEQUENCES)
    else:
        tokens = table["batch_size"] * table["new_tokens"]
        served = (table["new_tokens"] >= LEAST_PROMPT) & (tokens <= MOST_TOKENS)
        served &= table["prefix_len"] <= MOST_PREFIX
    if name != "mla":
        group = table["num_heads"] / table["num_kv_heads"]
        served &= (table["num_heads"] <= MOST_HEADS) & (group <= 4 * GROUP)
        served &= (table["window_size"] == 0) | (kernel == "decode")
    return where(table, served)


@cache
def attention_fit(
    kernel: str, system: str, engine: str, dtypes: tuple[str, str], head_dim: int | None = None
) -> Fit | None:
    """The fit of an engine's commonest kernel at `dtypes` of queries and cache (ours: "bf16" or "fp8"); None
    where rows are few, wait for the host or follow no form."""
    queries, stored = dtypes
    table = attention_table(kernel, system)
    keep = (table["backend"] == engine) & (table["kv_cache_dtype"] == KV_NAMES[stored])
    keep &= table["attn_dtype"] == KV_NAMES[queries]
    if head_dim is not None:
        keep &= table["head_dim"] == head_dim
    if keep.sum() < LEAST_ROWS:
        return None
    table = where(table, keep)
    main = Counter(table["kernel"].tolist()).most_common(1)[0][0]
    case = as_case(
        where(table, table["kernel"] == main), kernel, Chip.of(find(system.replace("_", "-"))), stored
    )
    fit = fitted(case, Fit(compute=0.3, memory=0.7, t0_s=1e-5, peak=queries), BOUNDS[kernel])
    return fit if fit.t0_s < HOST_S and fit.error < LOOSE else None


def as_case(table: Table, kernel: str, chip: Chip, stored: str) -> Case:
    """Rows of one kernel; shapes held out together have the same heads."""
    heads, kv_heads = (table[name].astype(float) for name in ("num_heads", "num_kv_heads"))
    work = WORK[kernel](table, stored)
    usual = heads >= 8 if kernel.startswith("mla") else heads >= GROUP * kv_heads
    fresh = table["prefix_len"] == 0 if "prefix_len" in table else np.ones(len(heads), bool)
    return Case(
        lambda fit: kernel_s(fit, chip, work, np.ones(len(heads), bool)),
        table["latency_ms"].astype(float) * 1e-3,
        np.unique(heads * 1000 + kv_heads, return_inverse=True)[1],
        np.where(usual, 1.0, RARE) * np.where(fresh, 1.0, RARE),
    )


def decode(table: Table, stored: str) -> Work:
    """As `decode_work` of a model with these heads on one GPU."""
    heads, kv_heads, size = (table[n].astype(float) for n in ("num_heads", "num_kv_heads", "head_dim"))
    batch, context, window = (table[n].astype(float) for n in ("batch_size", "context_len", "window_size"))
    read_tokens = batch * np.where(window > 0, np.minimum(context, window), context)
    moved = 2 * read_tokens * kv_heads * size * KV_BYTES[stored] + 4 * batch * heads * size
    return Work(4 * heads * size * read_tokens, moved, batch * kv_heads)


def mla_decode(table: Table, stored: str) -> Work:
    """As `decode_work` of DeepSeek-V3's latent attention."""
    heads, batch, context = (table[n].astype(float) for n in ("num_heads", "batch_size", "context_len"))
    wide = 2 * LATENT + ROPE
    moved = batch * context * (LATENT + ROPE) * KV_BYTES[stored] + 2 * batch * heads * wide
    return Work(2 * heads * wide * batch * context, moved, batch)


def prefill(table: Table, stored: str) -> Work:
    """As `prefill_work` of a model with these heads on one GPU."""
    wide = 2 * table["head_dim"].astype(float)
    return prompt_work(table, wide, table["num_kv_heads"].astype(float))


def mla_prefill(table: Table, stored: str) -> Work:
    """As `prefill_work` of DeepSeek-V3, its latent expanded to full heads."""
    return prompt_work(table, EXPANDED, table["num_heads"].astype(float))


def prompt_work(table: Table, wide: Floats | float, kv_heads: Floats) -> Work:
    """Each new token meets the prefix and half of the new ones."""
    heads, tokens = (
        table["num_heads"].astype(float),
        (table["batch_size"] * table["new_tokens"]).astype(float),
    )
    keys = table["prefix_len"] + (table["new_tokens"] + 1) / 2
    return Work(
        2 * heads * wide * tokens * keys, 2 * tokens * wide * (heads + kv_heads), heads * tokens / 128
    )


WORK = {"decode": decode, "mla_decode": mla_decode, "prefill": prefill, "mla_prefill": mla_prefill}

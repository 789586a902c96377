"""Fits of fused expert kernels: balanced routing, one rank.

Balanced rows of the tables spread their pairs evenly: min(experts held, pairs) are touched. Of the kernels an
engine has for one precision, the commonest counts with those that take over some layouts of its models; what
only other models run in is left out.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.kernel_fits import Bounds, Case, Table, fitted, read, where
from cluster_configs.devices import find
from model_zoo.schema import WEIGHT_BYTES
from planner.cost.efficiency.reading import Chip, Fit
from planner.cost.experts import ROW_BYTES, RankWork, rank_s
from planner.designs.precision import EXPERT_KERNELS

MODEL = ("hidden_size", "inter_size", "topk", "num_experts")
COLUMNS = (
    *("system", "backend", "dtype", "kernel", "distribution", *MODEL),
    *("moe_tp_size", "moe_ep_size", "num_tokens", "latency_ms"),
)
WIDE, WIDE_SHARE = 8, 0.3
"""Layouts of more than 8 ranks weigh less: few are served."""

MOST_TOKENS = 16384
LEAST_ROWS = 60
UNTUNED = 0.25
"""Share of the bandwidth below which a kernel was timed without its tuning: vLLM's FP8 per tensor on Hopper
takes eight times as long as the same weights with block scales. SGLang's own Triton kernels in MXFP4 on
Hopper take three times as long as OpenAI's (`triton_kernels`), which vLLM's table has and which SGLang takes
by itself for gpt-oss (server_args.py)."""

UNDIVIDED = 0.9
"""Share of the time of one rank alone above which one of two ranks was given all its pairs."""

MARLIN_4_BIT = ("int4_wo", "int4_wo", "bf16", "marlin")
"""Marlin's kernels for 4-bit integers, whose weights differ from MXFP4's in how they are scaled alone. They
stand in where MXFP4's were timed with one model, of 896 experts: that does not tell how times grow with
them, and eight times as many launch longer."""

TWO_MATRICES = {(2688, 1856), (2048, 5120), (8192, 5120), (1024, 2688), (4096, 2688)}
"""Hidden and inner sizes of Nemotron's experts, which have no gate; all others have three matrices."""

BOUNDS: Bounds = {
    "compute": (0.02, 0.4, 1.0),
    "memory": (0.1, 0.7, 1.0),
    "t0_s": (2e-6, 2.5e-5, 8e-5),
    "p": (1.0, 1.5, 8.0),
    "tau_s": (1e-10, 5e-8, 1e-6),
    "held_s": (1e-10, 5e-8, 1e-6),
    "ep_s": (1e-8, 5e-6, 6e-5),
    "rows": (0.02, 0.5, 4.0),  # more than the bandwidth: they stay in the L2 cache
    "tokens": (0.02, 0.5, 4.0),
}


@cache
def expert_fit(
    system: str, engine: str, precision: str, dtype: str, peak: str, kernels: str = ""
) -> Fit | None:
    """The fit of one precision, measured under the name `dtype`, by the commonest kernels or those of the
    family `kernels`; None where rows are few or an artefact."""
    table = expert_table(system, engine)
    table = where(table, table["dtype"] == dtype)
    if kernels:
        table = where(table, np.array([family(name) == kernels for name in table["kernel"]], bool))
    if len(table["dtype"]) < LEAST_ROWS:
        return None
    if kernels == "marlin" and precision == "mxfp4" and not labels(table).any():
        return expert_fit(system, engine, *MARLIN_4_BIT)
    if not kernels:
        table = where(table, commonest(table["kernel"], labels(table)))
    case = as_case(table, Chip.of(find(system.replace("_", "-"))), WEIGHT_BYTES[precision])
    fit = fitted(case, Fit(compute=0.4, memory=0.7, t0_s=2.5e-5, peak=peak), BOUNDS)
    return fit if fit.memory > UNTUNED else None


@cache
def expert_table(system: str, engine: str) -> Table:
    """Balanced rows of an engine on a system."""
    table = read("moe", system, COLUMNS)
    balanced = (table["distribution"] == "balanced") & (table["num_tokens"] <= MOST_TOKENS)
    table = where(table, balanced & (table["backend"] == engine))
    return where(table, divided(table))


def divided(table: Table) -> NDArray[np.bool_]:
    """Rows but those of ranks that were given the pairs of all, by kernel and model, (n,): where one of two
    ranks takes as long for many tokens as one alone. DeepSeek-V3's router takes four of eight groups of
    experts, and in vLLM's and SGLang's kernels, which route by themselves, every token chose the groups of
    the timed rank; Kimi-K2's, of the same sizes but without groups, are divided there."""
    labelled = np.stack([np.unique(table[name], return_inverse=True)[1] for name in ("kernel", "dtype")])
    kind = np.unique(np.stack([*labelled, labels(table)]), axis=1, return_inverse=True)[1].reshape(-1)
    many = (table["num_tokens"] == MOST_TOKENS) & (table["moe_tp_size"] == 1)
    kept = np.ones(len(kind), dtype=bool)
    for each in np.unique(kind):
        of = many & (kind == each)
        alone, two = (table["latency_ms"][of & (table["moe_ep_size"] == n)] for n in (1, 2))
        if len(alone) and len(two) and np.median(two) > UNDIVIDED * np.median(alone):
            kept &= (kind != each) | (table["moe_ep_size"] == 1)
    return kept


def family(kernel: str) -> str:
    """What engines call a kernel's like, by its name in the tables; blank where that does not say.

    >>> family("sglang_fused_moe_triton"), family("moe_torch_flow")
    ('triton', '')
    """
    return next((name for name in EXPERT_KERNELS if name in kernel), "")


def labels(table: Table) -> NDArray[np.int64]:
    """A number for each model (its shape), (n,)."""
    shapes = np.stack([table[name] for name in MODEL], axis=1)
    return np.unique(shapes, axis=0, return_inverse=True)[1].reshape(-1)


def commonest(kernels: NDArray[np.object_], model: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows of the commonest kernel, and of those of which it shares the models."""
    main = Counter(kernels.tolist()).most_common(1)[0][0]
    shared = np.isin(model, model[kernels == main])
    kept = [name for name in set(kernels.tolist()) if shared[kernels == name].mean() > 0.5]
    return np.isin(kernels, kept)


def as_case(table: Table, chip: Chip, weight_bytes: float) -> Case:
    """All rows; models are held out whole, layouts where there is but one model."""
    hidden, inner, top_k, experts = (table[name].astype(float) for name in MODEL)
    tp, ep, tokens = (table[f"{n}"].astype(float) for n in ("moe_tp_size", "moe_ep_size", "num_tokens"))
    pairs = tokens * top_k / ep
    touched = np.minimum(experts / ep, np.maximum(pairs, 1.0))
    gated = [(int(h), int(i)) not in TWO_MATRICES for h, i in zip(hidden, inner, strict=True)]
    matrices = np.where(gated, 3.0, 2.0)
    cells = matrices * hidden * inner / tp
    work = RankWork(
        flops=2 * pairs * cells,
        weights=touched * cells * weight_bytes,
        rows=ROW_BYTES * pairs * (2 * hidden + matrices * inner / tp),
        touched=touched,
        held=experts / ep,
        permuted=ROW_BYTES * tokens * (1 + top_k) * hidden,
        split=np.where(ep > 1, 1.0, 0.0),
    )
    model = labels(table)
    layout = np.unique(tp * 1000 + ep, return_inverse=True)[1]
    return Case(
        lambda fit: rank_s(fit, chip, work),
        table["latency_ms"].astype(float) * 1e-3,
        model if model.max() > 0 else layout,
        np.where((tp > WIDE) | (ep > WIDE), WIDE_SHARE, 1.0),
    )

"""Which of two layouts of the same GPUs is faster at the same concurrency, and how often we know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.scores.held import LAYOUT, PROBLEM, Floats, Held, Indices, alike
from benchmarks.scores.render import share, table

FIXED = (*PROBLEM, "gpus", "concurrency")
VERSION = (*FIXED, "backend_version")
APART = 1.05
"""Measured values of a pair that differ by less are a draw and left out."""


@dataclass(frozen=True)
class Ordering:
    """Pairs that really differ, and the share of them whose predictions are in the same order (a draw counts
    half)."""

    pairs: int
    right: float


def layout_pairs(held: Held, fixed: Sequence[str] = FIXED) -> Indices:
    """Indices (pairs, 2) of rows that agree in `fixed` and differ in layout."""

    def layout(i: int) -> tuple[str, ...]:
        return tuple(held.rows[i][column] for column in LAYOUT)

    pairs = [
        p for rows in alike(held.rows, fixed) for p in combinations(rows, 2) if layout(p[0]) != layout(p[1])
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def ordering(predicted: Floats, measured: Floats, pairs: Indices) -> Ordering:
    """Over pairs, (pairs, 2), of values, (n,).

    >>> ordering(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.5, 1.2]), np.array([[0, 1], [1, 2]])).right
    0.5
    """
    real, said = (np.log(x[pairs[:, 0]] / x[pairs[:, 1]]) for x in (measured, predicted))
    apart = np.abs(real) > np.log(APART)
    agree = np.sign(real[apart]) * np.sign(said[apart])
    return Ordering(int(apart.sum()), float((1 + agree).mean() / 2) if apart.any() else float("nan"))


def layout_table(held: Held) -> str:
    """By model, device and engine, over all, over pairs of one engine version, and of these over those whose
    launch lines say the same of routers in 32 bits."""
    names = np.array([" ".join((r["family"], r["system"], r["backend"])) for r in held.rows])
    pairs = layout_pairs(held)
    parts = [
        *((str(name), pairs[names[pairs[:, 0]] == name]) for name in np.unique(names[pairs[:, 0]])),
        ("all", pairs),
        ("all, of one engine version", layout_pairs(held, VERSION)),
        ("all, of one version and routers", layout_pairs(held, (*VERSION, "router"))),
    ]
    lines = []
    for name, some in parts:
        tpot = ordering(held.tpot, held.measured_tpot, some)
        rate = ordering(held.rate(), held.measured_rate(), some)
        lines.append([name, str(tpot.pairs), share(tpot.right), str(rate.pairs), share(rate.right)])
    return table(["", "pairs by TPOT", "right", "pairs by tokens/s", "right"], lines)

"""How far medians are off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.scores.held import KINDS, Floats, Held
from benchmarks.scores.render import share, signed, table
from benchmarks.scores.slices import SLICES, slices


@dataclass(frozen=True)
class Errors:
    """Of |predicted / measured - 1|: median, mean, 90th percentile.

    `bias` is the median of predicted / measured - 1, `log_bias` the mean of log(predicted / measured).
    """

    n: int
    median: float
    mean: float
    p90: float
    bias: float
    log_bias: float


def errors(predicted: Floats, measured: Floats) -> Errors:
    """Over rows, shapes (n,); n > 0.

    >>> errors(np.array([1.1, 2.0, 4.0]), np.array([1.0, 2.0, 5.0])).median.__round__(3)
    0.1
    """
    ratio = predicted / measured
    off = np.abs(ratio - 1)
    figures = (np.median(off), off.mean(), np.quantile(off, 0.9), np.median(ratio) - 1, np.log(ratio).mean())
    return Errors(len(ratio), *(float(figure) for figure in figures))


def error_table(held: Held) -> str:
    """TPOT and TTFT over all rows and in every slice."""
    heads = [
        "",
        "n",
        *(f"{kind} {what}" for kind in KINDS for what in ("median", "mean", "P90", "bias", "mean log")),
    ]
    everything = ("all", "", np.ones(len(held.rows), dtype=bool))
    lines = []
    for name, value, mask in (everything, *slices(held.rows, list(SLICES))):
        found = [errors(held.predicted(kind)[mask], held.measured(kind)[mask]) for kind in KINDS]
        lines.append(
            [f"{name} {value}".rstrip(), str(found[0].n), *(cell for e in found for cell in _cells(e))]
        )
    return table(heads, lines)


def _cells(e: Errors) -> list[str]:
    return [share(e.median), share(e.mean), share(e.p90), signed(e.bias), signed(e.log_bias)]

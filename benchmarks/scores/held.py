"""Measured rows beside what a predictor that had not seen them says: what all scores are computed from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Row = Mapping[str, str]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

KINDS = ("tpot", "ttft")
PROBLEM = ("model_path", "system", "backend", "precision", "gemm_quant_mode", "moe_quant_mode", "isl", "osl")
"""Columns whose rows answer the same question: what runs where, at which precision and lengths."""

LAYOUT = ("attn_tp", "attn_dp", "moe_tp", "ep")
CONFIGURATION = ("gpus", *LAYOUT, "concurrency")
"""Columns that a planner chooses."""

Z80 = NormalDist().inv_cdf(0.9)
"""Standard deviations that the central 80 % of a Gaussian reach either way."""


@dataclass(frozen=True)
class Held:
    """Measured rows, their median predictions and the log-standard deviations of these; ms, shapes (n,)."""

    rows: Sequence[Row]
    measured_tpot: Floats
    measured_ttft: Floats
    tpot: Floats
    ttft: Floats
    sigma_tpot: Floats
    sigma_ttft: Floats

    def measured(self, kind: str) -> Floats:
        """Of "tpot" or "ttft"."""
        return np.asarray(getattr(self, f"measured_{kind}"))

    def predicted(self, kind: str) -> Floats:
        """The median."""
        return np.asarray(getattr(self, kind))

    def edge(self, kind: str, z: float) -> Floats:
        """`z` standard deviations above the median."""
        return np.asarray(self.predicted(kind) * np.exp(z * getattr(self, f"sigma_{kind}")))

    def rate(self) -> Floats:
        """Predicted output tokens/s per GPU."""
        return _rate(self.rows, self.tpot, self.ttft)

    def measured_rate(self) -> Floats:
        """Measured output tokens/s per GPU."""
        return _rate(self.rows, self.measured_tpot, self.measured_ttft)

    def take(self, index: npt.NDArray[Any]) -> Held:
        """The rows of an index or mask."""
        chosen = np.arange(len(self.rows))[index]
        arrays = {
            name: getattr(self, name)[chosen]
            for name in ("measured_tpot", "measured_ttft", "tpot", "ttft", "sigma_tpot", "sigma_ttft")
        }
        return replace(self, rows=[self.rows[i] for i in chosen], **arrays)


def alike(rows: Sequence[Row], columns: Sequence[str]) -> list[Indices]:
    """The indices of rows that agree in `columns`, one array a group, in order of first appearance."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[tuple(row[column] for column in columns)].append(i)
    return [np.array(members) for members in groups.values()]


def _rate(rows: Sequence[Row], tpot: Floats, ttft: Floats) -> Floats:
    concurrency, osl, gpus = (np.array([float(r[c]) for r in rows]) for c in ("concurrency", "osl", "gpus"))
    return np.asarray(1e3 * concurrency * osl / (ttft + osl * tpot) / gpus)

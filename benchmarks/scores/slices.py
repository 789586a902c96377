"""The slices that errors and bands are shown for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.scores.held import Row

LOADS = (8, 32, 128)
"""Concurrency up to which a band reaches."""

SLICES: dict[str, Callable[[Row], str]] = {
    "engine": lambda row: row["backend"],
    "generation": lambda row: row["generation"],
    "ffn": lambda row: row["ffn"],
    "device": lambda row: row["system"],
    "model": lambda row: row["family"],
    "precision": lambda row: row["precision"] or "as stored",
    "concurrency": lambda row: load(float(row["concurrency"])),
}


def load(concurrency: float) -> str:
    """
    >>> load(8), load(100), load(256)
    ('   1-8', '  33-128', ' 129-')
    """
    low = 1
    for high in LOADS:
        if concurrency <= high:
            return f"{low:4d}-{high}"
        low = high + 1
    return f"{low:4d}-"


def slices(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, str, npt.NDArray[np.bool_]]]:
    """(slice, value, mask of shape (n,)) of each value in `rows`, sorted by value within a slice."""
    for name in names:
        values = np.array([SLICES[name](row) for row in rows])
        for value in np.unique(values):
            yield name, str(value), values == value

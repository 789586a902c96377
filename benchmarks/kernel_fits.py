"""Closed forms fitted to measured kernel times, with the error on shapes left out.

The tables lie beside the repository (`../shared/data/ops`, parquet: reading them takes `pyarrow`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from planner.cost.efficiency.reading import Fit
from planner.designs.shape import Floats

OPS = Path(__file__).resolve().parents[2] / "shared" / "data" / "ops"
Table = dict[str, NDArray[Any]]
Bounds = Mapping[str, tuple[float, float, float]]
"""Of each free parameter of a `Fit`: least, start, most."""

SCALE = 0.1
"""Relative error beyond which a row counts by its size and not by its square: kernels switch."""


@dataclass(frozen=True)
class Case:
    """Measured rows of one kernel. `predict` gives the seconds of all rows; shapes (n,).

    `shape` numbers what is held out together; `weights` is each row's share in the fit.
    """

    predict: Callable[[Fit], Floats]
    measured_s: Floats
    shape: NDArray[np.int64]
    weights: Floats


def read(name: str, system: str, columns: Sequence[str]) -> Table:
    """Columns of the table `name` of one system, (n,) each, an absent number as NaN."""
    parquet = import_module("pyarrow.parquet")
    only = [("system", "==", system)]
    table = parquet.read_table(OPS / f"{name}.parquet", columns=list(columns), filters=only)
    return {c: table.column(c).to_numpy(zero_copy_only=False) for c in columns}


def where(table: Table, keep: NDArray[np.bool_]) -> Table:
    """The rows to keep."""
    return {name: column[keep] for name, column in table.items()}


def fitted(case: Case, start: Fit, bounds: Bounds) -> Fit:
    """`start` with the parameters in `bounds` at the least error of log seconds; its `error` is held out."""
    everything = np.ones(len(case.measured_s), bool)
    error = float(np.median(np.abs(held_out(case, start, bounds))))
    return replace(best(case, start, bounds, everything), error=error)


def held_out(case: Case, start: Fit, bounds: Bounds, folds: int = 5) -> Floats:
    """Relative error of every row, (n,), each predicted by a fit that has seen none of its shape."""
    fold = case.shape % folds
    errors = np.zeros(len(fold))
    for left_out in set(fold.tolist()):
        out = fold == left_out
        fit = best(case, start, bounds, ~out)
        errors[out] = case.predict(fit)[out] / case.measured_s[out] - 1
    return errors


def best(case: Case, start: Fit, bounds: Bounds, keep: NDArray[np.bool_]) -> Fit:
    """Least robust error of log seconds over the rows to keep, within `bounds`."""
    low, first, high = (np.log([row[i] for row in bounds.values()]) for i in range(3))
    weights = np.sqrt(case.weights[keep])

    def of(logs: Floats) -> Fit:
        return replace(start, **dict(zip(bounds, np.exp(logs).tolist(), strict=True)))

    def residuals(logs: Floats) -> Floats:
        return np.asarray(weights * np.log(case.predict(of(logs))[keep] / case.measured_s[keep]))

    found = least_squares(residuals, first, bounds=(low, high), loss="soft_l1", f_scale=SCALE, diff_step=1e-4)
    return of(found.x)

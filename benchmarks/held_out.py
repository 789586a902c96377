"""Predictions of every clean row by parameters fitted without its group: leave one group out.

A group is a model (its twins of the same shape included) on a device; or a whole model; or a whole device.
Each fold fits all rows but the group's to their own optimum, then predicts the group; bands come
from the folds' own errors on *other* groups (`sigmas`), so that no row helps to judge itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.scores.held import Z80, Held
from benchmarks.truth import Row, as_asked
from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit
from planner.cost.shape import Floats
from planner.predictions import looked_up
from planner.rows import parse

Keys = Sequence[tuple[str, ...]]


def bench_of(rows: Sequence[Row]) -> Bench:
    """The rows with what was measured."""
    figures = [[float(r["silicon_ttft_ms"]), float(r["silicon_tpot_ms"])] for r in rows]
    return Bench([looked_up(parse(as_asked(r))) for r in rows], np.log(np.array(figures)))


def predictions(fit: Fit, groups: Keys) -> Floats:
    """Log times of every row, (n, 2), with its group held out. `fit` has run on all rows."""
    return fit.held_out([" ".join(group) for group in groups])


def as_held(rows: Sequence[Row], measured: Floats, predicted: Floats, sigma: Floats) -> Held:
    """For `benchmarks.scores`: times in ms, sigmas (n, 2)."""
    seen, said = np.exp(measured), np.exp(predicted)
    return Held(
        list(rows), seen[:, TPOT], seen[:, TTFT], said[:, TPOT], said[:, TTFT], sigma[:, TPOT], sigma[:, TTFT]
    )


def sigmas(errors: Floats, engines: Sequence[str], groups: Keys) -> Floats:
    """The band of each row, (n, 2): from the errors of its engine's rows in all groups but its own."""
    out = np.zeros_like(errors)
    names = np.array([" ".join(group) for group in groups])
    engine = np.array(list(engines))
    for name, of in {(n, e) for n, e in zip(names.tolist(), engine.tolist(), strict=True)}:
        others = errors[(names != name) & (engine == of)]
        rest = others if len(others) else errors[names != name]
        out[(names == name) & (engine == of)] = np.quantile(np.abs(rest), 0.8, axis=0) / Z80
    return out

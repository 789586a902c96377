"""Predictions of every clean row by parameters fitted without its group: leave one group out.

Groups are what people meet that nobody has measured (`FOLDS`): a model, its twins of the same shape included,
on an engine or on a device; a whole model, device, engine version or source. Each fold fits all rows but the
group's from the priors on, then predicts the group; bands come from the folds' own errors on *other* groups
(`sigmas`), so that no row helps to judge itself.

Bands are told at the levels `LEVELS`, each drawn to the wider one by how few groups it has: models with
experts scatter more than dense ones, and some engines more than others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.scores.held import Held
from benchmarks.truth import Row, as_asked, group_of
from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.calibrate import KINDS, pooled
from planner.calibration.fitting import Fit, calibrated
from planner.cost.bands import Z80
from planner.cost.calibration import Calibration, Traits
from planner.designs.shape import Floats
from planner.predict.predictions import looked_up
from planner.predict.rows import parse
from planner.queueing import decode_s, prefill_s

Keys = Sequence[tuple[str, ...]]

COLD = 2.0
"""Times as far off as others that first tokens of a run without warm-up may be: its first requests wait for
kernels to be built."""

FOLDS: dict[str, Callable[[Row], tuple[str, ...]]] = {
    "model x device": group_of,
    "model x engine": lambda row: (row["family"], row["backend"]),
    "model": lambda row: (row["family"],),
    "device": lambda row: (row["system"],),
    "engine version": lambda row: (row["backend"], ".".join(row["backend_version"].split(".")[:3])),
    "source": lambda row: (row["source"],),
}
"""Ways of leaving out."""

CHOSEN = "model x engine"
"""The fold that choices are made on, and by whose errors bands are as wide as they are."""

LEVELS = ("ffn", "engine+ffn", "engine+experts")
"""Of bands, beside "all", from wide to narrow."""


def bench_of(rows: Sequence[Row]) -> Bench:
    """The rows with what was measured."""
    figures = [[float(r["silicon_ttft_ms"]), float(r["silicon_tpot_ms"])] for r in rows]
    doubt = [[1.0 if r["warmed_up"] else COLD, 1.0] for r in rows]
    return Bench([looked_up(parse(as_asked(r))) for r in rows], np.log(np.array(figures)), np.array(doubt))


def predictions(fit: Fit, groups: Keys) -> Floats:
    """Log times of every row, (n, 2), with its group held out. `fit` has run on all rows."""
    return fit.held_out([" ".join(group) for group in groups])


def as_held(rows: Sequence[Row], measured: Floats, predicted: Floats, sigma: Floats) -> Held:
    """For `benchmarks.scores`: times in ms, sigmas (n, 2)."""
    seen, said = np.exp(measured), np.exp(predicted)
    return Held(
        list(rows), seen[:, TPOT], seen[:, TTFT], said[:, TPOT], said[:, TTFT], sigma[:, TPOT], sigma[:, TTFT]
    )


def prompt_shares(fit: Fit) -> Floats:
    """Share of each row's time that goes to prompts, (n,), by the parameters that the fit has found."""
    bench, shares = fit.bench, np.zeros(len(fit.bench))
    tunings = bench.tunings(calibrated(fit.around, fit.effects, fit.x))
    for c, (cell, tuning) in enumerate(zip(bench.cells, tunings, strict=True)):
        load, step = cell.load, bench.work_of(c, tuning).step
        new, isl, osl = (load.asked.new, load.asked.isl, load.asked.osl)
        prompts, tokens = prefill_s(step, new, isl)[:, 0], decode_s(step, isl, osl)[:, 0]
        shared = (osl[:, 0] - 1) * step.t0_s / np.maximum(bench.batches[c], 1.0)
        shares[cell.at] = prompts / (prompts + tokens + shared)
    return shares


def traits_of(bench: Bench) -> list[Traits]:
    """Each row's server."""
    return [bench.cells[c].traits for c in bench.cell_of]


def bands(errors: Floats, servers: Sequence[Traits], groups: Keys) -> dict[str, dict[str, dict[str, float]]]:
    """Kind → level → key → standard deviation whose central 80 % hold 80 % of held-out rows; `errors` (n, 2)
    in logs."""
    names = np.array([" ".join(group) for group in groups])
    found = {}
    for kind, column in KINDS.items():
        size = errors[:, column]
        sigma = np.full(len(size), np.quantile(np.abs(size), 0.8) / Z80)
        levels = {"all": {"all": float(sigma[0])}}
        for level in LEVELS:
            keys = np.array([server.key(level) for server in servers])
            told = {}
            for key in np.unique(keys).tolist():
                at = keys == key
                told[key] = pooled(size[at], sigma[at], len(set(names[at])))
            sigma = np.array([told[key] for key in keys.tolist()])
            levels[level] = told
        found[kind] = levels
    return found


def sigmas(errors: Floats, servers: Sequence[Traits], groups: Keys) -> Floats:
    """The deviation of each row's band, (n, 2): by the bands of all groups but its own."""
    out = np.zeros_like(errors)
    names = np.array([" ".join(group) for group in groups])
    for name in np.unique(names).tolist():
        rest = np.flatnonzero(names != name).tolist()
        known = bands(errors[rest], [servers[i] for i in rest], [groups[i] for i in rest])
        calibration = Calibration(bands=known)
        for i in np.flatnonzero(names == name).tolist():
            for kind, column in KINDS.items():
                out[i, column] = calibration.sigma(kind, servers[i])
    return out

"""A user's own measurements refine the shipped parameters: door `calibrate`.

The calibration that is there stays as it is; factors at the levels of `priors.py` come on top. What they are
worth is seen on rows held back: five folds, each predicted by what the other four say. A band is as wide as
errors of rows held back: of an (engine, device, model) by folds, of an (engine, device) by whole models, of a
device by whole engines; few of them leave it near the band of before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit, calibrated
from planner.calibration.priors import NOISE, SPREAD
from planner.calibration.runs import Measurement
from planner.cost.bands import Z80
from planner.cost.calibration import Calibration, Traits
from planner.designs.shape import Floats
from planner.predict.predictions import looked_up
from planner.predict.rows import Row, parse
from planner.version import __version__

FOLDS = 5
EARLIER = 5
"""Rows (models, engines, groups) that the band of before counts for, against those measured."""

FELT = 0.01
"""Change of a time's logarithm from which a parameter's change is told."""

KINDS = {"ttft": TTFT, "tpot": TPOT}
OWN = DEVICE, PAIR, SERVER = "device", "engine+device", "engine+device+model"
"""Levels that bands are told at, beside those of before."""


@dataclass(frozen=True)
class Change:
    """A parameter of one kind of server is `factor` times what it was, all levels together: the logarithms of
    TTFT and TPOT of its rows are greater by `effect`, medians, shape (2,)."""

    parameter: str
    server: Traits
    factor: float
    effect: Floats


@dataclass(frozen=True)
class Calibrated:
    """The refined calibration, and what it is worth. Of n rows, each of shape (n, 2): log milliseconds
    measured, predicted before, and predicted with the row held back; deviations of bands before and now.
    `servers`: each row's, (n,); `models`: names of their shapes."""

    calibration: Calibration
    measurements: Sequence[Measurement]
    servers: Sequence[Traits]
    models: Mapping[str, str]
    measured: Floats
    before: Floats
    held_back: Floats
    sigma_before: Floats
    sigma: Floats
    changes: Sequence[Change]


def calibrate(
    measurements: Sequence[Measurement], around: Calibration, tell: Callable[[str], None] = lambda words: None
) -> Calibrated:
    """`around`, refined by measurements; `tell` hears how far it is. Raises InputError: a row names what
    nobody knows."""
    rows = [looked_up(parse(m.cells)) for m in measurements]
    bench = Bench(rows, np.array([[_log(m.ttft_ms), _log(m.tpot_ms)] for m in measurements]))
    devices = np.array(_keys(bench, DEVICE))
    before, held_back = (np.full_like(bench.measured, np.nan) for _ in range(2))
    sigma_before, servers = _sigma(bench, around), [bench.cells[c].traits for c in bench.cell_of]
    models = {cell.traits.model: cell.group.card.name for cell in bench.cells}
    refined, changes = around, list[Change]()
    levels = dict.fromkeys([*around.bands["tpot"], *OWN])  # from wide to narrow
    bands = {kind: {level: dict(of.get(level, {})) for level in levels} for kind, of in around.bands.items()}
    for device in dict.fromkeys(devices.tolist()):  # each alone: no factor of ours is of several devices
        at = np.flatnonzero(devices == device)
        own = [rows[i] for i in at]
        tell(f"fitting {len(own):,} rows of {device}")
        fit = Fit(Bench(own, bench.measured[at]), around, SPREAD, NOISE)
        tunings = fit.bench.tunings(around)
        fit.bench.settle(tunings)
        before[at] = fit.bench.log_times(tunings)
        found = fit.run()
        refined = calibrated(refined, found.effects, found.x)
        changes += _changes(fit, found.x)
        tell(f"judging {len(own):,} rows of {device}")
        held_back[at] = fit.held_out(folds([row for _, row in own]))
        _narrow(bands, fit, held_back[at], sigma_before[at])
    about = _about(measurements, bench.measured - before, bench.measured - held_back) | {"models": models}
    refined = replace(refined, bands=bands, about=about)
    arrays = (bench.measured, before, held_back, sigma_before, _sigma(bench, refined))
    return Calibrated(refined, measurements, servers, models, *arrays, changes)


def folds(rows: Sequence[Row]) -> list[int]:
    """The fold of each row, one for rows that differ in nothing.

    >>> row = parse({"model": "llama-3.1-8b", "device": "h100"})
    >>> folds([row, replace(row, concurrency=4.0), row])
    [0, 1, 0]
    """
    distinct = list(dict.fromkeys(rows))
    order = np.random.default_rng(0).permutation(len(distinct)).tolist()
    fold = {row: i % FOLDS for row, i in zip(distinct, order, strict=True)}
    return [fold[row] for row in rows]


def off(errors: Floats) -> Floats:
    """|predicted / measured - 1| of errors log(measured / predicted)."""
    return np.asarray(np.abs(np.expm1(-errors)))


def _sigma(bench: Bench, calibration: Calibration) -> Floats:
    """Deviations of each row's bands, (n, 2)."""
    costs = [cell.group.cost(calibration) for cell in bench.cells]
    return np.array([[cost.sigma_ttft, cost.sigma_tpot] for cost in costs])[bench.cell_of]


def _narrow(
    bands: dict[str, dict[str, dict[str, float]]], fit: Fit, held_back: Floats, before: Floats
) -> None:
    """Add the bands of one device's rows; `before`: deviations of each row's until now, (n, 2)."""
    bench = fit.bench
    for level, finer in ((DEVICE, PAIR), (PAIR, SERVER), (SERVER, None)):
        keys = np.array(_keys(bench, level))
        parts = np.array(_keys(bench, finer) if finer else range(len(keys)))
        told = [k for k in dict.fromkeys(keys.tolist()) if not finer or len(set(parts[keys == k])) > 1]
        if not told:
            continue
        errors = bench.measured - (fit.held_out(parts.tolist()) if finer else held_back)
        for kind, column in KINDS.items():
            for key in told:
                at = (keys == key) & np.isfinite(errors[:, column])
                if at.any():
                    own = float(np.quantile(np.abs(errors[at, column]), 0.8)) / Z80
                    bands[kind][level][key] = pooled(own, before[at, column], len(set(parts[at])))


def pooled(own: float, before: Floats | float, units: int, earlier: int = EARLIER) -> float:
    """A band's deviation from that of `units` that were held back and the deviations of before (or of a wider
    level), which count for `earlier`: variances by their counts (a conjugate prior's mean; Gelman et al.
    2013, ch. 2.6)."""
    return float(np.sqrt((earlier * np.mean(before**2) + units * own**2) / (earlier + units)))


def _keys(bench: Bench, level: str) -> list[str]:
    """Each row's key at a level."""
    return [bench.cells[c].traits.key(level) for c in bench.cell_of]


def _changes(fit: Fit, x: Floats) -> list[Change]:
    """What is felt, most first: by parameter and kind of server, all levels together."""
    servers = [fit.bench.cells[c].traits for c in fit.bench.cell_of]
    found = []
    for traits in dict.fromkeys(servers):
        slope = fit.slope[[other == traits for other in servers]]
        for name in fit.names:
            of = np.array([e.parameter == name and traits.key(e.level) == e.key for e in fit.effects])
            effect = np.nan_to_num(np.median(slope[:, :, of] @ x[of], axis=0))
            found.append(Change(name, traits, float(np.exp(x[of].sum())), effect))
    felt = [change for change in found if np.abs(change.effect).max() >= FELT]
    return sorted(felt, key=lambda change: -float(np.abs(change.effect).max()))


def _about(measurements: Sequence[Measurement], before: Floats, after: Floats) -> dict[str, object]:
    """What a plan states: rows, files, median errors of rows held back before and after, and bias after."""
    about: dict[str, object] = {
        "meshwright_version": __version__,
        "rows": len(measurements),
        "files": list(dict.fromkeys(_file(m.where) for m in measurements)),
    }
    for kind, column in KINDS.items():
        known = np.isfinite(after[:, column])
        if known.any():
            was, now = before[known, column], after[known, column]
            figures = (np.median(off(was)), np.median(off(now)), np.median(np.expm1(-now)))
            about[f"held_back_{kind}"] = dict(
                zip(("before", "after", "bias"), (round(float(x), 4) for x in figures), strict=True)
            )
    return about


def _file(where: str) -> str:
    """The name of the file in a place.

    >>> _file("runs/bench.csv:17"), _file("runs/a.json: entry 3")
    ('bench.csv', 'a.json')
    """
    return PurePath(re.sub(r"(:\d+)?(: entry \d+)?$", "", where)).name


def _log(ms: float | None) -> float:
    return float(np.log(ms)) if ms is not None else float("nan")

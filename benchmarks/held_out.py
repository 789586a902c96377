"""Predictions of every clean row by parameters fitted without its group: leave one group out.

Groups are what people meet that nobody has measured (`FOLDS`): a model, its twins of the same shape included,
on an engine or on a device; a whole model, device, engine version or source. Each fold fits all rows but the
group's from the priors on, then predicts the group; bands come from the folds' own errors on *other* groups
(`sigmas`), so that no row helps to judge itself.

Bands are told by engine and by dense models or those with experts, as if either made errors so many times as
wide whatever the other; what an engine's dense models, or its others, have of their own comes on top. Each is
drawn to what is known without it by how few groups it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

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

STEPS = (0.0, 0.5)
"""How far steps are damped that are tried by `stepped`."""

WIDER = 16
"""Groups that what is known without a level counts for, in its band. Of 0, 2, 4, 8, 16, 32 and no levels at
all it has the best sum of logarithmic scores (Gneiting and Raftery 2007) over TPOT and TTFT, models and
layouts left out with their engine. There are a dozen groups: what engines have of their own is mostly
chance."""


def bench_of(rows: Sequence[Row]) -> Bench:
    """The rows with what was measured."""
    figures = [[float(r["silicon_ttft_ms"]), float(r["silicon_tpot_ms"])] for r in rows]
    doubt = [[1.0 if r["warmed_up"] else COLD, float(r.get("doubt") or 1)] for r in rows]
    return Bench([looked_up(parse(as_asked(r))) for r in rows], np.log(np.array(figures)), np.array(doubt))


def of_today(rows: Sequence[Row]) -> list[int]:
    """Which rows are neither of an older release that one device alone was slow with, nor printouts: these
    are fitted, but no fold asks for them, as nothing but themselves tells of them."""
    return [i for i, row in enumerate(rows) if not row.get("era")]


def predictions(fit: Fit, groups: Keys) -> Floats:
    """Log times of every row, (n, 2), with its group held out. `fit` has run on all rows."""
    return fit.held_out([" ".join(group) for group in groups])


def stepped(fit: Fit, held: NDArray[np.bool_]) -> Floats:
    """Log times of every row, (n, 2), one step from the optimum of all rows towards that of all but those
    `held` out: seconds, where `predictions` takes minutes. It stays near an optimum that the rows left out
    helped to find: without a model on an engine TPOT's median error is 5.5 % by this, 6.4 by `predictions`.
    `fit` stands at the optimum, its slopes known."""
    start = fit.state()
    times = fit.step(~held, STEPS)[2]
    fit.go_to(start)
    return times


def folded(fit: Fit, names: Sequence[str]) -> Floats:
    """Log times of every row, (n, 2), by one step (`stepped`) with all rows of other names."""
    found = np.full((len(names), 2), np.nan)
    for name in dict.fromkeys(names):
        held = np.array([other == name for other in names])
        found[held] = stepped(fit, held)[held]
    return found


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


def traits_of(bench: Bench, rows: Sequence[int]) -> list[Traits]:
    """The server of each of these rows."""
    return [bench.cells[c].traits for c in bench.cell_of[rows]]


def reached(size: Floats, names: NDArray[np.str_]) -> float:
    """The size that 80 % of errors stay below, a group counting as the root of its rows: with rows alone two
    groups out of nineteen, of 480 and 680, would say what all others' bands are, and be far outside them.

    >>> reached(np.array([3.0, 1.0, 1.0, 1.0, 2.0]), np.array(["a", "b", "b", "b", "b"]))
    3.0
    """
    _, group, rows = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(size)
    share = np.cumsum(rows[group][order] ** -0.5)
    return float(size[order][np.searchsorted(share, 0.8 * share[-1])])


def bands(
    errors: Floats, more: Floats, servers: Sequence[Traits], groups: Keys
) -> dict[str, dict[str, dict[str, float]]]:
    """Kind → level → key → the deviation with which bands hold 80 % of held-out rows; `errors` (n, 2) in
    logs, `more`: the deviations that come on top of it (`added`)."""
    names = np.array([" ".join(group) for group in groups])
    engines, ffns = (np.array([getattr(server, trait) for server in servers]) for trait in ("engine", "ffn"))
    found, sizes = {}, fitted_part(errors, more)
    for kind, column in KINDS.items():
        size = sizes[:, column]
        every = reached(size, names) / Z80

        def told(at: NDArray[np.bool_], without: float, size: Floats = size) -> float:
            """The deviation of the rows `at`, drawn to what is known `without` them."""
            if not at.any():
                return without
            return pooled(reached(size[at], names[at]) / Z80, without, len(set(names[at])), WIDER)

        by_engine = {key: told(engines == key, every) for key in np.unique(engines).tolist()}
        by_ffn = {key: told(ffns == key, every) for key in np.unique(ffns).tolist()}
        by_both = {
            f"{engine} {ffn}": told((engines == engine) & (ffns == ffn), one * other / every)
            for (engine, one), (ffn, other) in product(by_engine.items(), by_ffn.items())
        }
        found[kind] = {"all": {"all": every}, "ffn": by_ffn, "engine+ffn": by_both}
    return found


def fitted_part(errors: Floats, more: Floats) -> Floats:
    """How large errors are for the fitted part of a band: what is beyond `more`, the deviations of its other
    part. Counted whole, errors that bands of few rows are already wider for would widen those of all.

    >>> fitted_part(np.array([0.5, 0.1]), np.array([0.3 / Z80, 0.3 / Z80])).round(9).tolist()
    [0.4, 0.0]
    """
    return np.asarray(np.sqrt(np.maximum(np.square(errors) - np.square(Z80 * more), 0.0)))


def added(bench: Bench) -> Floats:
    """What kernels that were not measured on the device, and designs that no run shows, add to the deviation
    of each row's band, (n, 2)."""
    out = np.zeros((len(bench), 2))
    for cell in bench.cells:
        model = cell.group.cost()
        whole = model.sigmas(cell.load.designs)
        for told, (kind, column) in zip(whole, (("ttft", TTFT), ("tpot", TPOT)), strict=True):
            fitted = model.calibration.sigma(kind, cell.traits)
            out[cell.at, column] = np.sqrt(np.maximum(told**2 - fitted**2, 0.0))
    return out


def sigmas(errors: Floats, more: Floats, servers: Sequence[Traits], groups: Keys) -> Floats:
    """The deviation of each row's band, (n, 2): fitted to all groups but its own, and `more` (`added`)."""
    out = np.zeros_like(errors)
    names = np.array([" ".join(group) for group in groups])
    for name in np.unique(names).tolist():
        rest = np.flatnonzero(names != name).tolist()
        known = bands(errors[rest], more[rest], [servers[i] for i in rest], [groups[i] for i in rest])
        calibration = Calibration(bands=known)
        for i in np.flatnonzero(names == name).tolist():
            for kind, column in KINDS.items():
                out[i, column] = calibration.sigma(kind, servers[i])
    return np.asarray(np.hypot(out, more))

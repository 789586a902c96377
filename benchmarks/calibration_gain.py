"""What calibration brings: `python -m benchmarks.calibration_gain`, a quarter of an hour.

Each group (a model family on a device) is held out of the shipped fit, as in `benchmarks/held_out.py`; then
20 of its rows calibrate what was fitted without it, and other rows are scored: 20 random ones and the rest
(some draws), 20 of other lengths than those scored (each pair of lengths in turn), 20 of another engine than
the one scored. A run told twice counts once. No prediction is nearer than repeats are to each other: the last
columns.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.fit import fitted
from benchmarks.held_out import as_held, bench_of
from benchmarks.scores.render import share, signed, table
from benchmarks.scores.repeats import repeats
from benchmarks.truth import RUNS, Row, as_asked, clean_rows, group_of
from planner.calibration.bench import TPOT, TTFT
from planner.calibration.calibrate import calibrate, off
from planner.calibration.fitting import calibrated
from planner.calibration.runs import Measurement
from planner.cost.bands import Z80
from planner.cost.calibration import Calibration, shipped
from planner.designs.shape import Floats, Ints

TAUGHT = 20
"""Rows to calibrate with."""

FEWEST = 30
"""Rows of a group that is looked at: some must be left to score."""

SOME = 10
"""Rows of an engine or of a pair of lengths, on both sides."""

DRAWS = 4
SPLITS = ("random rows", "other lengths", "another engine")


@dataclass(frozen=True)
class Scores:
    """Of scored rows: log(measured / predicted) before and after calibration, and the bands' deviations after
    it, shapes (n, 2)."""

    before: Floats
    after: Floats
    sigma: Floats

    def cells(self) -> list[str]:
        """TPOT before and after (median, bias), the share inside the band; TTFT the same."""
        cells = []
        for kind in (TPOT, TTFT):
            was, now, sigma = self.before[:, kind], self.after[:, kind], self.sigma[:, kind]
            figures = [share(float(np.median(off(x)))) for x in (was, now)]
            inside = float((np.abs(now) <= Z80 * sigma).mean())
            cells += [*figures, signed(float(np.median(np.expm1(-now)))), share(inside)]
        return cells


def main() -> None:
    """Fit, hold out, calibrate, score, print."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    rows = clean_rows()
    fit = fitted(bench_of(rows))
    whole = fit.x, fit.own
    names = np.array([" ".join(group_of(row)) for row in rows])
    found: dict[str, dict[str, Scores]] = {split: {} for split in SPLITS}
    bounds = {}
    for name in np.unique(names).tolist():
        own = once([row for row, other in zip(rows, names, strict=True) if other == name])
        if len(own) < FEWEST:
            continue
        fit.x, fit.own = whole
        without = fit.run(names != name)
        around = replace(calibrated(fit.around, without.effects, without.x), bands=shipped().bands)
        for split in SPLITS:
            scores = [score(own, taught, scored, around) for taught, scored in trials(own, split)]
            if scores:
                found[split][name] = joined(scores)
        bounds[name] = bound(own)
        print(f"{name} …", file=sys.stderr, flush=True)
    print("\n\n".join(report(split, found[split], bounds) for split in SPLITS))


def once(rows: Sequence[Row]) -> list[Row]:
    """Without runs that are told again: the same configuration and figures."""
    figures = ("silicon_ttft_ms", "silicon_tpot_ms")
    seen = {(*as_asked(row).items(), *(f"{float(row[f]):.4g}" for f in figures)): row for row in rows}
    return list(seen.values())


def trials(rows: Sequence[Row], split: str) -> Iterator[tuple[Ints, Ints]]:
    """Indices of rows to calibrate with and of rows to score."""
    columns = {"other lengths": ("isl", "osl"), "another engine": ("backend",)}.get(split)
    if columns is None:
        for seed in range(DRAWS):
            drawn = np.random.default_rng(seed).permutation(len(rows))
            yield drawn[:TAUGHT], drawn[TAUGHT:]
        return
    labels = np.array([" ".join(row[column] for column in columns) for row in rows])
    for label in np.unique(labels):
        scored, others = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        if min(len(scored), len(others)) >= SOME:
            yield np.random.default_rng(0).permutation(others)[:TAUGHT], scored


def score(rows: Sequence[Row], taught: Ints, scored: Ints, around: Calibration) -> Scores:
    """Calibrate with some rows, predict others."""
    refined = calibrate([measurement(rows[i]) for i in taught], around).calibration
    bench = bench_of([rows[i] for i in scored])
    sigma = np.empty_like(bench.measured)
    for cell in bench.cells:
        sigma[cell.at] = cell.group.cost(refined).sigmas(cell.load.designs).T
    errors = []
    for calibration in (around, refined):
        tunings = bench.tunings(calibration)
        bench.settle(tunings)
        errors.append(bench.measured - bench.log_times(tunings))
    return Scores(errors[0], errors[1], sigma)


def measurement(row: Row) -> Measurement:
    """A row as a user's file would tell it."""
    return Measurement(
        as_asked(row), float(row["silicon_ttft_ms"]), float(row["silicon_tpot_ms"]), row["row_id"]
    )


def bound(rows: Sequence[Row]) -> tuple[int, float, float]:
    """Rows that were repeated, and the median TPOT and TTFT errors of each against the mean of the others."""
    bench = bench_of(rows)
    again = repeats(as_held(rows, bench.measured, bench.measured, np.zeros_like(bench.measured)))
    if not again.rows:
        return 0, float("nan"), float("nan")
    pairs = ((again.tpot, again.measured_tpot), (again.ttft, again.measured_ttft))
    tpot, ttft = (float(np.median(np.abs(said / seen - 1))) for said, seen in pairs)
    return len(again.rows), tpot, ttft


def joined(scores: Sequence[Scores]) -> Scores:
    """All as one."""
    return Scores(*(np.concatenate([getattr(s, f) for s in scores]) for f in ("before", "after", "sigma")))


def report(split: str, found: dict[str, Scores], bounds: dict[str, tuple[int, float, float]]) -> str:
    """A table: groups, all rows of all groups, and the median of the groups' medians."""
    figures = [
        f"{kind} {what}" for kind in ("TPOT", "TTFT") for what in ("before", "after", "bias", "in band")
    ]
    lines = []
    for name, scores in found.items():
        count, tpot, ttft = bounds[name]
        lines.append([name, str(len(scores.after)), *scores.cells(), str(count), share(tpot), share(ttft)])
    everything = joined(list(found.values()))
    lines.append(["all rows", str(len(everything.after)), *everything.cells(), "", "", ""])
    each = [[np.median(off(x), axis=0) for x in (s.before, s.after)] for s in found.values()]
    was, now = np.median(np.array(each), axis=0)
    cells = [share(was[TPOT]), share(now[TPOT]), "", "", share(was[TTFT]), share(now[TTFT]), "", ""]
    lines.append(["median group", str(len(found)), *cells, "", "", ""])
    return f"{TAUGHT} {split}\n" + table(["", "scored", *figures, "repeats", "TPOT", "TTFT"], lines)


if __name__ == "__main__":
    main()

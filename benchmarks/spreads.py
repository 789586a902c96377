"""How far factors scatter at each level, as the rows themselves say: `python -m benchmarks.spreads`.

The spreads in `benchmarks/fit.py` are assumptions, and a fold that chose them would flatter. Rows do say what
makes all of them together most probable, whatever the factors are: of the n factors of a level, with
logarithms x_j known to a deviation of d_j, whose spread is assumed to be s,

    s'² = (ν s² + Σ (x_j² + d_j²)) / (ν + n)

a few times over, each time fitted anew (expectation and maximisation: Dempster, Laird and Rubin 1977; of a
hierarchy's variances Gelman et al., Bayesian Data Analysis 2013, section 13.6). What is assumed counts as ν
factors more, as most levels have three or four. What servers have of their own likewise.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import numpy as np

from benchmarks.fit import NOISE, SPREAD, fitted
from benchmarks.held_out import bench_of
from benchmarks.printouts import rows_of_fit
from benchmarks.scores.render import table
from benchmarks.truth import RUNS
from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit, Noise, Spread
from planner.designs.shape import Floats

ASSUMED = 3.0
"""Factors that an assumption counts as."""

ROUNDS = 3

OWN = {"ttft_group": TTFT, "tpot_group": TPOT}
"""What a (engine, device, model) has of its own, by kind of time."""

HEADS = ("", "level", "factors", "assumed", "rows say")


def main() -> None:
    """A line a parameter and level, and what servers have of their own."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    fit = said(bench_of(rows_of_fit()))
    counts = Counter((e.parameter, e.level) for e in fit.effects)
    lines = [
        [name, level, str(counts[name, level]), f"{SPREAD[name][level]:g}", f"{s:.3f}"]
        for name, levels in fit.spread.items()
        for level, s in levels.items()
    ]
    for name in OWN:
        lines.append(
            [name, "", str(len(fit.own) // 2), f"{getattr(NOISE, name):g}", f"{getattr(fit.noise, name):.3f}"]
        )
    print(table(HEADS, lines))


def said(bench: Bench) -> Fit:
    """The fit with the spreads that its rows say."""
    fit = fitted(bench)
    for _ in range(ROUNDS):
        fit = fitted(bench, *again(fit))
    return fit


def again(fit: Fit) -> tuple[Spread, Noise]:
    """Spreads and noise by one fit at its optimum."""
    second = np.concatenate([fit.x, fit.own]) ** 2 + np.diag(fit.covariance)
    factors, own = second[: len(fit.x)], second[len(fit.x) :].reshape(2, -1)
    spread = {
        name: {
            level: by_rows(s, factors[[(e.parameter, e.level) == (name, level) for e in fit.effects]])
            for level, s in levels.items()
        }
        for name, levels in SPREAD.items()
    }
    scatter = {
        name: by_rows(getattr(NOISE, name), getattr(fit.noise, name) ** 2 * own[kind])
        for name, kind in OWN.items()
    }
    return spread, replace(fit.noise, **scatter)


def by_rows(assumed: float, second: Floats) -> float:
    """A standard deviation, where factors have such second moments.

    >>> by_rows(0.1, np.array([0.04, 0.04, 0.04])) ** 2
    0.025
    """
    return float(np.sqrt((ASSUMED * assumed**2 + second.sum()) / (ASSUMED + len(second))))


if __name__ == "__main__":
    main()

"""Predictions against public serving runs, scored: `python -m benchmarks.accuracy [--markdown]`.

Every row is predicted by parameters fitted without its group (`benchmarks/held_out.py`), in six ways: what
people meet is a model on an engine, a model or a device that nobody measured for the fit. Errors, bands,
picks and layout orderings as `benchmarks/scores` defines them, over the clean aggregated rows
(`benchmarks/truth.py`); all but the first table is without a row's model x engine.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.fit import fitted, shared
from benchmarks.held_out import (
    CHOSEN,
    FOLDS,
    added,
    as_held,
    bench_of,
    of_today,
    predictions,
    prompt_shares,
    sigmas,
    traits_of,
)
from benchmarks.printouts import rows_of_fit
from benchmarks.scores.bands import coverage
from benchmarks.scores.errors import errors
from benchmarks.scores.held import KINDS, Z80, Held
from benchmarks.scores.rates import rate_table
from benchmarks.scores.render import share, signed, table
from benchmarks.scores.report import score
from benchmarks.truth import AMD, RUNS


def main() -> None:
    """Read, fit, predict without each group, score, print."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    every = rows_of_fit()
    bench, told = bench_of(every), of_today(every)
    fit = fitted(bench)
    rows, measured, more = [every[i] for i in told], bench.measured[told], added(bench)[told]
    servers = traits_of(bench, told)
    held = {}
    for name, fold in FOLDS.items():
        groups = [fold(row) for row in every]
        predicted = predictions(fit, groups)[told]
        band = sigmas(measured - predicted, more, servers, [groups[i] for i in told])
        held[f"without its {name}"] = as_held(rows, measured, predicted, band)
    amd = [i for i, row in enumerate(rows) if row["system"] in AMD]
    held["without its AMD device"] = held["without its device"].take(amd)
    shares = prompt_shares(fit)[told]
    tunings = bench.tunings(shared(fit))
    bench.settle(tunings)
    seen = bench.log_times(tunings)[told]
    own = sigmas(measured - seen, more, servers, [(str(i % 10),) for i in range(len(rows))])
    held["in sample"] = as_held(rows, measured, seen, own)
    chosen = held[f"without its {CHOSEN}"]
    print(f"{summary(held)}\n\nBelow: without its {CHOSEN}\n\n{score(chosen)}")
    print("\n80 % bands of closed loops' rates, by the share of their time that prompts take")
    print(rate_table(chosen, shares))


def summary(held: dict[str, Held]) -> str:
    """One line a way of holding out: rows, errors, and by kind how many lie in their 80 % bands and how wide
    these are (the upper edge over the median)."""
    lines = []
    for name, one in held.items():
        line = [name, f"{len(one.rows):,}"]
        for kind in KINDS:
            e = errors(one.predicted(kind), one.measured(kind))
            inside = coverage(one, kind).inside
            width = float(np.median(one.edge(kind, Z80) / one.predicted(kind))) - 1
            line += [share(e.median), share(e.p90), signed(e.bias), share(inside), share(width)]
        lines.append(line)
    heads = [f"{k} {what}" for k in KINDS for what in ("median", "P90", "bias", "in band", "band")]
    return table(["fitted", "rows", *heads], lines)


if __name__ == "__main__":
    main()

"""Predictions against public serving runs, scored: `python -m benchmarks.accuracy`.

Every row is predicted by parameters fitted without its group (`benchmarks/held_out.py`): a model, its twins
included, on a device; and, in the first table, a whole model or a whole device. Errors, bands, picks and
layout orderings as `benchmarks/scores` defines them, over the clean aggregated rows (`benchmarks/truth.py`).
"""

from __future__ import annotations

import sys

from benchmarks.fit import fitted, shared
from benchmarks.held_out import as_held, bench_of, predictions, prompt_shares, sigmas, traits_of
from benchmarks.scores.errors import errors
from benchmarks.scores.held import KINDS, Held
from benchmarks.scores.rates import rate_table
from benchmarks.scores.render import share, signed, table
from benchmarks.scores.report import score
from benchmarks.truth import RUNS, clean_rows, group_of


def main() -> None:
    """Read, fit, predict without each group, score, print."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    rows = clean_rows()
    bench = bench_of(rows)
    fit = fitted(bench)
    servers = traits_of(bench)
    folds: dict[str, list[tuple[str, ...]]] = {
        "model x device": [group_of(row) for row in rows],
        "model": [(row["family"],) for row in rows],
        "device": [(row["system"],) for row in rows],
    }
    held = {}
    for name, groups in folds.items():
        predicted = predictions(fit, groups)
        band = sigmas(bench.measured - predicted, servers, groups)
        held[f"without its {name}"] = as_held(rows, bench.measured, predicted, band)
    shares = prompt_shares(fit)
    tunings = bench.tunings(shared(fit))
    bench.settle(tunings)
    seen = bench.log_times(tunings)
    spread = sigmas(bench.measured - seen, servers, [(str(i % 10),) for i in range(len(rows))])
    held["in sample"] = as_held(rows, bench.measured, seen, spread)
    chosen = held["without its model x device"]
    print(f"{summary(held)}\n\nBelow: without its model x device\n\n{score(chosen)}")
    print("\n80 % bands of closed loops' rates, by the share of their time that prompts take")
    print(rate_table(chosen, shares))


def summary(held: dict[str, Held]) -> str:
    """One line a way of holding out."""
    lines = []
    for name, one in held.items():
        found = [errors(one.predicted(kind), one.measured(kind)) for kind in KINDS]
        lines.append([name, *(c for e in found for c in (share(e.median), share(e.p90), signed(e.bias)))])
    return table(["fitted", *(f"{k} {what}" for k in KINDS for what in ("median", "P90", "bias"))], lines)


if __name__ == "__main__":
    main()

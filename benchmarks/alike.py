"""Public runs whose requests are all of one length, as varied and as alike: `python -m benchmarks.alike`.

Predicted by the shipped parameters. Where a fit leaves out their group: `python -m benchmarks.accuracy`.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.scores.errors import errors
from benchmarks.scores.render import share, signed, table
from benchmarks.truth import RUNS, as_asked, clean_rows
from planner.predict.predictions import Prediction, predict_rows


def main() -> None:
    """Predict and print, by engine."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    exact = [row for row in clean_rows() if row["drawn"] == "1.0"]
    lines = []
    for engine in sorted({row["backend"] for row in exact}):
        rows = [row for row in exact if row["backend"] == engine]
        for lengths in ("varied", "alike"):
            told = predict_rows([as_asked(row) | {"lengths": lengths} for row in rows])
            line = [engine, lengths, str(len(rows))]
            for kind in ("ttft", "tpot"):
                said = np.array([getattr(p, f"{kind}_ms") for p in told if isinstance(p, Prediction)])
                e = errors(said, np.array([float(row[f"silicon_{kind}_ms"]) for row in rows]))
                line += [share(e.median), share(e.p90), signed(e.bias)]
            lines.append(line)
    heads = [f"{kind} {what}" for kind in ("TTFT", "TPOT") for what in ("median", "P90", "bias")]
    print(table(["", "lengths", "runs", *heads], lines))


if __name__ == "__main__":
    main()

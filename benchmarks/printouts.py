"""Runs that people printed in public threads, and what is predicted: `python -m benchmarks.printouts`.

`printouts.csv` holds them with their addresses: pull requests, issues and pages of engines, and collections
of runs with their launch lines; prompts of told lengths, nothing drafted. Most are of a model on an engine
and a device that no other row of ours has, run by hand on an engine as it came, often without kernels tuned
for that model. Seldom is all told that matters: a version is the release of that day where a thread names
none. Where a change is compared the run before it stands here, as that is what was released.

Runs of other models than DeepSeek-R1 on AMD's GPUs are fitted (`fitted_rows`), as nothing else tells of them;
no fold asks for them. The last column is TPOT's ratio, or of throughput's inverse where no TPOT is told.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.saturated import line
from benchmarks.scores.render import table
from benchmarks.truth import AMD, Row, clean_rows, described
from planner.errors import InputError
from planner.predict.predictions import predict_rows

PRINTOUTS = Path(__file__).with_name("printouts.csv")

ASKED = ("model", "precision", "kv_precision", "engine", "engine_version", "device", "tp", "attn_dp", "ep")
LOAD = ("role", "lengths", "isl", "osl", "concurrency")
"""Columns of `predict`."""

TOLD = ("model", "precision", "engine", "engine_version", "device", "tp")
"""Columns that the table repeats."""

DOUBT = "2"
"""Times as far off as others that such a run may be."""


def printouts() -> list[Row]:
    """All of them."""
    with PRINTOUTS.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fitted_rows() -> tuple[Row, ...]:
    """Those that are fitted, in the columns of `truth.clean_rows`. What no fold asks for has an era."""
    return tuple(
        {
            **{name: row[name] for name in (*ASKED, *LOAD)},
            "asked": "as it stands",
            "era": "printout",
            "row_id": row["url"],
            "source": "printouts",
            "system": row["device"],
            "backend": row["engine"],
            "backend_version": row["engine_version"],
            "silicon_ttft_ms": "nan",
            "silicon_tpot_ms": row["tpot_ms"],
            "warmed_up": "1",
            "doubt": DOUBT,
            **described(row["model"], row["device"]),
        }
        for row in printouts()
        if row["fitted"]
    )


def rows_of_fit() -> tuple[Row, ...]:
    """All rows that parameters are fitted to: the clean ones and these."""
    return (*clean_rows(), *fitted_rows())


def ratios(rows: Sequence[Row]) -> list[tuple[Row, float, float]]:
    """Rows that can be predicted, predicted over measured, and how far it may be off: TPOT's band."""
    found = []
    answers = predict_rows([{name: row[name] for name in (*ASKED, *LOAD)} for row in rows])
    for row, told in zip(rows, answers, strict=True):
        if isinstance(told, InputError) or not told.tpot_ms or not told.tpot_ms_high:
            continue
        slower = float(row["out_tok_per_s"] or 0) / (told.out_tok_per_s or np.inf)
        ratio = told.tpot_ms / float(row["tpot_ms"]) if row["tpot_ms"] else slower
        found.append((row, ratio, told.tpot_ms_high / told.tpot_ms))
    return found


def main() -> None:
    """Predict and print."""
    runs = ratios(printouts())
    amd = [run for run in runs if run[0]["device"] in AMD]
    told = [("fitted, on AMD's GPUs", [run for run in amd if run[0]["fitted"]])]
    told += [("not fitted, on AMD's GPUs", [run for run in amd if not run[0]["fitted"]])]
    others = [run for run in runs if run[0]["device"] not in AMD]
    told += [("on NVIDIA's GPUs", others)]
    told += [
        (engine, [run for run in others if run[0]["engine"] == engine])
        for engine in sorted({run[0]["engine"] for run in others})
    ]
    heads = ("", "n", "typical factor", "P90", "median ratio", "inside")
    print(table(heads, [line(name, some) for name, some in told if some]))
    lines = [
        [*(row[name] for name in TOLD), f"{row['isl']}/{row['osl']}", row["concurrency"], f"{ratio:.2f}"]
        for row, ratio, _ in runs
    ]
    print(f"\n{table((*TOLD, 'isl/osl', 'in flight', 'ratio'), lines)}")


if __name__ == "__main__":
    main()

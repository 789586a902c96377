"""Predictions against public serving runs, scored: `python -m benchmarks.accuracy`.

Errors, bands, picks and layout orderings as `benchmarks/scores` defines them, over the clean aggregated rows
(`benchmarks/truth.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.scores.held import Z80, Held, Row
from benchmarks.scores.report import score
from benchmarks.truth import RUNS, as_asked, clean_rows
from planner.predictions import Prediction, predict_rows


def main() -> None:
    """Read, predict, score, print."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    print(score(in_sample(clean_rows())))


def in_sample(rows: Sequence[Row]) -> Held:
    """`rows` predicted by the model as it ships, which has seen them; those it refuses go to stderr."""
    answers = predict_rows([as_asked(dict(row)) for row in rows])
    answered: list[tuple[Row, Prediction]] = []
    for row, answer in zip(rows, answers, strict=True):
        if isinstance(answer, Prediction):
            answered.append((row, answer))
        else:
            print(f"row {row['row_id']}: {answer.message}", file=sys.stderr)

    def given(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([getattr(prediction, name) for _, prediction in answered])

    def measured(kind: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([float(row[f"silicon_{kind}_ms"]) for row, _ in answered])

    def sigma(kind: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.log(given(f"{kind}_ms_high") / given(f"{kind}_ms_low")) / (2 * Z80)

    return Held(
        [row for row, _ in answered],
        measured("tpot"),
        measured("ttft"),
        given("tpot_ms"),
        given("ttft_ms"),
        sigma("tpot"),
        sigma("ttft"),
    )


if __name__ == "__main__":
    main()

"""Public runs whose requests are all of one length, as varied and as alike: `python -m benchmarks.alike`.

Predicted by the shipped parameters. Where a fit leaves out their group: `python -m benchmarks.accuracy`.

The last table says how long a prompt holds up the others in flight: runs that differ in the length N of
answers alone have TPOT = a + b / N, and b is what all other prompts of a request's time take, so b over the
requests in flight is one prompt's. It shows the host's launches apart from the GPU's work: as the one hides
behind the other, it is the same for short prompts, and grows with their length only beyond.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.scores.errors import errors
from benchmarks.scores.render import share, signed, table
from benchmarks.truth import RUNS, Row, as_asked, clean_rows
from planner.predict.predictions import Prediction, predict_rows

BUSY = 16
"""Requests in flight from which on runs count: of fewer, one's own prompt is a large part of all."""

HOLDING = ["family", "attn_tp", "isl"]
"""What prompts' time is told by."""


def held_up(rows: Sequence[Row], tpot_ms: Sequence[float]) -> dict[tuple[str, ...], float]:
    """By `HOLDING`: ms that a prompt holds up the others, the median of the numbers in flight."""
    answers: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row, ms in zip(rows, tpot_ms, strict=True):
        key = tuple(row[name] for name in ["concurrency", *HOLDING])
        answers.setdefault(key, []).append((1 / float(row["osl"]), ms))
    found: dict[tuple[str, ...], list[float]] = {}
    for (flying, *key), points in answers.items():
        if len({x for x, _ in points}) > 2 and float(flying) >= BUSY:
            slope = np.polyfit(*np.array(points).T, 1)[0]
            found.setdefault(tuple(key), []).append(slope / float(flying))
    return {key: float(np.median(each)) for key, each in found.items()}


def main() -> None:
    """Predict and print, by engine."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    exact = [row for row in clean_rows() if row["drawn"] == "1.0"]
    lines, alike = [], {}
    for engine in sorted({row["backend"] for row in exact}):
        rows = [row for row in exact if row["backend"] == engine]
        for lengths in ("varied", "alike"):
            told = predict_rows([as_asked(row) | {"lengths": lengths} for row in rows])
            if lengths == "alike":
                alike[engine] = rows, [p.tpot_ms or 0.0 for p in told if isinstance(p, Prediction)]
            line = [engine, lengths, str(len(rows))]
            for kind in ("ttft", "tpot"):
                said = np.array([getattr(p, f"{kind}_ms") for p in told if isinstance(p, Prediction)])
                e = errors(said, np.array([float(row[f"silicon_{kind}_ms"]) for row in rows]))
                line += [share(e.median), share(e.p90), signed(e.bias)]
            lines.append(line)
    heads = [f"{kind} {what}" for kind in ("TTFT", "TPOT") for what in ("median", "P90", "bias")]
    print(table(["", "lengths", "runs", *heads], lines))
    rows, tpot_ms = alike["trtllm"]
    measured = held_up(rows, [float(row["silicon_tpot_ms"]) for row in rows])
    said = held_up(rows, tpot_ms)
    order = sorted(measured, key=lambda key: (key[0], float(key[1]), float(key[2])))
    lines = [
        [key[0], f"{float(key[1]):.0f}", key[2], f"{measured[key]:.1f} ms", f"{said[key]:.1f} ms"]
        for key in order
    ]
    print("\nHow long a prompt holds up the others, TensorRT-LLM 1.0, H100")
    print(table(["", "tp", "prompt", "measured", "predicted"], lines))


if __name__ == "__main__":
    main()

"""Predicted against measured TPOT and TTFT of public serving runs: `python -m benchmarks.accuracy [--by
model]`.

Clean aggregated rows only (`mode` agg, `suspect` empty). Prints the median and the 90th percentile of the
absolute relative error, the median ratio predicted / measured, and the share of rows inside the 80 % band.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from planner.predictions import Prediction, predict_rows

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CONFIGS = {
    "meta-llama/Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama--Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama--Meta-Llama-3.1-8B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen--Qwen3-32B",
}
"""Config files of models that have none of their own name: the same shape."""

Row = dict[str, str]
KINDS = ("tpot", "ttft")


def main() -> None:
    """Read, predict, print."""
    args = arguments()
    if not (DATA / "silicon_train.csv.gz").is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    measured = list(rows())
    answers = predict_rows([as_asked(row) for row in measured])
    groups: dict[tuple[str, ...], list[tuple[Row, Prediction]]] = defaultdict(list)
    for row, answer in zip(measured, answers, strict=True):
        if isinstance(answer, Prediction):
            groups[tuple(row[column] for column in args.by)].append((row, answer))
            groups[("all",) * len(args.by)].append((row, answer))
        else:
            print(f"row {row['row_id']}: {answer.message}", file=sys.stderr)
    for key in sorted(groups, key=lambda k: (k[0] == "all", k)):
        print(
            f"{' '.join(key):60s} {len(groups[key]):5d}  " + "   ".join(report(groups[key], k) for k in KINDS)
        )


def arguments() -> argparse.Namespace:
    """`--by`: columns to group by."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--by", nargs="+", default=["backend", "system", "model_path", "precision"])
    return parser.parse_args()


def rows() -> Iterator[Row]:
    """The clean aggregated rows."""
    with gzip.open(DATA / "silicon_train.csv.gz", "rt", encoding="utf-8") as file:
        yield from (r for r in csv.DictReader(file) if r["mode"] == "agg" and not r["suspect"])


def as_asked(row: Row) -> Row:
    """A measured row in the columns of `predict`."""
    name = CONFIGS.get(row["model_path"], row["model_path"].replace("/", "--"))
    return {
        "model": str(DATA / "model_configs" / f"{name}.json"),
        "device": row["system"],
        "engine": row["backend"],
        "gemm_precision": row["gemm_quant_mode"],
        "moe_precision": row["moe_quant_mode"],
        "tp": row["attn_tp"],
        "attn_dp": row["attn_dp"],
        "moe_tp": row["moe_tp"],
        "ep": row["ep"],
        "pp": str(max(1, round(float(row["gpus"]) / (float(row["attn_tp"]) * float(row["attn_dp"]))))),
        "isl": row["isl"],
        "osl": row["osl"],
        "concurrency": row["concurrency"],
    }


def report(members: list[tuple[Row, Prediction]], kind: str) -> str:
    """One group's figures for TPOT or TTFT."""
    measured = np.array([float(row[f"silicon_{kind}_ms"]) for row, _ in members])
    predicted = np.array([getattr(p, f"{kind}_ms") for _, p in members])
    low = np.array([getattr(p, f"{kind}_ms_low") for _, p in members])
    high = np.array([getattr(p, f"{kind}_ms_high") for _, p in members])
    error = np.abs(predicted / measured - 1)
    inside = ((low <= measured) & (measured <= high)).mean()
    return (
        f"{kind} median {np.median(error):6.1%} p90 {np.quantile(error, 0.9):6.1%} "
        f"ratio {np.median(predicted / measured):5.2f} in band {inside:4.0%}"
    )


if __name__ == "__main__":
    main()

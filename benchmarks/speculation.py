"""Predicted against measured TPOT of DeepSeek-R1 with drafts by MTP: `python -m benchmarks.speculation`.

Runs of `inferencex_deepseek_r1.csv.gz` in a folder `shared` beside the repository (InferenceX, SemiAnalysis,
Apache-2.0) with `spec_method` mtp. They say neither how many tokens were drafted nor how many accepted.

Drafted, by the runs' public recipes (InferenceX, benchmarks/single_node/dsr1_*_mtp.sh): TensorRT-LLM 3 a
step, with attention-dp 1; SGLang 2. Accepted: one probability for every drafted token of every run, at which
half of the runs with worker counts are predicted neither too fast nor too slow in the median. Groups of
(framework, device, precision) stay whole: of their names in order the 1st, 3rd, 5th … give the probability,
the others are scored. Runs on one server are scored, too, and give nothing. Left out: rows that are marked
suspect, and AMD's ATOM, an engine that is not modelled. All requests of a run are taken to decode: where
long prompts wait for prefill servers (8k prompts at a concurrency of 2048) fewer do, and TPOT is predicted
two to four times as long as it was.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.scores.render import share, table
from benchmarks.truth import DATA
from planner.designs.shape import Floats
from planner.drafts.kinds import Draft
from planner.errors import InputError
from planner.predict.predictions import predict_rows

RUNS = DATA / "serving" / "inferencex_deepseek_r1.csv.gz"

DRAWN = 0.9
"""Mean of a length over the nominal one: lengths are drawn from 0.8 to 1.0 of it."""

HEADS = ("", "half", "n", "predicted / measured", "TPOT median", "P90")

Row = dict[str, str]


@dataclass(frozen=True)
class Scored:
    """Runs, and how many times as long as measured their TPOT is predicted, (n,)."""

    rows: Sequence[Row]
    ratio: Floats

    def take(self, chosen: Sequence[bool]) -> Scored:
        """Some of them."""
        return Scored([r for r, one in zip(self.rows, chosen, strict=True) if one], self.ratio[list(chosen)])

    def cells(self, name: str, half: str = "") -> list[str]:
        """A line of the table."""
        off = np.abs(self.ratio - 1)
        figures = (share(float(np.median(off))), share(float(np.quantile(off, 0.9))))
        return [name, half, str(len(off)), f"{np.median(self.ratio):.2f}", *figures]


def runs(method: str, split: bool) -> list[Row]:
    """Those that drafted by `method`, on servers for each phase (`split`) or on one."""
    with gzip.open(RUNS, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["spec_method"] == method]
    ours = [row for row in rows if row["engine"] != "atom" and not row["train_suspect"]]
    return [row for row in ours if bool(row["decode_workers"]) == split]


def group_of(row: Row) -> str:
    """What stays in one half."""
    return f"{row['framework']} {row['device']} {row['precision']}"


def fitted_groups(rows: Sequence[Row]) -> set[str]:
    """The groups that give the acceptance."""
    return set(sorted({group_of(row) for row in rows})[::2])


def shape(row: Row) -> dict[str, int]:
    """tp, attention-dp and ep of what decodes, and its share of the concurrency; rows leave attention-dp at 1
    where it is what makes up a worker's GPUs."""
    split = "decode_" if row["decode_workers"] else ""
    tp, ep, attn_dp = (round(float(row[f"{split}{name}"])) for name in ("tp", "ep", "attn_dp"))
    workers = round(float(row["decode_workers"] or 1))
    if split:
        attn_dp = round(float(row["decode_gpus_all"])) // workers // tp
    return {"tp": tp, "attn_dp": attn_dp, "ep": ep, "workers": workers}


def drafted(row: Row) -> int:
    """Tokens a step, by the public recipes."""
    if row["spec_method"] == "none":
        return 0
    if row["engine"] == "trtllm":
        return 1 if shape(row)["attn_dp"] > 1 else 3
    return 2


def as_asked(row: Row, acceptance: float) -> Row:
    """A run in the columns of `predict`."""
    own, k = shape(row), drafted(row)
    fp4 = "mxfp4" if row["device"].startswith("mi") else "nvfp4"
    return {
        "model": "deepseek-r1",
        "device": row["device"],
        "engine": row["engine"],
        "moe_precision": fp4 if row["precision"] == "fp4" else "",
        "role": "decode" if row["decode_workers"] else "mixed",
        **{name: str(own[name]) for name in ("tp", "attn_dp", "ep")},
        "isl": str(round(DRAWN * int(row["isl"]))),
        "osl": str(round(DRAWN * int(row["osl"]))),
        "concurrency": str(int(row["concurrency"]) / own["workers"]),
        "draft_tokens": str(k),
        "accepted_tokens": str(Draft("mtp", k, acceptance).accepted),
    }


def scored(rows: Sequence[Row], acceptance: float) -> Scored:
    """Predictions at an acceptance against what was measured: the median where it is given."""
    answers = predict_rows([as_asked(row, acceptance) for row in rows])
    kept, ratio = [], []
    for row, answer in zip(rows, answers, strict=True):
        if isinstance(answer, InputError) or answer.tpot_ms is None:
            raise SystemExit(f"row {row['row']} has no prediction: {answer}")
        kept.append(row)
        ratio.append(answer.tpot_ms / float(row["median_tpot_ms"] or row["mean_tpot_ms"]))
    return Scored(kept, np.array(ratio))


def acceptance_of(rows: Sequence[Row]) -> float:
    """The acceptance at which the median run is predicted right, by bisection: times fall with it."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        slow = np.median(scored(rows, middle).ratio) > 1
        low, high = (middle, high) if slow else (low, middle)
    return (low + high) / 2


def main() -> None:
    """Print the acceptance and the table."""
    if not RUNS.exists():
        sys.exit(f"nothing to compare with: {RUNS} is not there")
    split = runs("mtp", split=True)
    fitted = fitted_groups(split)
    acceptance = acceptance_of([row for row in split if group_of(row) in fitted])
    print(f"acceptance of each drafted token, from the fitted half: {acceptance:.3f}\n")
    all_, lines = scored(split, acceptance), []
    for name in sorted({group_of(row) for row in split}):
        own = all_.take([group_of(row) == name for row in split])
        lines.append(own.cells(name, "fitted" if name in fitted else "scored"))
    halves = {half: [(group_of(r) in fitted) == (half == "fitted") for r in split] for half in HALVES}
    lines += [all_.take(chosen).cells(f"worker counts, {half} half", half) for half, chosen in halves.items()]
    lines.append(scored(runs("mtp", split=False), acceptance).cells("on one server", "scored"))
    for what, rows in (("worker counts", runs("none", True)), ("on one server", runs("none", False))):
        lines.append(scored(rows, 0.0).cells(f"{what}, nothing drafted"))
    print(table(HEADS, lines))


HALVES = ("fitted", "scored")

if __name__ == "__main__":
    main()

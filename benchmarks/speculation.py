"""Predicted against measured TPOT of DeepSeek-R1 with drafts by MTP: `python -m benchmarks.speculation`.

Runs of `inferencex_deepseek_r1.csv.gz` in a folder `shared` beside the repository (InferenceX, SemiAnalysis,
Apache-2.0) with `spec_method` mtp. They say neither how many tokens were drafted nor how many accepted.

Drafted, by the runs' public recipes (InferenceX, benchmarks/single_node/dsr1_*_mtp.sh): TensorRT-LLM 3 a
step, with attention-dp 1, and on decode workers with attention-dp what the recipes of these have in their
names (`DRAFTED`); SGLang 2. Accepted: one probability for every drafted token of every run, at which
half of the runs with worker counts are predicted neither too fast nor too slow in the median. Groups of
(framework, device, precision) stay whole: of their names in order the 1st, 3rd, 5th … give the probability,
the others are scored. Runs on one server are scored, too, and give nothing. Left out: rows that are marked
suspect, all but the newest of a configuration that was run again, runs of days on which their engine had a
fault (`benchmarks/truth.py`), and AMD's ATOM, an engine that is not modelled. How many requests decode where
prompts wait for prefill servers is predicted, too (`benchmarks/split_runs.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.scores.render import share, table
from benchmarks.split_runs import Run, Side, predict, side_of
from benchmarks.truth import DATA, DRAWN, deepseek, mended, newest
from benchmarks.truth import table as read
from planner.designs.shape import Floats
from planner.drafts.kinds import Draft
from planner.errors import InputError
from planner.predict.predictions import predict_rows

RUNS = DATA / "serving" / "inferencex_deepseek_r1.csv.gz"

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


CONFIGURATION = (
    *("framework", "device", "precision", "tp", "attn_dp", "ep", "isl", "osl", "concurrency"),
    *(f"{phase}_{name}" for phase in ("prefill", "decode") for name in ("workers", "gpus_all", "tp", "ep")),
)
"""What a run was repeated with, often daily: the newest counts, as among runs without drafts."""


def runs(method: str, split: bool) -> list[Row]:
    """Those that drafted by `method`, on servers for each phase (`split`) or on one."""
    ours = [
        row
        for row in read(RUNS)
        if (row["spec_method"], bool(row["decode_workers"])) == (method, split)
        and row["engine"] != "atom"
        and not row["train_suspect"]
        and (split or not mended(deepseek(row)))
    ]
    return newest(ours, CONFIGURATION, "date")


def group_of(row: Row) -> str:
    """What stays in one half."""
    return f"{row['framework']} {row['device']} {row['precision']}"


def fitted_groups(rows: Sequence[Row]) -> set[str]:
    """The groups that give the acceptance."""
    return set(sorted({group_of(row) for row in rows})[::2])


def shape(row: Row, phase: str = "decode") -> dict[str, int]:
    """tp, attention-dp and ep of the servers of a phase, and how many there are; rows leave attention-dp at 1
    where it is what makes up a worker's GPUs."""
    split = f"{phase}_" if row["decode_workers"] else ""
    tp, ep, attn_dp = (round(float(row[f"{split}{name}"])) for name in ("tp", "ep", "attn_dp"))
    workers = round(float(row[f"{phase}_workers"] or 1))
    if split:
        attn_dp = round(float(row[f"{split}gpus_all"])) // workers // tp
    return {"tp": tp, "attn_dp": attn_dp, "ep": ep, "workers": workers}


DRAFTED = {
    ("b200_sxm", "fp4", 1024, 1, 2): 2,
    ("b200_sxm", "fp4", 1024, 3, 5): 1,
    ("b200_sxm", "fp4", 8192, 5, 2): 3,
    ("b200_sxm", "fp8", 1024, 1, 2): 2,
    ("b200_sxm", "fp8", 1024, 1, 7): 3,
    ("b200_sxm", "fp8", 8192, 4, 1): 2,
    ("b300_sxm", "fp4", 1024, 5, 2): 1,
    ("b300_sxm", "fp4", 8192, 10, 1): 1,
    ("b300_sxm", "fp8", 8192, 1, 1): 3,
    ("b300_sxm", "fp8", 8192, 2, 1): 3,
    ("b300_sxm", "fp8", 8192, 4, 1): 2,
    ("h100_sxm", "fp8", 1024, 1, 1): 2,
    ("h100_sxm", "fp8", 1024, 1, 3): 3,
    ("h200_sxm", "fp8", 1024, 1, 8): 3,
    ("h200_sxm", "fp8", 8192, 2, 1): 2,
    ("h200_sxm", "fp8", 8192, 3, 1): 2,
}
"""Device, precision, prompt tokens, prefill and decode workers of TensorRT-LLM with attention-dp → tokens a
step: srt-slurm `recipes/trtllm/{b200-fp4,b200-fp8,h100-fp8,h200}/*/mtp` and B300's in NVIDIA's
srt-slurm-recipes (`ctx1_gen2_dep8_batch64_eplb0_mtp2.yaml`), of as many requests in flight."""


def drafted(row: Row) -> int:
    """Tokens a step, by the public recipes."""
    if row["spec_method"] == "none":
        return 0
    if row["engine"] != "trtllm":
        return 2
    if shape(row)["attn_dp"] == 1:
        return 3
    prefill, decode = (round(float(row[f"{phase}_workers"] or 0)) for phase in ("prefill", "decode"))
    return DRAFTED.get((row["device"], row["precision"], int(row["isl"]), prefill, decode), 1)


def accepted(row: Row, acceptance: float) -> float:
    """Drafted tokens that a step of a run keeps."""
    return Draft("mtp", drafted(row), acceptance).accepted


def as_asked(row: Row, acceptance: float, phase: str = "") -> Row:
    """A server of a run, of a phase where they are apart, in the columns of `predict`."""
    own, fp4 = shape(row, phase or "decode"), "mxfp4" if row["device"].startswith("mi") else "nvfp4"
    drafts = {"draft_tokens": str(drafted(row)), "accepted_tokens": str(accepted(row, acceptance))}
    return {
        "model": "deepseek-r1",
        "device": row["device"],
        "engine": row["engine"],
        "engine_version": row["engine_version"],
        "moe_precision": fp4 if row["precision"] == "fp4" else "",
        "role": phase or "mixed",
        **{name: str(own[name]) for name in ("tp", "attn_dp", "ep")},
        **(drafts if phase != "prefill" else {}),
    }


def lengths(row: Row) -> tuple[float, float]:
    """Mean tokens of a prompt and of an answer."""
    return DRAWN * int(row["isl"]), DRAWN * int(row["osl"])


def apart(row: Row, acceptance: float) -> float:
    """TPOT in ms of a run on servers for each phase: what waits for prefill does not decode."""
    prefill, decode = (
        _side(tuple(as_asked(row, 0.0, phase).items()), shape(row, phase)["workers"])
        for phase in ("prefill", "decode")
    )
    emitted = 1 + accepted(row, acceptance)
    return predict(Run(row, prefill, decode, *lengths(row), int(row["concurrency"]), emitted)).tpot_ms


@cache
def _side(asked: tuple[tuple[str, str], ...], workers: int) -> Side:
    return side_of(dict(asked), workers)


def together(rows: Sequence[Row], acceptance: float) -> list[float]:
    """TPOT in ms of runs on one server each."""
    asked = []
    for row in rows:
        isl, osl = (str(round(length)) for length in lengths(row))
        load = {"isl": isl, "osl": osl, "concurrency": row["concurrency"]}
        asked.append({**as_asked(row, acceptance), **load})
    found = []
    for row, answer in zip(rows, predict_rows(asked), strict=True):
        if isinstance(answer, InputError) or answer.tpot_ms is None:
            raise SystemExit(f"row {row['row']} has no prediction: {answer}")
        found.append(answer.tpot_ms)
    return found


def scored(rows: Sequence[Row], acceptance: float) -> Scored:
    """Predictions at an acceptance against what was measured, the median where it is given; of runs on
    servers for each phase, or on one."""
    split = bool(rows[0]["decode_workers"])
    predicted = [apart(row, acceptance) for row in rows] if split else together(rows, acceptance)
    measured = [float(row["median_tpot_ms"] or row["mean_tpot_ms"]) for row in rows]
    return Scored(rows, np.array(predicted) / np.array(measured))


def acceptance_of(rows: Sequence[Row]) -> float:
    """The acceptance at which the median run is predicted right, by bisection: times fall with it."""
    low, high = 0.0, 1.0
    for _ in range(12):
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

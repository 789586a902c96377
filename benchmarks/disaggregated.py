"""Predicted against measured TPOT and TTFT of disaggregated runs: `python -m benchmarks.disaggregated`.

Scores the public runs that state their workers and batches (`benchmarks/split_runs.py`), as their recipes
launched them where these are known (`benchmarks/split_recipes.py`). Rows say neither how many sequences a
decode worker takes at most, nor how large a prefill step may be, nor, reliably, which prefill design ran: the
table below the first shows what that costs, and what jobs of unknown replicas would, which are left out as
among aggregated runs.

The last table is another's: dstack's runs of gpt-oss-120b on SGLang 0.5.2 (`lmsysorg/sglang:latest` of
September 2025), workers of two H200 each, which hand caches over by NIXL. No fitted run is of that model on
that engine. Sequences on a decode worker are those that were measured (Little's law).
"""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.saturated import read
from benchmarks.scores.errors import errors
from benchmarks.scores.render import share, table
from benchmarks.split_recipes import UNKNOWN
from benchmarks.split_runs import (
    Predicted,
    Run,
    batch,
    disaggregated_rows,
    is_unstated,
    of_unknown_replicas,
    predict,
    run_of,
    states_workers,
)
from benchmarks.truth import RUNS
from planner.cost.bands import Z80
from planner.errors import InputError
from planner.predict.predictions import predict_rows

Scored = tuple[Run, Predicted]

FIGURES = ("median", "P90", "ratio", "inside")
HEADS = ("", "n", *(" ".join(("TPOT", f)) for f in FIGURES), *(" ".join(("TTFT", f)) for f in FIGURES))
BATCHES = (4, 16, 64, 256)
"""Upper ends of the classes of sequences on a decode rank."""

ACCEPTED = (1.6, 1.8)
"""Tokens a step with a draft of one token, as published for this model's own draft layer."""

RATIO = re.compile(r"/(\d)p(\d)d_conc(\d+)_in(\d+)_out(\d+)_")
"""In the name of a file of dstack's: prefill and decode workers, requests in flight, lengths."""

WORKER = {"engine": "sglang", "engine_version": "0.5.2", "tp": "2", "role": "decode", "start": "steady"}
"""One of its decode workers."""

LATE = 2.0
"""A TTFT so many times what all prompts of the loop take in a row is no queue for prefill."""


def main() -> None:
    """Read, predict, print."""
    if not RUNS.is_file():
        print("skipped: no measurements beside the repository", file=sys.stderr)
        return
    rows = disaggregated_rows()
    stated = [row for row in rows if states_workers(row)]
    unsure = of_unknown_replicas(stated)
    print(
        f"{len(stated)} of {len(rows)} disaggregated rows state workers and batches; of these {len(unsure)} "
        "are jobs of unknown replicas by their labels: the others are scored"
    )
    scored = [_scored(run_of(row)) for row in stated if row not in unsure]
    words = [_scored(run_of(run.row, as_stated=True)) for run, _ in scored if launched(run)]
    jobs = [_scored(run_of(row)) for row in unsure]
    parts = by_part(scored, words, jobs)
    tables = (by_group(scored), parts, by_ranks(scored), late_table(scored))
    print("", "\n\n".join((*tables, speculation(scored), workers())), sep="\n")


def _scored(run: Run) -> Scored:
    return run, predict(run, run.places)


def line(name: str, scored: Sequence[Scored]) -> list[str]:
    """Medians, 90th percentiles and median ratios predicted / measured, and shares inside 80 % bands."""
    cells = [name, str(len(scored))]
    for i in (0, 1):
        predicted, sigma = np.array(
            [((p.tpot_ms, p.sigma_tpot), (p.ttft_ms, p.sigma_ttft))[i] for _, p in scored]
        ).T
        measured = np.array([run.measured[i] for run, _ in scored])
        found = errors(predicted, measured)
        inside = np.abs(np.log(measured / predicted)) <= Z80 * sigma
        cells += [share(found.median), share(found.p90), f"{1 + found.bias:.2f}", share(inside.mean())]
    return cells


def by_group(scored: Sequence[Scored]) -> str:
    """The main table."""
    groups: dict[str, list[Scored]] = defaultdict(list)
    for run, predicted in scored:
        groups[run.group].append((run, predicted))
    return table(HEADS, [*(line(name, groups[name]) for name in sorted(groups)), line("all", scored)])


def launched(run: Run) -> bool:
    """Its recipe is known."""
    return run.recipe is not UNKNOWN


def by_part(scored: Sequence[Scored], words: Sequence[Scored], jobs: Sequence[Scored]) -> str:
    """Runs by what is known of them, and all again, read otherwise; `words` are those of known recipes as
    their rows state them, `jobs` those of unknown replicas."""
    recipes = [s for s in scored if launched(s[0])]
    others = [s for s in scored if not launched(s[0])]
    held = [s for s in scored if s[0].places < batch(s[0].row)]
    parts = {
        "runs of known recipes": recipes,
        "  the same, as their rows state them": words,
        "other runs": others,
        "all, as their rows state them": [*words, *others],
        "rows whose designs are placeholders": [s for s in scored if is_unstated(s[0].row)],
        "a recipe allows fewer decode places than the batch": held,
        "  the same, as if it allowed the batch": [(run, predict(run)) for run, _ in held],
        "all, prompts coming evenly after the first wave": [(r, evenly(p)) for r, p in scored],
        "all but TTFTs that no queue for prefill explains": [s for s in scored if not late(*s)],
        "jobs of unknown replicas": jobs,
        "all, with those": [*scored, *jobs],
    }
    return table(HEADS, [line(name, part) for name, part in parts.items() if part])


def evenly(predicted: Predicted) -> Predicted:
    """The same with the TTFT of prompts that come evenly."""
    return replace(predicted, ttft_ms=predicted.even_ttft_ms)


def by_ranks(scored: Sequence[Scored]) -> str:
    """TPOT by attention-dp ranks of a decode worker and the sequences that one has."""
    found: dict[tuple[int, int], list[Scored]] = defaultdict(list)
    for run, predicted in scored:
        ranks = int(run.decode.designs.attn_dp[0])
        found[ranks, next((b for b in BATCHES if predicted.sequences <= b), 10**6)].append((run, predicted))
    lines = []
    for (ranks, most), part in sorted(found.items()):
        sizes = f"up to {most}" if most in BATCHES else f"more than {BATCHES[-1]}"
        lines.append([f"attention-dp {ranks}, {sizes}", *line("", part)[1:6]])
    return table(("decode ranks and sequences of one", *HEADS[1:6]), lines)


def late(run: Run, predicted: Predicted) -> bool:
    """Its TTFT is longer than any queue for prefill could be."""
    return run.measured[1] > LATE * 1e3 * predicted.emptied_s


def late_table(scored: Sequence[Scored]) -> str:
    """Those rows, and the decode places a rank would have if all that time were spent waiting for one:
    Little's law, (N - X · TTFT) / ranks."""
    heads = ("TTFT that no queue for prefill explains", "TTFT s", "all prompts s", "batch", "places implied")
    lines = []
    for run, predicted in scored:
        if late(run, predicted):
            tpot, ttft = (x / 1e3 for x in run.measured)
            decoding = run.concurrency * run.osl * tpot / (ttft + run.osl * tpot)
            implied = decoding / (run.decode.workers * int(run.decode.designs.attn_dp[0]))
            name = f"row {run.row['row_id']} {run.group} {run.row['isl']}/{run.row['osl']}"
            lines.append(
                [name, f"{ttft:.2f}", f"{predicted.emptied_s:.2f}", str(batch(run.row)), f"{implied:.2f}"]
            )
    return table(heads, lines)


def speculation(scored: Sequence[Scored]) -> str:
    """What drafts would explain of TPOT predicted too long."""
    heads = (
        "TPOT predicted / measured",
        "n",
        "P10",
        "median",
        "P90",
        *(f"median if {a} accepted" for a in ACCEPTED),
    )
    groups: dict[str, list[float]] = defaultdict(list)
    for run, predicted in scored:
        groups[run.group].append(predicted.tpot_ms / run.measured[0])
    lines = []
    for name in sorted(name for name, ratios in groups.items() if len(ratios) >= 8):
        low, middle, high = np.quantile(groups[name], [0.1, 0.5, 0.9])
        figures = (low, middle, high, *(middle / a for a in ACCEPTED))
        lines.append([name, str(len(groups[name])), *(f"{x:.2f}" for x in figures)])
    return table(heads, lines)


def workers() -> str:
    """TPOT of decode workers of published ratios of workers."""
    lines, ratios = [], []
    runs = ((row, found.groups()) for row in read("dstack.csv") if (found := RATIO.search(row["path"])))
    for row, (prefill, decode, *asked) in runs:
        measured, each = float(row["mean_tpot_ms"]), float(row["completed"])
        sequences = float(row["output_throughput"]) * measured / 1e3 / int(decode)
        lengths = {
            x: str(round(float(row[f"total_{y}_tokens"]) / each))
            for x, y in (("isl", "input"), ("osl", "output"))
        }
        cells = {
            "model": row["model"],
            "device": row["device"].replace("_", "-"),
            "concurrency": str(sequences),
        }
        (told,) = predict_rows([cells | lengths | WORKER])
        assert not isinstance(told, InputError)
        predicted, high = (x or math.nan for x in (told.tpot_ms, told.tpot_ms_high))
        ratios.append(predicted / measured)
        inside = "yes" if abs(math.log(ratios[-1])) <= math.log(high / predicted) else "no"
        figures = [f"{sequences:.0f}", f"{measured:.1f}", f"{predicted:.1f}", f"{ratios[-1]:.2f}", inside]
        lines.append([f"{prefill}:{decode}", *asked, *figures])
    off = np.abs(np.array(ratios) - 1)
    asked_for, told_of = ("in flight", "isl", "osl"), ("decoding on one", "TPOT ms", "predicted", "ratio")
    heads = ("prefill:decode workers", *asked_for, *told_of, "inside")
    said = f"median error {share(float(np.median(off)))}, P90 {share(float(np.quantile(off, 0.9)))}"
    return f"{table(heads, lines)}\n{said}, median ratio {np.median(ratios):.2f}"


if __name__ == "__main__":
    main()

"""Write what was measured: planner/cost/measured.yaml, from the runs that calibration is fitted to and, for
prefill and decode apart, from public comparisons with servers that do both.

`python -m benchmarks.evidence`: some seconds; with `--widths` also how much wider bands are without a
mechanism (`benchmarks/choice/mechanisms.py`): some five minutes. A comparison counts where both sides were
served alike (`comparable`); a way of caches wins where most comparisons gained, or their mean (of logarithms)
did.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, log
from typing import Any, TypeVar

import numpy as np
from ruamel.yaml import YAML

from benchmarks.choice import mechanisms
from benchmarks.floors import Work
from benchmarks.held_out import bench_of, traits_of
from benchmarks.printouts import rows_of_fit
from benchmarks.truth import SERVING, Row, as_asked
from cluster_configs import devices
from model_zoo import catalog
from planner.cost.calibration import Traits
from planner.cost.measured import MEASURED
from planner.reading.documents import read_plain

_T = TypeVar("_T")

ENGINES = {"trt": "trtllm", "sglang": "sglang", "vllm": "vllm"}
WAYS = {
    "NVL72": ("nvlink",),
    "NVLink": ("nvlink", "nvlink+rdma"),
    "XGMI": ("infinity fabric", "infinity fabric+rdma"),
    "PCIe, RDMA": ("pcie+rdma",),
    "PCIe": ("pcie",),
}
"""Ways of caches by what comparisons say of their links. Where nodes have both kinds, caches of servers in
one node go over the one, of others over the other: the sources do not say which."""

BESIDE = {"pipeline": "pp", "expert_parallel": "ep", "attention_dp": "attn_dp"}
"""Columns of `predict` by the mechanism that they are of, where above 1."""


def measured(rows: Sequence[Row], traits: Iterable[Traits], compared: Iterable[Row]) -> dict[str, Any]:
    """By engine: formats by device, mechanisms with runs, ways of caches that won."""
    found: dict[str, dict[str, Any]] = {}
    for t in traits:
        formats = found.setdefault(t.engine, {"devices": {}})["devices"].setdefault(t.device, {})
        for name, used in (("weights", t.gemm), ("experts", t.experts)):
            if used and used != "none":  # no experts
                formats[name] = sorted({*formats.get(name, ()), used})
    for row in rows:
        for mechanism, column in BESIDE.items():
            has = float(row.get(column) or 1) > 1
            found[row["engine"]][mechanism] = found[row["engine"]].get(mechanism, False) or has
    for engine, about in found.items():
        about["split_wins"] = sorted(wins(compared, engine))
    return found


def steps(rows: Iterable[Row], traits: Iterable[Traits]) -> dict[str, float]:
    """The largest share of its GPUs' best product that whole steps of a run reached, by engine: all requests
    of its closed loop over all its time, or its prompts over their time to the first token."""
    best: dict[str, float] = defaultdict(float)
    for row, t in zip(rows, traits, strict=True):
        best[t.engine] = max(best[t.engine], whole_share(row, t))
    return {engine: round(float(share), 2) for engine, share in best.items()}


def whole_share(row: Row, t: Traits) -> float:
    """Of one run, whose matrices are in the formats that `t` says."""
    told = as_asked(row)
    card = catalog.find(told["model"])[0]
    used = {"attention": t.gemm, "dense": t.gemm} | ({"experts": t.experts} if card.moe else {})
    card = card.model_copy(update={"weights": card.weights.model_copy(update=used)})
    work = Work(card, devices.find(told["device"]), told["kv_precision"] or "bf16")
    isl, osl = (np.array([float(told[name])]) for name in ("isl", "osl"))
    prompt_s = float(work.prompt_s(isl, isl)[0])
    request_s = prompt_s + (osl[0] - 1) * float(work.decode_s(isl, osl)[0])
    ttft_s, tpot_s = (float(row[f"silicon_{name}_ms"]) / 1e3 for name in ("ttft", "tpot"))
    rate = float(told["concurrency"]) / (ttft_s + (osl[0] - 1) * tpot_s)
    return max(rate * request_s, prompt_s / ttft_s) / float(row["gpus"])


def wins(compared: Iterable[Row], engine: str) -> set[str]:
    """Ways of caches over which servers apart won on this engine: in most comparisons or in the mean."""
    gains: dict[str, list[float]] = defaultdict(list)
    for row in compared:
        if row["comparable"] == "yes" and _first(ENGINES, row["engine"], "") == engine:
            for way in _first(WAYS, row["link"], ()):
                gains[way].append(float(row["gain"] or 0))
    return {way for way, seen in gains.items() if _won(seen)}


def _won(gains: Sequence[float]) -> bool:
    """Whether servers apart gained in most comparisons, or in the mean; a gain of 0: they broke down."""
    return 2 * sum(g > 1 for g in gains) > len(gains) or sum(log(g) if g else -inf for g in gains) > 0


def _first(known: Mapping[str, _T], text: str, otherwise: _T) -> _T:
    return next((value for part, value in known.items() if part in text), otherwise)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence")
    parser.add_argument("--widths", action="store_true", help="learn the widths anew")
    again = parser.parse_args(argv).widths
    wide = read_plain(MEASURED).get("widths", {})
    if again:
        found = mechanisms.learn()
        wide = mechanisms.widths(found)
        print(mechanisms.report(lambda: found))
    rows = rows_of_fit()
    with (SERVING / "splits.csv").open(encoding="utf-8") as file:
        compared = list(csv.DictReader(file))
    bench = bench_of(rows)
    told = measured([as_asked(r) for r in rows], [c.traits for c in bench.cells], compared)
    counted = [i for i, row in enumerate(rows) if row.get("gpus")]  # printouts do not say
    for engine, share in steps([rows[i] for i in counted], traits_of(bench, counted)).items():
        told[engine]["steps"] = share
    about = {
        "rows": len(rows),
        "source": "the runs of planner/cost/calibration.yaml; split_wins: public comparisons of servers "
        "apart with servers that do both (InferenceX, TensorRT-LLM's blogs, threads of SGLang and vLLM); "
        "steps: the largest share of the best product of matrices on its GPUs that a whole run reached",
        "written_by": "python -m benchmarks.evidence",
    }
    yaml = YAML()
    yaml.width = 200
    with MEASURED.open("w", encoding="utf-8") as file:
        file.write("# What there are runs of, by engine: read by planner/cost/measured.py.\n")
        yaml.dump({"about": about, "engines": dict(sorted(told.items())), "widths": wide}, file)


if __name__ == "__main__":
    main()

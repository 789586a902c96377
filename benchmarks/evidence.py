"""Write what was measured: planner/plans/measured.yaml, from the runs that calibration is fitted to and, for
prefill and decode apart, from public comparisons with servers that do both.

`python -m benchmarks.evidence`: some seconds. A comparison counts where both sides were served alike
(`comparable`), and as a win where the servers apart gave more.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any

from ruamel.yaml import YAML

from benchmarks.held_out import bench_of
from benchmarks.printouts import rows_of_fit
from benchmarks.truth import SERVING, Row, as_asked
from planner.cost.calibration import Traits
from planner.plans.evidence import MEASURED

ENGINES = {"trt": "trtllm", "sglang": "sglang", "vllm": "vllm"}
LINKS = {"NVLink": "nvlink", "NVL72": "nvlink", "XGMI": "xgmi", "PCIe": "pcie"}
BESIDE = {"pipeline": "pp", "expert_parallel": "ep", "attention_dp": "attn_dp"}
"""Columns of `predict` by the mechanism that they are of, where above 1."""


def measured(rows: Sequence[Row], traits: Iterable[Traits], compared: Iterable[Row]) -> dict[str, Any]:
    """By engine: formats by device, mechanisms with runs, links over which servers apart won."""
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


def wins(compared: Iterable[Row], engine: str) -> set[str]:
    """Links over which servers apart won at least once on this engine."""
    return {
        _first(LINKS, row["link"])
        for row in compared
        if row["comparable"] == "yes"
        and float(row["gain"] or 0) > 1
        and _first(ENGINES, row["engine"]) == engine
    } - {""}


def _first(names: dict[str, str], text: str) -> str:
    return next((name for part, name in names.items() if part in text), "")


def main() -> None:
    """Write the table."""
    rows = rows_of_fit()
    with (SERVING / "splits.csv").open(encoding="utf-8") as file:
        compared = list(csv.DictReader(file))
    told = measured([as_asked(r) for r in rows], [c.traits for c in bench_of(rows).cells], compared)
    about = {
        "rows": len(rows),
        "source": "the runs of planner/cost/calibration.yaml; split_wins: public comparisons of servers "
        "apart with servers that do both (InferenceX, TensorRT-LLM's blogs, threads of SGLang and vLLM)",
        "written_by": "python -m benchmarks.evidence",
    }
    yaml = YAML()
    yaml.width = 200
    with MEASURED.open("w", encoding="utf-8") as file:
        file.write("# What there are runs of, by engine: read by planner/plans/evidence.py.\n")
        yaml.dump({"about": about, "engines": dict(sorted(told.items()))}, file)


if __name__ == "__main__":
    main()

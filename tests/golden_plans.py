"""Plans that stay as they are: every shipped cluster, and one plan of each kind of replica.

`python -m tests.golden_plans [NAME …]` makes the files in `tests/golden/plans/` anew; a commit that does so
says which figures move, and why. Branch-and-bound nodes limit the search, not the clock. Figures are kept to
five digits, and seconds not at all.
"""

from __future__ import annotations

import json
import math
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.shipped import FOLDER, MODELS
from planner import api
from planner.plans.schema import Plan

ROOT = Path(__file__).resolve().parents[1]
PLANS = ROOT / "tests" / "golden" / "plans"
MADE_ON = PLANS.parent / "machine.json"
GAP, WORK, DIGITS = 0.01, 1000, 5

KINDS: dict[str, dict[str, Any]] = {
    "unlike-stages": {"gpus": "1xrtx-3090,1xrtx-4090", "model": "qwen3-14b"},
    "several-hosts": {
        "cluster": FOLDER / "four-small-boxes.yaml",
        "model": "llama-3.1-70b-awq-int4",
        "loop": "closed",
    },
    "kept-cache": {"gpus": "8xh100", "model": "llama-3.1-70b", "workload": "agent", "rate": 2.0},
    "long-prompts": {"gpus": "8xh100", "model": "llama-3.1-8b", "isl": 100_000, "osl": 200, "ttft_ms": 6e4},
    "profile": {
        "cluster": FOLDER / "melange-cloud.yaml",
        "model": "llama-3.1-8b",
        "profile": ROOT / "docs" / "examples" / "profile.csv",
        "rate": 45.0,
        "isl": 1000,
        "osl": 100,
    },
    "energy": {"gpus": "16xh100", "model": "llama-3.1-70b", "rate": 10.0, "objective": "energy"},
    "percentile": {
        "gpus": "8xa100-80g,8xl40s",
        "model": "llama-3.1-8b",
        "workload": "chat",
        "rate": 20.0,
        "ttft_ms": 2000,
        "tpot_ms": 60,
        "percentile": "p95",
        "objective": "cost",
    },
    "drafts": {"gpus": "2xh100", "model": "mimo-7b", "isl": 4000, "tpot_ms": 7, "speculation": "auto"},
    "latency": {"gpus": "8xh100,8xa100", "model": "llama-3.1-8b", "rate": 20.0, "objective": "latency"},
}
"""What is asked beside the shipped clusters, by name."""

NAMES = (*MODELS, *KINDS)

UNEXPLAINED = {"three-zones"}
"""Whose runners-up take minutes where no clock ends them."""


@cache
def planned(name: str) -> Plan:
    """The plan of a name."""
    asked = KINDS.get(name) or {"cluster": FOLDER / f"{name}.yaml", "model": MODELS[name]}
    cluster, model = asked.get("cluster"), asked["model"]
    others = {k: v for k, v in asked.items() if k not in ("cluster", "model")}
    explained = name not in UNEXPLAINED
    return api.plan(cluster, model, **others, gap=GAP, work_limit=WORK, explain=explained)


def canonical(plan: Plan) -> str:
    """A plan as text that changes where the plan does."""
    text = json.dumps(_rounded(plan.model_dump(mode="json")), indent=1, sort_keys=True) + "\n"
    return text.replace(f"{ROOT}/", "")


def _rounded(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _rounded(v) for k, v in x.items() if k not in ("seconds", "version")}
    if isinstance(x, list):
        return [_rounded(v) for v in x]
    if isinstance(x, float) and math.isfinite(x) and x:
        return float(f"{x:.{DIGITS}g}")
    return x


def machine() -> dict[str, Any]:
    """What rounding hangs on, and with it which of two equal plans is found."""
    from highspy import Highs
    from numpy import __version__
    from numpy._core._multiarray_umath import __cpu_features__

    able = sorted(name for name, there in __cpu_features__.items() if there)
    return {"processor": platform.machine(), "able": able, "numpy": __version__, "highs": Highs().version()}


def main(names: list[str]) -> None:
    """Write them."""
    PLANS.mkdir(exist_ok=True)
    for name in names or NAMES:
        (PLANS / f"{name}.json").write_text(canonical(planned(name)), encoding="utf-8")
        print(name, flush=True)
    if not names:
        MADE_ON.write_text(json.dumps(machine()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

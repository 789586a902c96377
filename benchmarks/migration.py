"""What it takes to come from one plan to another, for plans that the planner makes: `python -m
benchmarks.migration`.

    servers   untouched, restarted with other settings, stopped, started
    held      GB that lie on the right GPU already
    near, far, storage   GB to load, by the nearest source
    least     seconds of the busiest port
    disks     seconds where every server that starts reads its weights from its node's storage
    kept      of the requests/s before, served meanwhile
    weights   bytes of a GPU, matrix by matrix, against the plan's own figure: the worst of all GPUs
    took      seconds to compare
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import rows
from planner import plan
from planner.migration.migrate import migration
from planner.migration.servers import held
from planner.plans.schema import Plan

EXAMPLES = Path(__file__).resolve().parents[1] / "cluster_configs" / "examples"


@dataclass(frozen=True)
class Case:
    """A question, and what is asked otherwise of the plan after."""

    what: str
    model: str
    before: Mapping[str, Any]
    change: Mapping[str, Any]


CASES = (
    Case("three times the rate", "qwen3-32b", {"gpus": "16xH100", "rate": 10.0}, {"rate": 30.0}),
    Case("a node leaves", "llama-3.1-70b", {"gpus": "32xH100"}, {"gpus": "24xH100"}),
    Case("two nodes come", "deepseek-v3", {"gpus": "16xH200"}, {"gpus": "32xH200"}),
    Case("fp8 in place of bf16", "llama-3.1-70b", {"gpus": "16xH200"}, {"precision": "fp8"}),
    Case("shorter steps", "qwen3-30b-a3b", {"gpus": "8xH100,8xL40S", "tpot_ms": 50.0}, {"tpot_ms": 15.0}),
    Case("another engine", "qwen3-235b-a22b-fp8", {"gpus": "32xH100"}, {"engine": "sglang"}),
    Case(
        "a tenth more, 10,000 GPUs",
        "llama-3.1-8b",
        {"cluster": EXAMPLES / "ten-thousand.yaml", "rate": 150_000.0},
        {"rate": 165_000.0},
    ),
)


def main() -> None:
    """Print a row for each case, and the same plan against itself."""
    table = [["", "servers", "held", "near", "far", "storage", "least", "disks", "kept", "weights", "took"]]
    table += [row(case) for case in CASES]
    print(rows(table, markdown=True))


def row(case: Case) -> list[str]:
    """One case, planned and compared."""
    before, after = (made(case, more) for more in ({}, case.change))
    began = time.perf_counter()
    m = migration([before], [after])
    took = time.perf_counter() - began
    if not migration([before], [before]).nothing:
        raise AssertionError(f"{case.what}: a plan moves something against itself")
    s, gb = m.servers, [f"{x / 1e9:,.0f}" for x in (m.held_bytes, m.taken.near, m.taken.far, m.taken.storage)]
    return [
        f"{case.what}, {case.model}",
        f"{s.kept}, {s.restarted}, {s.stopped}, {s.started}",
        *gb,
        f"{m.slowest.seconds:.2g} s",
        f"{m.reloaded.seconds:,.0f} s",
        f"{100 * m.serving.share:.0f} %",
        f"{100 * max(off(before), off(after)):.4f} %",
        f"{took:.2f} s",
    ]


def made(case: Case, more: Mapping[str, Any]) -> Plan:
    """The plan of a case."""
    asked = {"engine": "vllm", "cluster": None, **case.before, **more}
    return plan(asked.pop("cluster"), case.model, explain=False, time_limit_s=60.0, **asked)


def off(one: Plan) -> float:
    """The worst relative difference of a GPU's bytes from what the plan says of its stage."""
    found, worst = held([one]), 0.0
    sizes = {key: sum(s.bytes * (s.high - s.low) for s in shares) for key, shares in found.shares.items()}
    for server in found.servers:
        told: Sequence[float] = [
            m.weights_bytes for m, s in zip(server.replica.memory, server.replica.stages, strict=True)
            for _ in range(s.gpus)
        ]  # fmt: skip
        worst = max(worst, *(abs(sizes[k] / t - 1) for k, t in zip(server.keys, told, strict=True)))
    return worst


if __name__ == "__main__":
    main()

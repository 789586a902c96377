"""HexGen-3: prefill, attention and FFN workers of each GPU type, for the most requests/s.

A degree that the case's table lacks serves nothing, but its replica still pairs: both as the case rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.formulations import workers
from benchmarks.formulations.workers import Slice, WorkersProblem
from benchmarks.peers.answer import Answer, Case, Clock
from solvers.linear import Limits

OBJECTIVES = ("throughput",)
DEGREES = range(1, 9)
PAIR = ("attn", "ffn")


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """Replicas by worker, GPU type and tensor-parallel degree."""
    p = case["problem"]
    stock = {gpu["gpu"]: int(gpu["count"]) for gpu in p["cluster"]}
    rate = {
        worker: {
            gpu: {t: float(table[gpu].get(str(t)) or 0.0) for t in DEGREES} for gpu in stock if gpu in table
        }
        for worker, table in p["replica_throughput_req_s"].items()
    }
    clock = Clock()
    with clock.running():
        found = workers.solve(WorkersProblem(rate, stock, [PAIR]), Limits(seconds=seconds))
    solution = None if found.objective is None else _solution(p, stock, found.replicas)
    return Answer(found.objective, found.bound, found.status, solution, clock.seconds)


def _solution(
    p: Mapping[str, Any], stock: Mapping[str, int], replicas: Mapping[Slice, int]
) -> dict[str, Any]:
    """GPUs and degrees of every worker on every type."""
    placed: dict[str, Any] = {
        w: {gpu: {"gpus": 0, "replica_tp": []} for gpu in stock} for w in p["replica_throughput_req_s"]
    }
    for (worker, gpu, degree), count in sorted(replicas.items()):
        placed[worker][gpu]["gpus"] += degree * count
        placed[worker][gpu]["replica_tp"] += [degree] * count
    return placed


def peer_value(case: Case) -> float | None:
    """Requests/s of the best of the peer's own runs."""
    runs = case.get("known", {}).get("peer_runs") or []
    return max((float(run["req_s"]) for run in runs), default=None)

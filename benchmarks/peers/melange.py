"""Melange: how many GPUs of each type serve request buckets at the least US$/hour.

A type is a design of one GPU with a row a bucket that it can serve; a bucket without a rate asks for nothing.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.peers import measured
from benchmarks.peers.answer import Answer, Case
from cluster_configs.schema import Node
from planner.errors import Infeasible
from planner.inputs.options import Budget
from planner.inputs.profile import ProfileRow
from planner.inputs.workload import Bucket, Slo, Workload
from solvers.fleet.types import FleetSolution

OBJECTIVES = ("cost",)
Key = tuple[int, int]


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """The cheapest counts, and the split of every bucket."""
    p = case["problem"]
    asked = {
        (i, j): share * p["total_requests_per_s"]
        for i, shares in enumerate(p["workload_fraction"])
        for j, share in enumerate(shares)
        if share * p["total_requests_per_s"] > 0
    }
    if not asked:
        return Answer(0.0, 0.0, "optimal", {"counts": dict.fromkeys(p["gpu_types"], 0), "split": []}, 0.0)
    isl = _lengths(p["input_tokens"], len(p["workload_fraction"]))
    osl = _lengths(p["output_tokens"], len(p["workload_fraction"][0]))
    buckets = [Bucket(isl=isl[i], osl=osl[j], share=rate) for (i, j), rate in asked.items()]
    workload = Workload(buckets=buckets, rate_rps=sum(asked.values()), slo=Slo(ttft_ms=None, tpot_ms=None))
    rows = [
        ProfileRow(0, name, name, 1, "mixed", isl[i], isl[i], osl[j], osl[j], rate)
        for name, table in zip(p["gpu_types"], p["max_throughput_requests_per_s"], strict=True)
        for (i, j) in asked
        if (rate := table[i][j])
    ]
    cluster = measured.machine_room(_nodes(p, asked))
    try:
        found, took = measured.solve(rows, cluster, workload, "cost", Budget(), seconds)
    except Infeasible:
        return Answer(None, None, "infeasible", None, 0.0)
    solution = None if found.objective is None else _solution(p, found, list(asked))
    return Answer(found.objective, found.bound, found.status, solution, took)


def _lengths(tokens: list[int] | None, count: int) -> list[int]:
    """Token counts that tell the sizes apart: the case's own where it has them."""
    return list(tokens) if tokens and len(set(tokens)) == count else list(range(1, count + 1))


def _nodes(p: dict[str, Any], asked: dict[Key, float]) -> list[Node]:
    """One-GPU nodes, of each type as many as would carry alone all that it can: more are of no use."""
    nodes = []
    tables = zip(p["gpu_types"], p["price_usd_per_hour"], p["max_throughput_requests_per_s"], strict=True)
    for name, price, table in tables:
        work = sum(rate / table[i][j] for (i, j), rate in asked.items() if table[i][j])
        count = max(1, math.ceil(work))
        nodes.append(Node(name=name, count=count, device=name, gpus_per_node=1, price_usd_per_hour=price))
    return nodes


def _solution(p: dict[str, Any], found: FleetSolution, asked: list[Key]) -> dict[str, Any]:
    """Counts by type, and the share of every bucket by type."""
    column = {f"{name} on {name}": name for name in p["gpu_types"]}
    shares: dict[str, dict[str, float]] = {}
    for (c, w), rate in found.flows.items():
        shares.setdefault(w, {})[column[c]] = rate
    split = []
    for at, (i, j) in enumerate(asked):
        served = sum(shares[str(at)].values())
        fraction = {name: rate / served for name, rate in shares[str(at)].items()}
        split.append({"input_bucket": i, "output_bucket": j, "fraction": fraction})
    counts = {name: found.replicas.get(f"{name} on {name}", 0) for name in p["gpu_types"]}
    return {"counts": counts, "split": split}


def peer_value(case: Case) -> float | None:
    """US$/hour of the peer's own answer."""
    result = case.get("known", {}).get("peer_result")
    return None if result is None else float(result["cost_usd_per_hour"])

"""Splitwise: prompt machines and token machines of each type under one budget, for the most requests/s.

A machine type is two designs of one whole machine, a prefill row and a decode row; what the budget counts
stands as the machine's price (or its watts, where the budget is of power).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.peers import measured
from benchmarks.peers.answer import Answer, Case
from cluster_configs.schema import Node
from planner.inputs.options import Budget
from planner.inputs.profile import ProfileRow, Role
from planner.inputs.workload import Bucket, Slo, Workload

OBJECTIVES = ("throughput",)
UNLIMITED = 100_000
"""Machines of a type of which the budget takes nothing."""


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """Counts of prompt and token machines by type."""
    p = case["problem"]
    resource, amount = p["budget"]["resource"], float(p["budget"]["amount"])
    power = "power" in resource or "watts" in resource
    isl = max(1, round(p["workload"]["prompt_tokens_mean"]))
    osl = max(1, round(p["workload"]["output_tokens_mean"]))
    rows: list[ProfileRow] = []
    nodes: list[Node] = []
    for name, machine in p["machine_types"].items():
        takes = float(machine[resource])
        count = int(amount // takes) if takes > 0 else UNLIMITED
        if count == 0:
            continue
        nodes.append(Node(name=name, count=count, device=name, gpus_per_node=1, price_usd_per_hour=takes))
        design = partial(_row, name, (isl, osl), takes, takes if power else None)
        rows += [
            design("prompt", "prefill", _prompt_rps(p, machine)),
            design("token", "decode", _token_rps(p, machine)),
        ]
    if not nodes:  # the budget is below one machine
        return Answer(0.0, 0.0, "optimal", {"prompt": {}, "token": {}}, 0.0)
    workload = Workload(buckets=[Bucket(isl=isl, osl=osl)], slo=Slo(ttft_ms=None, tpot_ms=None))
    budget = Budget(watts=amount) if power else Budget(usd_per_hour=amount)
    found, took = measured.solve(rows, measured.machine_room(nodes), workload, "throughput", budget, seconds)
    counts: dict[str, dict[str, int]] = {"prompt": {}, "token": {}}
    for phase, by_name in counts.items():
        for name in p["machine_types"]:
            by_name[name] = found.replicas.get(f"{name} {phase} on {name}", 0)
    return Answer(found.objective, found.bound, found.status, counts, took)


def _row(
    name: str, lengths: tuple[int, int], price: float, watts: float | None, phase: str, role: Role, rps: float
) -> ProfileRow:
    isl, osl = lengths
    return ProfileRow(0, f"{name} {phase}", name, 1, role, isl, isl, osl, osl, rps, price, watts)


def _prompt_rps(p: dict[str, Any], machine: dict[str, Any]) -> float:
    batch = p["limits"]["prompt_batch_tokens"]
    batch_s = _between(machine["prompt_ms_by_batch_tokens"], batch) / 1e3
    return float(batch / batch_s / p["workload"]["prompt_tokens_mean"])


def _token_rps(p: dict[str, Any], machine: dict[str, Any]) -> float:
    """At the largest batch that the KV room beside the weights holds."""
    tokens = p["workload"]["prompt_tokens_mean"] + p["workload"]["output_tokens_mean"]
    room = machine["memory_bytes"] - p["model"]["weight_bytes"]
    batch = int(min(p["limits"]["token_batch_max"], room // (p["model"]["kv_bytes_per_token"] * tokens)))
    step_s = _between(machine["token_ms_by_batch_tokens"], batch) / 1e3
    return max(0.0, float(batch / step_s / p["workload"]["output_tokens_mean"]))


def _between(knots: list[list[float]], x: float) -> float:
    """Linear between knots, the end segments extended."""
    k = next((k for k in range(1, len(knots) - 1) if knots[k][0] >= x), len(knots) - 1)
    (x0, y0), (x1, y1) = knots[k - 1], knots[k]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def peer_value(case: Case) -> float | None:
    """Requests/s of the best published design that keeps the budget."""
    result = case.get("known", {}).get("peer_result") or {}
    designs = result.get("published_designs_in_this_model", {}).values()
    amount = case["problem"]["budget"]["amount"] + 1e-6
    return max((d["requests_per_s"] for d in designs if d["budget_used"] <= amount), default=None)

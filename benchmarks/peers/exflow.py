"""ExFlow: experts of all layers on GPUs, for the least hops of tokens."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.answer import Answer, Case, Clock
from solvers import affinity
from solvers.affinity.types import AffinityProblem
from solvers.linear import Limits

OBJECTIVES = ("hops",)


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """The GPU of every expert of every layer."""
    p = case["problem"]
    problem = AffinityProblem(
        tokens=np.array(p["transition_tokens"], dtype=float),
        gpus=int(p["gpus"]),
        gpus_per_node=int(p["gpus_per_node"]),
        intra_cost=float(p["intra_node_hop_cost"]),
        inter_cost=float(p["inter_node_hop_cost"]),
    )
    clock = Clock()
    with clock.running():
        found = affinity.solve(problem, Limits(seconds=seconds))
    return Answer(found.objective, found.bound, found.status, {"place": found.place.tolist()}, clock.seconds)


def peer_value(case: Case) -> float | None:
    """Token hops of the peer's default method, rebuilt."""
    result = case.get("known", {}).get("peer_result") or {}
    return None if "two_way_cost" not in result else float(result["two_way_cost"])

"""EPLB: replicas of experts on GPUs, for the coolest hottest GPU (`balance`), or with traffic (`combined`).

Nodes of a case are of equal size and GPUs alike; groups are only where the search for traffic starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.answer import Answer, Case, Clock
from solvers import experts
from solvers.experts.types import Aim, ExpertsProblem
from solvers.linear import Limits

OBJECTIVES = ("balance", "combined")
USUAL_WEIGHT = 0.1


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """The experts in the slots of every GPU, layer by layer."""
    combined = case.get("known", {}).get("combined") or {}
    sampled = bool(case["problem"].get("token_sample_experts"))  # without, nothing is known of traffic
    aim = Aim(
        objective="combined" if objective == "combined" and sampled else "balance",
        traffic_weight=float(combined.get("traffic_weight", USUAL_WEIGHT)),
    )
    clock = Clock()
    with clock.running():
        found = experts.solve(problem(case["problem"]), aim, Limits(seconds=seconds))
    solution = {"place": found.place, "objective": objective}
    return Answer(found.objective, found.bound, found.status, solution, clock.seconds)


def problem(p: dict[str, Any]) -> ExpertsProblem:
    """The case in the solver's terms."""
    gpus, load = int(p["gpus"]), np.array(p["expert_load_tokens"], dtype=float)
    groups, sample = p.get("expert_groups") or 1, p.get("token_sample_experts")
    whole = groups > 1 and load.shape[1] % groups == 0
    return ExpertsProblem(
        load_tok=load,
        slots=np.full(gpus, int(p["slots_per_gpu"])),
        node=np.arange(gpus) // int(p["gpus_per_node"]),
        group=np.arange(load.shape[1]) // (load.shape[1] // groups) if whole else None,
        tokens=[np.array(tokens) for tokens in sample] if sample else None,
    )


def peer_value(case: Case) -> float | None:
    """Hottest over mean under the policy that the peer picks by itself."""
    result = case.get("known", {}).get("peer_result") or {}
    default = result.get("default")
    return None if default is None else float(default["max_over_mean_avg"])

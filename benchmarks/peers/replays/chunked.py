"""Chunked prefill on equal replicas: the shipped server's own rules, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.replays.servers import RoundRobin
from planner.designs.shape import Floats
from planner.simulate.fleet import Fleet, Outcome, Rules, Site
from planner.simulate.pools import Group, Load
from planner.simulate.requests import Requests, Settings, StepCosts
from planner.simulate.routing import Planned, Way


def replayed(problem: dict[str, Any]) -> Fleet:
    """One group of `replicas` servers."""
    t = problem["step"]
    costs = StepCosts(
        t["t0_s"], t["prefill_s_per_token"], 0.0, t["sequence_s"], t["context_s_per_token"], 1.0
    )
    rules = Settings(problem["token_budget"], problem["max_sequences"], problem["kv_tokens"])
    requests = Requests(*np.array(problem["requests"], dtype=float).T)
    site = Site([Group("r", "mixed", problem["replicas"], costs, rules)], [[Way(1.0, "r")]], {}, {})
    turns = problem["routing"] == "round_robin"
    bucket = np.zeros(len(requests), dtype=np.int64)
    return Fleet(site, Load(requests, bucket, {}), Rules(RoundRobin if turns else Planned))


def measured(fleet: Fleet, out: Outcome) -> dict[str, Floats]:
    """Seconds."""
    return {"ttft_s": out.ttft_s, "tpot_s": out.tpot_s, "e2e_s": out.end_s - out.arrival_s}

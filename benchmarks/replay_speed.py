"""Requests a minute that the replay gets through on one core, budget 100,000:
`python -m benchmarks.replay_speed`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from benchmarks.queueing import MIXES, STEPS
from planner.cost.shape import StepTimes
from planner.simulate.replay import replay
from planner.simulate.requests import Requests, Settings

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "simulate"


def report(name: str, step: StepTimes, requests: Requests, rules: Settings) -> None:
    began = time.process_time()
    result = replay(step, requests, rules)
    seconds = time.process_time() - began
    each_minute = 60 * len(requests) / seconds
    print(f"{name:34s} {len(requests):8d} {result.steps:9d} {seconds:8.3f} {each_minute:14,.0f}")


def stored() -> None:
    """The cases kept beside the repository, where they are."""
    for path in sorted(CASES.glob("chunked_*.json")):
        problem = json.loads(path.read_text())["problem"]
        t = problem["step"]
        numbers = (t["t0_s"], t["prefill_s_per_token"], 0.0, t["sequence_s"], t["context_s_per_token"], 1.0)
        step = StepTimes(*(np.asarray(x) for x in numbers))
        rules = (problem[k] for k in ("token_budget", "max_sequences", "kv_tokens", "replicas", "routing"))
        report(path.stem, step, Requests(*np.array(problem["requests"], dtype=float).T), Settings(*rules))


def drawn(count: int = 50_000) -> None:
    """Poisson arrivals of two mixes at a high load, on one and on eight replicas."""
    rng = np.random.default_rng(1)
    for mix, rate in (("conversation", 13.0), ("short", 10.0)):
        isl, osl, share = np.array(MIXES[mix], dtype=float).T
        kind = rng.choice(len(isl), count, p=share / share.sum())
        for replicas in (1, 8):
            arrival = np.cumsum(rng.exponential(1 / (rate * replicas), count))
            rules = Settings(replicas=replicas, routing="least_requests", kv_tokens=400_000)
            report(
                f"{mix}, {replicas} replica(s)", STEPS["8b"], Requests(arrival, isl[kind], osl[kind]), rules
            )


def main() -> None:
    print(f"{'':34s} {'requests':>8s} {'steps':>9s} {'CPU s':>8s} {'requests/min':>14s}")
    stored()
    drawn()


if __name__ == "__main__":
    main()

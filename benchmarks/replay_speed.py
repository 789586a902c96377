"""How fast the replay is: `python -m benchmarks.replay_speed [--requests 200000]`

First whole plans, most of 16 replicas, with arrivals at random at the plan's rate: seconds of CPU, and how
many times faster than the time they stand for, which falls with the requests/s of the fleet as the seconds of
a request do not. Then bare servers.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

from benchmarks.queueing import MIXES, STEPS
from benchmarks.replays.servers import Settings, replay
from planner import api
from planner.simulate.answer import Ask, simulate
from planner.simulate.requests import Requests

PLANS: dict[str, dict[str, Any]] = {
    "8B, L40S": {"gpus": "16xL40S", "model": "llama-3.1-8b", "rate": 78.0},
    "8B, A100": {"gpus": "16xA100", "model": "llama-3.1-8b", "rate": 124.0},
    "32B, H100": {"gpus": "32xH100", "model": "qwen3-32b", "rate": 175.0},
    "8B, H100": {"gpus": "16xH100", "model": "llama-3.1-8b", "rate": 355.0},
    "70B, split": {"gpus": "64xH100", "model": "llama-3.1-70b", "rate": 90.0, "ttft_ms": 800},
    "405B, split": {"gpus": "128xH100", "model": "llama-3.1-405b-fp8", "rate": 24.0, "ttft_ms": 4000},
}
"""What is planned, by name; open arrivals."""


def plans(requests: int) -> None:
    """A line a plan."""
    print(f"{'plan':12s} {'servers':>22s} {'requests/s':>10s} {'CPU s':>7s} {'us each':>8s} {'x real':>12s}")
    for name, asked in PLANS.items():
        plan = api.plan(None, **asked, work_limit=50, explain=False)
        servers = " + ".join(f"{r.count * r.attn_dp} {r.role}" for r in plan.replicas)
        began = time.process_time()
        found = simulate(plan, Ask(requests=requests))
        seconds = time.process_time() - began
        span_s = float(found.outcome.end_s.max() - found.outcome.arrival_s.min())
        each = 1e6 * seconds / requests
        speed = f"{span_s / seconds:12,.0f}"
        print(f"{name:12s} {servers:>22s} {found.rps:10.1f} {seconds:7.2f} {each:8.1f} {speed}")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{requests:,} requests each; {most:,.0f} MB of memory at most")


def bare(count: int = 50_000) -> None:
    """Poisson arrivals of two mixes at a high load, on one and on more servers."""
    print(f"\n{'bare servers':34s} {'requests':>8s} {'steps':>9s} {'CPU s':>8s} {'requests/min':>14s}")
    rng = np.random.default_rng(1)
    for mix, rate in (("conversation", 13.0), ("short", 10.0)):
        isl, osl, share = np.array(MIXES[mix], dtype=float).T
        kind = rng.choice(len(isl), count, p=share / share.sum())
        for replicas in (1, 16, 128):
            arrival = np.cumsum(rng.exponential(1 / (rate * replicas), count))
            rules = Settings(replicas=replicas, routing="least_requests", kv_tokens=400_000)
            began = time.process_time()
            result = replay(STEPS["8b"], Requests(arrival, isl[kind], osl[kind]), rules)
            seconds = time.process_time() - began
            each_minute = 60 * count / seconds
            name = f"{mix}, {replicas} server(s)"
            print(f"{name:34s} {count:8d} {result.steps:9d} {seconds:8.3f} {each_minute:14,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=200_000, help="of each plan (200000)")
    options = parser.parse_args()
    plans(options.requests)
    bare()


if __name__ == "__main__":
    main()

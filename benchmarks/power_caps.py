"""What limits of GPUs are worth to a rack: `python -m benchmarks.power_caps [--seconds 20]`.

Racks of four nodes of eight GPUs that hold a share of what these may draw. Requests/s within the limits of a
preset:

    free      without a cap
    off       with GPUs as they come, so that some stay off: at most, by the bound
    alike     with every GPU at the same limit
    chosen    with the limits that the plan takes; `bound` of all fleets
    gained    of `chosen` over the better of the other two
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace

from cluster_configs import devices
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node, ResolvedCluster
from planner import api
from planner.plans.schema import Plan
from planner.question.asked import read
from planner.question.posed import pooled
from planner.search.find import find
from solvers.linear import Limits

NODES, GPUS = 4, 8
SHARES = (0.9, 0.75, 0.6)


@dataclass(frozen=True)
class Case:
    """A device, a model and a workload."""

    device: str
    model: str
    workload: str = "chat"

    def cluster(self, feed: float | None = None, node: float | None = None) -> ResolvedCluster:
        entry = Node(name="rack", count=NODES, device=self.device, gpus_per_node=GPUS, power_cap_watts=node)
        return resolve(Cluster(nodes=[entry], power_caps_watts={"rack": feed} if feed else None))

    @property
    def watts(self) -> float:
        """That all its GPUs may draw."""
        return NODES * GPUS * devices.find(self.device).tdp_watts


CASES = (
    Case("h100-sxm", "llama-3.1-70b"),
    Case("h100-sxm", "qwen3-30b-a3b", "reasoning"),
    Case("h200-sxm", "gpt-oss-120b"),
    Case("b200-sxm", "llama-3.1-70b", "rag"),
    Case("l40s", "llama-3.1-8b"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.power_caps")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each solve")
    seconds = parser.parse_args().seconds
    print("| | share | free | off | alike | chosen | bound | gained | limits | s |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for case in CASES:
        free = _plan(case, case.cluster(), seconds).proof.objective
        for share in SHARES:
            print(row(case, share, free, seconds), flush=True)
    return 0


def row(case: Case, share: float, free: float, seconds: float) -> str:
    """A case under one share of its watts."""
    feed = share * case.watts
    alike = _plan(case, case.cluster(node=feed / NODES), seconds).proof.objective
    off, began = _as_they_come(case, case.cluster(feed), seconds), time.perf_counter()
    plan = _plan(case, case.cluster(feed), seconds)
    took, rps = time.perf_counter() - began, plan.proof.objective
    told = sorted({f"{r.power_limit_watts:g}" if r.power_limit_watts else "none" for r in plan.replicas})
    figures = (f"{x:,.1f}" for x in (free, off, alike, rps, plan.proof.bound))
    gained = rps / max(off, alike) - 1
    name = f"{case.model} on {NODES * GPUS} {case.device}, {case.workload}"
    return f"| {name} | {share:.0%} | {' | '.join(figures)} | {gained:.1%} | {', '.join(told)} | {took:.1f} |"


def _plan(case: Case, cluster: ResolvedCluster, seconds: float) -> Plan:
    return api.plan(
        cluster, case.model, workload=case.workload, time_limit_s=seconds, simple=0.0, explain=False
    )


def _as_they_come(case: Case, cluster: ResolvedCluster, seconds: float) -> float:
    """The most that any fleet of GPUs without limits serves."""
    asked = read(cluster, case.model, None, case.workload, {}, {"time_limit_s": seconds})
    pool, question = pooled(asked)
    some = tuple(c for c in pool.candidates if not c.key.power)
    return find(question, replace(pool, candidates=some), Limits(seconds=seconds)).solution.bound or 0.0


if __name__ == "__main__":
    raise SystemExit(main())

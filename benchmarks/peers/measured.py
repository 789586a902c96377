"""Cases whose machines are known by measured rates alone: a `--profile` table on a cluster of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.peers.answer import Clock
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device, Node, ResolvedCluster
from planner.inputs.options import Budget
from planner.inputs.profile import ProfileRow
from planner.inputs.workload import Workload
from planner.objectives import named
from planner.problems.profile import from_profile
from solvers import fleet
from solvers.fleet.extract import extract
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits


def machine_room(nodes: Sequence[Node]) -> ResolvedCluster:
    """A cluster of devices that no catalog has: their figures are placeholders, the profile's rates count."""
    return resolve(Cluster(nodes=list(nodes)), devices={n.device: _nameless(n) for n in nodes})


def _nameless(node: Node) -> Device:
    gpus = node.gpus_per_node or 1
    return Device(
        name=node.device,
        vendor="nvidia",
        generation="hopper",
        memory_gb=1.0,
        memory_gb_per_s=1.0,
        tflops={"bf16": 1.0},
        intra_gb_per_s=1.0,
        intra_link="none",
        nic_gb_per_s=1.0,
        gpus_per_node=gpus,
        scale_up_gpus=gpus,
        tdp_watts=1.0,
        sources={"all": "placeholder: the case gives rates, not hardware"},
    )


def solve(
    rows: Sequence[ProfileRow],
    cluster: ResolvedCluster,
    workload: Workload,
    objective: str,
    budget: Budget,
    seconds: float,
) -> tuple[FleetSolution, float]:
    """The fleet, proven at gap 0 within `seconds`, and the seconds that solving (not stating) took."""
    problem, _ = from_profile(
        rows, cluster.classes, workload, named(objective), workload.rate_rps, budget, cluster.links
    )
    unbought = {g: replace(stock, idle_watts=0.0) for g, stock in problem.stocks.items()}
    problem = replace(problem, stocks=unbought)  # the cases count what is bought, not what stands idle
    built, clock = fleet.build(problem), Clock()
    with clock.running():
        outcome = built.model.solve(Limits(gap=0.0, seconds=seconds))
    return extract(problem, built, outcome), clock.seconds

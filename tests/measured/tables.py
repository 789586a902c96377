"""A small table of measurements and the cluster that it is for, which tests share."""

from __future__ import annotations

from dataclasses import replace

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node, ResolvedCluster
from planner.inputs.profile import ProfileRow
from planner.measured.problem import Stated, state
from planner.question.asked import Asked, read

ANY = (1, 100_000)
H100 = Node(name="h", device="h100-sxm", count=2, gpus_per_node=8, price_usd_per_hour=16.0, nic_gb_per_s=50)
L4 = Node(name="l", device="l4", nic="roce", count=4, gpus_per_node=1, price_usd_per_hour=1.0, nic_gb_per_s=1)
PROMPT = 1024 * 131072
"""Bytes of a prompt's cache: Llama-3.1-8B keeps 128 KiB a token."""


def row(design: str, device: str, gpus: int, rate: float, role: str = "mixed", **more) -> ProfileRow:
    """Good for requests of any length."""
    lengths = {"isl_min": 1, "isl_max": 100_000, "osl_min": 1, "osl_max": 100_000}
    known = {"price_usd_per_hour": None, "watts": None, "line": 2}
    return ProfileRow(
        design=design, device=device, gpus=gpus, role=role, max_rps=rate, **{**lengths, **known, **more}
    )


def cluster(*nodes: Node, links: tuple[Link, ...] = ()) -> ResolvedCluster:
    return resolve(Cluster(nodes=list(nodes), links=list(links)))


def asked(*nodes: Node, links: tuple[Link, ...] = (), **load) -> Asked:
    """For Llama-3.1-8B, 1,024 tokens in and 256 out."""
    loads = {k: v for k, v in load.items() if k in ("rate", "isl", "osl", "ttft_ms", "tpot_ms")}
    options = {k: v for k, v in load.items() if k not in loads}
    return read(cluster(*nodes, links=links), "llama-3.1-8b", None, "chat", loads, options)


def stated(wanted: Asked, *rows: ProfileRow) -> Stated:
    numbered = [replace(r, line=i + 2) for i, r in enumerate(rows)]
    return state(wanted, numbered, "t.csv")

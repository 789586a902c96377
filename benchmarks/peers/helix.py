"""Helix: layers on unequal, networked nodes, for the most tokens/s.

`maxflow`: the largest flow of tokens through the placed layers, as the peer counts it. A node carries no more
than its network card does; links between nodes move activations, those of source and sink token ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.answer import Answer, Case, Clock
from solvers import placement
from solvers.linear import Limits
from solvers.placement_types import Network

OBJECTIVES = ("maxflow",)
SECONDS = 8.0
"""A case at most, whatever more is allowed: the last percent costs most of the time."""


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """Layers of each node."""
    clock = Clock()
    with clock.running():
        found = placement.solve(network(case["problem"]), Limits(seconds=min(seconds, SECONDS)))
    intervals = {str(i): list(layers) for i, layers in sorted(found.intervals.items())}
    return Answer(found.flow, found.bound, found.status, {"intervals": intervals}, clock.seconds)


def network(p: dict[str, Any]) -> Network:
    """The case's cluster in tokens/s."""
    model, cluster = p["model"], p["cluster"]
    activation, token = model["activation_bytes_per_token"] / 1e9, model["token_id_bytes"] / 1e9
    capacity = {
        name: tuple(min(c, kind["nic_gb_per_s"] / activation) for c in _table(kind))
        for name, kind in cluster["node_types"].items()
    }
    return Network(
        layers=model["layers"],
        capacity=capacity,
        kinds=tuple(cluster["nodes"]),
        link=np.array(cluster["link_bandwidth_gb_per_s"]) / activation,
        source=np.array(cluster["source_bandwidth_gb_per_s"]) / token,
        sink=np.array(cluster["sink_bandwidth_gb_per_s"]) / token,
    )


def _table(kind: dict[str, Any]) -> list[float]:
    return list(kind["throughput_tokens_per_s_by_layers"][: kind["max_layers"]])


def peer_value(case: Case) -> float | None:
    """Tokens/s of the peer's own plan, in its max-flow."""
    value = case.get("known", {}).get("helix")
    return None if value is None else float(value)

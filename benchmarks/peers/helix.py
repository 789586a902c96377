"""Helix: layers on unequal, networked nodes, for the most tokens/s.

`served`: decode tokens/s of offline serving, by the closed form of `solvers.placement.predict`; the solution
also has the part of the requests that takes each link. `maxflow`: the largest flow of tokens through the
placed layers, as the peer counts it. A node carries no more than its network card does; links between nodes
move activations, those of source and sink token ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formulations import placement
from benchmarks.peers.answer import Answer, Case, Clock
from solvers.linear import Limits
from solvers.placement.service import Service
from solvers.placement.shares import SINK, SOURCE
from solvers.placement.types import Network

OBJECTIVES = ("served", "maxflow")
SECONDS = 30.0
"""A case at most: far more than its work takes, so that the clock decides nothing."""
PROMPT, OUTPUT = 763.08, 232.45
"""Mean tokens of the conversations that the peer serves (Azure's, seed 0)."""
LONG_PROMPT = 924.1
"""Mean prompt of the requests in flight: those with long answers are there for longer."""
EXPECTED = 240
"""Tokens of an answer that the peer reserves."""
FILLED = 0.8
"""Of the KV cache, where the peer stops admitting requests."""


def solve(case: Case, objective: str, seconds: float) -> Answer:
    """Layers of each node, and for `served` the shares of the links."""
    clock = Clock()
    with clock.running():
        limits = Limits(seconds=min(seconds, SECONDS))
        if objective == "maxflow":
            found = placement.solve(network(case["problem"]), "maxflow", limits)
        else:
            found = placement.solve(serving(case["problem"]), "served", limits)
    if found.status == "infeasible":
        return Answer(None, None, "infeasible", None, clock.seconds)
    shares = [[_end(a), _end(b), share] for (a, b), share in found.shares.items()]
    solution = {"intervals": _named(found.intervals), "route_shares": shares}
    return Answer(found.tokens_per_s, found.bound, found.status, solution, clock.seconds)


def _named(intervals: Any) -> dict[str, list[int]]:
    return {str(i): list(layers) for i, layers in sorted(intervals.items())}


def _end(node: int) -> str:
    return {SOURCE: "source", SINK: "sink"}.get(node, str(node))


def serving(p: dict[str, Any]) -> Service:
    """The case's cluster under the peer's own load."""
    cluster = p["cluster"]
    tokens = (LONG_PROMPT + EXPECTED) / FILLED
    kinds = cluster["node_types"]
    return Service(
        network=network(p),
        room={
            name: tuple(
                kv / (k * tokens)
                for k, kv in enumerate(
                    kind["kv_capacity_token_layers_by_layers"][: kind["max_layers"]], start=1
                )
            )
            for name, kind in kinds.items()
        },
        decode={
            name: [tuple(knot) for knot in kind["per_layer_decode_time_s"]] for name, kind in kinds.items()
        },
        prompt_s={
            name: float(np.interp(PROMPT, *np.array(kind["per_layer_prompt_time_s"]).T))
            for name, kind in kinds.items()
        },
        prompt=PROMPT,
        output=OUTPUT,
        latency=np.array(cluster["link_latency_ms"]) / 1e3,
        from_source=np.array(cluster["source_latency_ms"]) / 1e3,
        to_sink=np.array(cluster["sink_latency_ms"]) / 1e3,
    )


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

"""Chains as predicted and as replayed: `python -m benchmarks.chain_replay [--only plans | helix]`.

*plans*: five small clusters in two zones, planned with `--engine chains` and replayed by `planner.simulate`:
the plan's closed form, the replay, and how far the first is off. Three replays: a request's messages by
themselves and 0.1 s between an answer and the next request, as in Helix's simulator, on which the closed form
is fitted; the next request sent at once; and all of a pass in one message. `shares`: of all requests, those
that took another chain than the plan's shares say, as theirs was full. `busiest`, `wire`: use of the fullest
node and wire.

*helix*: two plans stored with the cases beside the repository, under the case's own times of a layer, links
of each pair of nodes, lengths and admission; first the event model that comes with the cases (built with
g++), then ours. What differs: ours deals requests to whole paths, not to links one after the other, and
admits a given number in flight, not up to the fullest layer.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import planner
from benchmarks.peers.helix import EXPECTED, FILLED
from benchmarks.replays.chain_net import Chain, Hop, Leg, Net, Node, Result
from benchmarks.replays.chain_plan import PAUSE_S, Case, replay_plan
from benchmarks.replays.chains import replay
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, ResolvedCluster
from planner.inputs.workload import Bucket, Slo, Workload
from planner.simulate.requests import Requests

SHARED = Path(__file__).resolve().parents[2] / "shared"
LENGTHS = SHARED / "data" / "traces" / "azure_conv_lengths_seed0.txt"

A, L, T = "a100-sxm-40gb", "l4", "t4"
CLUSTERS: dict[str, tuple[str, list[tuple[str, int, str]], list[tuple[str, str, float, float]]]] = {
    "2 L4 + 2 T4, 12 MB/s": ("qwen3-8b", [(L, 2, "a"), (T, 2, "b")], [("a", "b", 0.012, 20)]),
    "2 L4 | 4 T4, 100 MB/s": ("qwen3-14b", [(L, 2, "a"), (T, 4, "b")], [("a", "b", 0.1, 5)]),
    "A100 | 3 L4 + 2 T4, 1 GB/s": (
        "qwen3-32b",
        [(A, 1, "a"), (L, 3, "b"), (T, 2, "b")],
        [("a", "b", 1.0, 1)],
    ),
    "2 A100 | 6 L4, 12 MB/s": ("llama-3.1-70b", [(A, 2, "a"), (L, 6, "b")], [("a", "b", 0.012, 30)]),
    "A100 + 3 L4 | 8 T4, 50 MB/s": (
        "qwen3-32b",
        [(A, 1, "a"), (L, 3, "a"), (T, 8, "b")],
        [("a", "b", 0.05, 10)],
    ),
}
"""Name -> model; (device, nodes of one GPU, zone); (zone, zone, GB/s, ms)."""
BUCKETS = [(256, 128, 0.4), (768, 256, 0.4), (2048, 256, 0.2)]
"""isl, osl, share: about a conversation's."""

RULES: dict[str, dict[str, Any]] = {
    "": {},
    "  sent at once": {"pause_s": 0.0},
    "  in one message": {"together": True},
}

HELIX = [("single24-70b", "kv_ilp_plan"), ("geo24-70b", "two_edge_regions_then_A100")]
MARK = 0.85
"""Of a node's cache, above which that event model sends no request there."""
COPIES_S = 1 / 4e9 + 1 / 5e9
"""Seconds a byte of activations to the GPU and back, once a node, as there."""
WINDOW_S = (60.0, 660.0)


def plans() -> None:
    """The clusters: a line for each way to replay."""
    print(
        f"{'':28s} {'in flight':>9s}  {'decode tok/s':^22s}   {'TPOT s':^22s}   {'TTFT s':^22s}"
        f"   {'shares':>6s} {'busiest':>7s} {'wire':>5s} {'s':>5s}"
    )
    buckets = [Bucket(isl=isl, osl=osl, share=share) for isl, osl, share in BUCKETS]
    load = Workload(buckets=buckets, slo=Slo(ttft_ms=None, tpot_ms=None))
    for name, (model, nodes, links) in CLUSTERS.items():
        made = planner.plan(_cluster(nodes, links), model, workload=load, engine="chains")
        said = Case(made).promised
        for way, rules in RULES.items():
            began = time.perf_counter()
            result = replay_plan(made, **rules)
            each = zip(result.taken, made.chains, strict=True)
            moved = sum(abs(n / sum(result.taken) - chain.share) for n, chain in each) / 2
            print(
                f"{way or name:28s} {said.in_flight:9d}"
                f"  {_beside(said.decode_tok_per_s, result.decode_tok_per_s)}"
                f"   {_beside(said.tpot_s, result.tpot_s)}   {_beside(said.ttft_s, result.ttft_s)}"
                f"   {moved:6.1%} {max(result.busy.values()):7.0%} {max(result.wire_use.values()):5.0%}"
                f" {time.perf_counter() - began:5.1f}",
                flush=True,
            )


def _cluster(
    nodes: Sequence[tuple[str, int, str]], links: Sequence[tuple[str, str, float, float]]
) -> ResolvedCluster:
    """Nodes of one GPU with 10 Gbit/s each, zones joined as said."""
    entries = [
        {
            "name": f"n{i}",
            "device": device,
            "gpus_per_node": 1,
            "count": count,
            "zone": zone,
            "nic_gb_per_s": 1.25,
        }
        for i, (device, count, zone) in enumerate(nodes)
    ]
    joined = [{"between": [a, b], "gb_per_s": speed, "latency_ms": ms} for a, b, speed, ms in links]
    return resolve(Cluster.model_validate({"name": "small", "nodes": entries, "links": joined}))


def _beside(said: float, found: float) -> str:
    """Predicted, replayed, and how far the prediction is off."""
    return f"{said:7.4g} {found:7.4g} {said / found - 1:+6.1%}"


def helix() -> None:
    """Two plans stored with the cases."""
    if not (SHARED / "cases" / "helix").is_dir() or shutil.which("g++") is None:
        print("the cases beside the repository, or g++, are not here: no comparison with their event model")
        return
    print(
        f"{'event model, ours':45s} {'in flight':^13s}  {'decode tok/s':^22s}   {'decode s':^22s}"
        f"   {'prompt s':^22s} {'s':>5s}"
    )
    for name, stored in HELIX:
        case = json.loads((SHARED / "cases" / "helix" / f"{name}.json").read_text())
        plan = next(p for p in case["known"]["served_in_peer_simulator"]["plans"] if p["name"] == stored)
        theirs, began = _scorer().served(case, plan), time.perf_counter()
        ours = _replayed(case, plan)
        print(
            f"{name + ' ' + stored:45s} {theirs['mean_active']:6.1f} {ours.in_flight:6.1f}"
            f"  {_beside(theirs['decode_tok_s'], ours.decode_tok_per_s)}"
            f"   {_beside(theirs['decode_latency_s'], ours.tpot_s)}"
            f"   {_beside(theirs['prompt_latency_s'], ours.ttft_s)} {time.perf_counter() - began:5.1f}",
            flush=True,
        )


def _scorer() -> Any:
    """The scorer of the cases, as a module."""
    spec = importlib.util.spec_from_file_location("score", SHARED / "cases" / "score_placement.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _replayed(case: Mapping[str, Any], plan: Mapping[str, Any]) -> Result:
    """A stored plan under the case's own figures. As many in flight as fill the layer with the least cache up
    to FILLED, prompts weighted by how long their answers keep them."""
    isl, osl = np.loadtxt(LENGTHS).T
    held = isl + EXPECTED
    kinds, names = case["cluster"]["node_types"], case["cluster"]["nodes"]
    room = np.zeros(case["model"]["layers"])
    for i, (first, end) in plan["intervals"].items():
        layers = end - first
        kind = kinds[names[int(i)]]
        room[first:end] += kind["kv_capacity_token_layers_by_layers"][layers - 1] / layers
    in_flight = FILLED * float(room.min()) / float(held @ osl / osl.sum())
    # the event model has `osl` decode steps after the prompt's token
    requests = Requests(np.zeros(len(isl)), isl, osl + 1)
    return replay(_net(case, plan), requests, held, in_flight, WINDOW_S)


def _net(case: Mapping[str, Any], plan: Mapping[str, Any]) -> Net:
    cluster, model = case["cluster"], case["model"]
    intervals = {int(i): layers for i, layers in plan["intervals"].items()}
    index = {node: n for n, node in enumerate(intervals)}
    wires: dict[tuple[int, int], int] = {}
    chains = []
    for path, share in _paths(plan):
        hops, legs, at = list[Hop](), list[Leg](), 0
        for node in path:
            first, end = intervals[node]
            hops.append(Hop(index[node], (at - first, end - first)))
            at = end
        for a, b in pairwise(path):
            speed = 1e9 * cluster["link_bandwidth_gb_per_s"][a][b]
            wire = wires.setdefault((a, b), len(wires))
            legs.append(Leg(wire, speed, cluster["link_latency_ms"][a][b] / 1e3))
        away_s = cluster["source_latency_ms"][path[0]] / 1e3
        chains.append(Chain(share, hops, legs, away_s, cluster["sink_latency_ms"][path[-1]] / 1e3))
    activation = float(model["activation_bytes_per_token"])
    nodes = [
        _node(i, end - first, cluster["node_types"][cluster["nodes"][i]], activation)
        for i, (first, end) in intervals.items()
    ]
    return Net(
        nodes,
        [f"{a} to {b}" for a, b in wires],
        chains,
        activation + model["token_id_bytes"],
        pause_s=PAUSE_S,
    )


def _node(index: int, layers: int, kind: Mapping[str, Any], activation: float) -> Node:
    """A node by the case's tables; a lone decode takes as long as two."""
    copies_s = activation * COPIES_S / layers
    decode = [knot for knot in kind["per_layer_decode_time_s"] if knot[0] >= 2]
    prompts = kind["prompt_max_requests_per_batch"]
    return Node(
        name=str(index),
        layers=layers,
        decode=[(n, s + n * copies_s) for n, s in decode],
        prompt=[(n, s + n * copies_s) for n, s in kind["per_layer_prompt_time_s"]],
        kv_tokens=MARK * kind["kv_capacity_token_layers_by_layers"][layers - 1] / layers,
        prompt_tokens=0 if prompts == 1 else 2048 * prompts,
    )


def _paths(plan: Mapping[str, Any]) -> list[tuple[list[int], float]]:
    """A plan's shares of links, of which only the ratios at each node count, as paths: from the source along
    the fullest link, again and again."""
    left = _shares(plan)
    found = list[tuple[list[int], float]]()
    while True:
        path, share, at = list[tuple[str, str]](), math.inf, "source"
        while at != "sink":
            link = max((link for link in left if link[0] == at), key=lambda link: left[link])
            path.append(link)
            share, at = min(share, left[link]), link[1]
        if share < 1e-6:
            break
        for link in path:
            left[link] -= share
        found.append(([int(a) for a, _ in path[1:]], share))
    total = sum(share for _, share in found)
    return [(path, share / total) for path, share in found]


def _shares(plan: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """The part of all requests on each link."""
    out: dict[str, dict[str, float]] = {}
    for a, b, share in plan["route_shares"]:
        out.setdefault(str(a), {})[str(b)] = share
    through, found = {"source": 1.0}, dict[tuple[str, str], float]()
    for a in ["source", *sorted(out.keys() - {"source"}, key=lambda i: plan["intervals"][i][1])]:
        for b, share in out[a].items():
            found[a, b] = through.get(a, 0.0) * share / sum(out[a].values())
            through[b] = through.get(b, 0.0) + found[a, b]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["plans", "helix"])
    only = parser.parse_args().only
    if only != "helix":
        plans()
    if only != "plans":
        helix()


if __name__ == "__main__":
    main()

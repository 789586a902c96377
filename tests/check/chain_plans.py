"""Small sound plans of chains made by hand, as those of `plans`: nodes that hold layer intervals, hops that
run parts of them, times from a crude roofline at 60 % of peak, rates by Little's law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from model_zoo import derive
from model_zoo.schema import WEIGHT_BYTES
from planner.plans.schema import Plan
from tests.check import plans
from tests.check.plans import (
    EFFICIENCY,
    ENGINE_S,
    Scene,
    Spec,
    idle_watts,
    kv_bytes_full,
    predicted_of,
    problem,
    proof,
    times,
)

WAITING = 1.4
"""Latencies with queueing over those alone."""
BUSY = 0.7


@dataclass(frozen=True)
class Held:
    """A group: the interval that some nodes of a class hold, `copies` times each."""

    id: str
    node_class: str
    nodes: tuple[int, ...]
    layers: tuple[int, int]
    tp: int = 1
    copies: int = 1
    batch: int = 16


Way = Sequence[tuple[str, int, tuple[int, int]]]
"""Hops: (group, number of the node, layers)."""


@dataclass(frozen=True)
class Net:
    """What is asked, what nodes hold, and the chains with their shares."""

    scene: Scene
    held: Sequence[Held]
    ways: Sequence[tuple[float, Way]]
    whole: Sequence[Spec] = ()  # groups beside the chains that serve the model alone

    def group(self, name: str) -> Held:
        return next(held for held in self.held if held.id == name)

    def zone(self, node_class: str) -> str:
        zones = {node["name"]: node["zone"] for node in self.scene.cluster["nodes"]}
        return str(zones[node_class])


def weights(net: Net, held: Held) -> tuple[float, float]:
    """(bytes held by one GPU of a node, bytes of them that a step reads)."""
    card = net.scene.card
    size = WEIGHT_BYTES[card.weights.dense]
    first, end = held.layers
    layers = sum(derive.layer_params(layer, card.hidden) for layer in card.stack[first:end]) * size
    table = derive.embedding_params(card) * WEIGHT_BYTES[card.weights.embedding]
    read = layers + (table if end == len(card.stack) else 0.0)
    return (read + (table if first == 0 else 0.0)) / held.tp, read / held.tp


def kv_per_token(net: Net, held: Held) -> float:
    """Cache bytes a token takes of one GPU, in all layers that the node holds."""
    card = net.scene.card
    return kv_bytes_full(card) * (held.layers[1] - held.layers[0]) / len(card.stack) / held.tp


def step(net: Net, held: Held) -> dict[str, float]:
    """A decode step of a full batch and the prefill of a mean prompt, through all layers of the node."""
    scene, device = net.scene, net.scene.device(held.node_class)
    read = weights(net, held)[1]
    cached = held.batch * scene.context * kv_per_token(net, held)
    speed = device.memory_gb_per_s * 1e9 * EFFICIENCY
    part = (held.layers[1] - held.layers[0]) / len(scene.card.stack)
    flops = 2 * derive.active_params(scene.card, embedding=False) * part * scene.isl
    peak = max(device.tflops.get(name, 0.0) for name in ("bf16", "fp16")) * 1e12 * EFFICIENCY
    decode_s = (read + cached) / speed + ENGINE_S
    return {
        "decode_s": decode_s,
        "prefill_s": flops / (held.tp * peak) + read / speed + ENGINE_S,
        "engine_s": ENGINE_S,
    }


def used(net: Net, hop: tuple[str, int, tuple[int, int]]) -> float:
    """Part of its node's layers that a hop runs."""
    first, end = net.group(hop[0]).layers
    return (hop[2][1] - hop[2][0]) / (end - first)


def latencies(net: Net, way: Way) -> tuple[float, float]:
    """(TTFT, TPOT) of a chain: its hops and links, and as long again waiting as `WAITING` says."""
    scene = net.scene
    steps = [(step(net, net.group(hop[0])), used(net, hop)) for hop in way]
    ttft = sum(each["prefill_s"] * part for each, part in steps)
    tpot = sum(each["decode_s"] * part for each, part in steps)
    zones = [net.zone(net.group(hop[0]).node_class) for hop in way]
    for a, b in pairwise(zones):
        if a != b:
            link = scene.cluster["links"][0]
            message = scene.isl * scene.card.hidden * 2
            ttft += link["latency_ms"] / 1e3 + message / link["gb_per_s"] / 1e9
            tpot += link["latency_ms"] / 1e3
    if zones[0] != zones[-1]:
        tpot += scene.cluster["links"][0]["latency_ms"] / 1e3
    return WAITING * ttft, WAITING * tpot


def rate(net: Net) -> float:
    """Requests/s that keep every node busy for at most BUSY of its time and all in flight in its places."""
    steps, most = net.scene.osl - 1, []
    for held in net.held:
        own, room = step(net, held), held.copies
        for number in held.nodes:
            busy = flight = 0.0
            for share, way in net.ways:
                for hop in way:
                    if hop[:2] == (held.id, number):
                        ttft, tpot = latencies(net, way)
                        token = steps * own["decode_s"] / held.batch
                        busy += share * used(net, hop) * (token + own["prefill_s"])
                        flight += share * (ttft + steps * tpot)
            most.append(min(BUSY * room / busy, BUSY * held.batch * room / flight))
    return min(most)


def replica(net: Net, held: Held) -> dict[str, Any]:
    """One group in the Plan's form."""
    scene, device = net.scene, net.scene.device(held.node_class)
    capacity, stored = device.memory_gb * 1e9, scene.card.weights
    kept, activation, reserve = weights(net, held)[0], 1e9, 0.08 * capacity
    room = capacity - kept - activation - reserve
    return {
        "id": held.id,
        "role": "chain",
        "count": held.copies * len(held.nodes),
        "engine": "chains",
        "precision": {"weights": stored.dense, "experts": stored.experts, "kv": stored.kv},
        "tp": held.tp,
        "pp": 1,
        "attn_dp": 1,
        "moe_tp": held.tp,
        "ep": 1,
        "cp": 1,
        "stages": [
            {
                "device": device.name,
                "node_class": held.node_class,
                "nodes": [f"{held.node_class}-{i}" for i in held.nodes],
                "gpus": held.tp,
                "tp": held.tp,
                "layers": list(held.layers),
            }
        ],
        "max_batch": held.batch,
        "kv_tokens": int(room / kv_per_token(net, held)),
        "utilisation": BUSY,
        "step": step(net, held),
        "memory": [
            {
                "stage": 0,
                "weights_bytes": kept,
                "kv_bytes": room,
                "activation_bytes": activation,
                "reserve_bytes": reserve,
                "capacity_bytes": capacity,
            }
        ],
        "watts": 0.7 * held.tp * device.tdp_watts,
    }


def make(net: Net) -> Plan:
    """The plan in which all requests take the chains, but for those that whole replicas can serve."""
    scene, alone = net.scene, [(spec, times(net.scene, spec)) for spec in net.whole]
    own = rate(net)
    rps = own + sum(spec.count * each.rps for spec, each in alone)
    groups = [replica(net, held) for held in net.held]
    groups += [plans.replica(scene, spec, BUSY / 0.8) for spec in net.whole]
    means = [(share * own / rps, *latencies(net, way)) for share, way in net.ways]
    means += [(spec.count * each.rps / rps, each.ttft_s, each.tpot_s) for spec, each in alone]
    figures = predicted_of(
        scene,
        rps,
        ttft_s=sum(share * ttft for share, ttft, _ in means),
        tpot_s=sum(share * tpot for share, _, tpot in means),
        watts=sum(group["count"] * group["watts"] for group in groups) + idle_watts(scene, groups),
        usd=sum(node["price_usd_per_hour"] * node["count"] for node in scene.cluster["nodes"]),
        utilisation=BUSY,
    )
    chains = [
        {
            "share": share,
            "hops": [
                {"node": f"{net.group(name).node_class}-{i}", "replica": name, "layers": list(layers)}
                for name, i, layers in way
            ],
            "ttft_s": latencies(net, way)[0],
            "tpot_s": latencies(net, way)[1],
        }
        for share, way in net.ways
    ]
    ends = [(own / rps, {"chains": True})]
    ends += [(spec.count * each.rps / rps, {"replica": spec.id}) for spec, each in alone]
    return Plan.model_validate(
        {
            "meshwright_version": "0.1.0",
            "schema_version": 1,
            "problem": problem(scene),
            "replicas": groups,
            "routing": [
                {"bucket": bucket, "share": share, **end}
                for bucket in range(len(scene.buckets))
                for share, end in ends
            ],
            "chains": chains,
            "predicted": figures,
            "proof": proof(rps, "max") | {"space": UNITS},
        }
    )


def cluster(nodes: Sequence[tuple[str, str, int, int, str]]) -> dict[str, Any]:
    """Classes (name, device, nodes, GPUs a node, zone), and 1 Gbit/s between the zones a and b."""
    entries = [
        {
            "name": name,
            "count": count,
            "device": device,
            "gpus_per_node": gpus,
            "price_usd_per_hour": 1.0,
            "zone": zone,
            "nic_gb_per_s": 1.25,
        }
        for name, device, count, gpus, zone in nodes
    ]
    link = {"between": ["a", "b"], "gb_per_s": 0.125, "latency_ms": 5.0}
    return {"name": "net", "nodes": entries, "links": [link]}


UNITS = {"considered": 3, "kept": 3, "complete": True, "what": "plans made by hand"}
"""What a search for chains looks at."""


def three() -> Plan:
    """Llama-3.1-8B over an L4 and a T4 in zone a, and a 4090 in zone b that ends both chains."""
    nodes = [("l", "l4", 1, 1, "a"), ("t", "t4", 1, 1, "a"), ("r", "rtx-4090", 1, 1, "b")]
    buckets, options = [(512, 64, 0.75), (1024, 128, 0.25)], {"objective": "throughput", "gap": 0.01}
    scene = Scene(cluster(nodes), "llama-3.1-8b", buckets, options, tpot_ms=120.0)
    held = [
        Held("c1", "l", (0,), (0, 18)),
        Held("c2", "t", (0,), (0, 14)),
        Held("c3", "r", (0,), (14, 32), batch=32),
    ]
    ways = [
        (0.6, [("c1", 0, (0, 18)), ("c3", 0, (18, 32))]),
        (0.4, [("c2", 0, (0, 14)), ("c3", 0, (14, 32))]),
    ]
    return make(Net(scene, held, ways))


def twelve() -> Plan:
    """Llama-3.1-8B over two boxes of four L4 in zone a, each holding its layers twice over two GPUs, and two
    boxes of two T4 in zone b: three intervals, four chains, a T4 that others pass by."""
    nodes = [("l", "l4", 2, 4, "a"), ("t", "t4", 2, 2, "b")]
    options = {"objective": "throughput", "gap": 0.01}
    scene = Scene(cluster(nodes), "llama-3.1-8b", [(512, 128, 1.0)], options, tpot_ms=120.0)
    held = [
        Held("c1", "l", (0,), (0, 20), tp=2, copies=2),
        Held("c2", "l", (1,), (8, 24), tp=2, copies=2),
        Held("c3", "t", (0, 1), (20, 32), tp=2),
    ]
    ways = [
        (0.3, [("c1", 0, (0, 20)), ("c3", 0, (20, 32))]),
        (0.2, [("c1", 0, (0, 20)), ("c3", 1, (20, 32))]),
        (0.25, [("c1", 0, (0, 8)), ("c2", 1, (8, 24)), ("c3", 0, (24, 32))]),
        (0.25, [("c1", 0, (0, 12)), ("c2", 1, (12, 22)), ("c3", 1, (22, 32))]),
    ]
    return make(Net(scene, held, ways))


def beside() -> Plan:
    """Chains as in `three`, and an H100 that serves the model alone."""
    nodes = [("l", "l4", 1, 1, "a"), ("r", "rtx-4090", 1, 1, "b"), ("h", "h100-sxm", 1, 1, "a")]
    options = {"objective": "throughput", "gap": 0.01}
    scene = Scene(cluster(nodes), "llama-3.1-8b", [(512, 128, 1.0)], options, tpot_ms=120.0)
    held = [Held("c1", "l", (0,), (0, 16)), Held("c2", "r", (0,), (16, 32))]
    ways = [(1.0, [("c1", 0, (0, 16)), ("c2", 0, (16, 32))])]
    return make(Net(scene, held, ways, [Spec("r1", ["h"], batch=8)]))


CHAINS = {"three": three, "twelve": twelve, "beside": beside}

"""Small sound plans made by hand: sizes from the model zoo, times from a crude roofline at 60 % of peak,
rates by Little's law.

Nothing here is shared with the verifier, so that a plan found sound agrees with a second count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from cluster_configs import devices
from cluster_configs.schema import Device
from model_zoo import catalog, derive
from model_zoo.schema import WEIGHT_BYTES, ModelCard, MoeFfn
from planner.plans.schema import Plan

EFFICIENCY = 0.6
ENGINE_S = 0.001


@dataclass(frozen=True)
class Spec:
    """One group: `node_classes` one a stage, `layers` where stages are uneven."""

    id: str
    node_classes: Sequence[str]
    count: int = 1
    role: str = "mixed"
    tp: int = 1
    attn_dp: int = 1
    ep: int = 1
    batch: int = 32  # decoding sequences of one replica
    layers: Sequence[tuple[int, int]] | None = None
    precision: str | None = None

    @property
    def stage_gpus(self) -> int:
        return self.tp * self.attn_dp


@dataclass(frozen=True)
class Scene:
    """The question: cluster form, model, one bucket or more."""

    cluster: dict[str, Any]
    model: str
    buckets: Sequence[tuple[int, int, float]]
    options: dict[str, Any]
    rate_rps: float | None = None
    tpot_ms: float = 60.0

    @property
    def card(self) -> ModelCard:
        return _card(self.model)

    @property
    def isl(self) -> float:
        return sum(isl * share for isl, _, share in self.buckets)

    @property
    def osl(self) -> float:
        return sum(osl * share for _, osl, share in self.buckets)

    @property
    def context(self) -> float:
        """Mean cached tokens of a decoding sequence."""
        steps = sum((osl - 1) * share for _, osl, share in self.buckets)
        return sum((isl + osl / 2) * (osl - 1) * share for isl, osl, share in self.buckets) / steps

    def device(self, node_class: str) -> Device:
        entry = next(node for node in self.cluster["nodes"] if node["name"] == node_class)
        return devices.find(entry["device"])

    def node_names(self, node_class: str) -> list[str]:
        entry = next(node for node in self.cluster["nodes"] if node["name"] == node_class)
        return [f"{node_class}-{i}" for i in range(entry["count"])]


@cache
def _card(name: str) -> ModelCard:
    return catalog.find(name)[0]


@dataclass(frozen=True)
class Times:
    """Seconds of one replica at its batch, and the requests/s it then serves."""

    decode_s: float
    prefill_s: float
    tpot_s: float
    ttft_s: float
    rps: float


def stage_layers(scene: Scene, spec: Spec) -> list[tuple[int, int]]:
    """Half-open layer ranges of the stages, even unless said otherwise."""
    total, pp = len(scene.card.stack), len(spec.node_classes)
    return list(spec.layers or [(i * total // pp, (i + 1) * total // pp) for i in range(pp)])


def stage_weights(scene: Scene, spec: Spec, index: int) -> tuple[float, float]:
    """(bytes held by one GPU of the stage, bytes of them that a step reads at most)."""
    card = scene.card
    first, end = stage_layers(scene, spec)[index]
    size = WEIGHT_BYTES[spec.precision or card.weights.dense]
    expert_size = WEIGHT_BYTES[spec.precision or card.weights.experts]
    read = 0.0
    for layer in card.stack[first:end]:
        read += derive.common_params(layer, card.hidden) / spec.tp * size
        routed = derive.layer_params(layer, card.hidden) - derive.common_params(layer, card.hidden)
        read += routed / spec.stage_gpus * expert_size
    table = derive.embedding_params(card) / spec.tp * WEIGHT_BYTES[card.weights.embedding]
    read += table if end == len(card.stack) else 0.0
    return read + (table if first == 0 else 0.0), read


def kv_per_token(scene: Scene, spec: Spec, index: int) -> float:
    """Cache bytes a token takes of one GPU of the stage (models whose layers all cache alike)."""
    card = scene.card
    first, end = stage_layers(scene, spec)[index]
    whole = kv_bytes_full(card)
    shards = min(spec.tp, derive.kv_shards(card.stack[0].mixer))
    return whole * (end - first) / len(card.stack) / shards


def kv_bytes_full(card: ModelCard) -> float:
    """Cache bytes of a token in all layers, unsplit."""
    return float(derive.kv_bytes_per_token_full(card, card.weights.kv))


def times(scene: Scene, spec: Spec) -> Times:
    """A roofline at 60 %: a step reads all weights and the batch's cache, stage after stage."""
    step = compute = 0.0
    servers = spec.attn_dp
    for index, name in enumerate(spec.node_classes):
        device = scene.device(name)
        speed = device.memory_gb_per_s * 1e9 * EFFICIENCY
        cached = spec.batch / servers * scene.context * kv_per_token(scene, spec, index)
        step += (stage_weights(scene, spec, index)[1] + cached) / speed
        active = derive.active_params(scene.card, embedding=False) / len(spec.node_classes)
        compute += 2 * active * scene.isl / (spec.tp * device.tflops["bf16"] * 1e12 * EFFICIENCY)
    decode_s, prefill_s = step + ENGINE_S, compute + step + ENGINE_S
    prompts = spec.batch / servers / (scene.osl - 1) if spec.role == "mixed" else 0.0  # begun in each step
    tpot_s = decode_s + prompts * compute / len(spec.node_classes)
    ttft_s = 1.5 * prefill_s
    if spec.role == "prefill":
        return Times(0.0, prefill_s, 0.0, ttft_s, 0.7 * servers / prefill_s)
    rps = spec.batch / ((scene.osl - 1) * tpot_s)
    return Times(decode_s, prefill_s if spec.role == "mixed" else 0.0, tpot_s, ttft_s, rps)


def replica(scene: Scene, spec: Spec, load: float) -> dict[str, Any]:
    """One group in the Plan's form; `load`: its requests/s over what it could serve."""
    card, own = scene.card, times(scene, spec)
    memory = []
    for index, name in enumerate(spec.node_classes):
        capacity = scene.device(name).memory_gb * 1e9
        held, activation, reserve = stage_weights(scene, spec, index)[0], 2e9, 0.08 * capacity
        memory.append(
            {
                "stage": index,
                "weights_bytes": held,
                "kv_bytes": capacity - held - activation - reserve,
                "activation_bytes": activation,
                "reserve_bytes": reserve,
                "capacity_bytes": capacity,
            }
        )
    room = [part["kv_bytes"] / kv_per_token(scene, spec, part["stage"]) for part in memory]
    in_flight = own.rps * (own.ttft_s * (spec.role != "decode") + (scene.osl - 1) * own.tpot_s)
    gpus = spec.stage_gpus * len(spec.node_classes)
    stored = card.weights
    return {
        "id": spec.id,
        "role": spec.role,
        "count": spec.count,
        "engine": "vllm",
        "precision": {
            "weights": spec.precision or stored.dense,
            "experts": spec.precision or stored.experts,
            "kv": stored.kv,
        },
        "tp": spec.tp,
        "pp": len(spec.node_classes),
        "attn_dp": spec.attn_dp,
        "moe_tp": spec.stage_gpus // spec.ep,
        "ep": spec.ep,
        "cp": 1,
        "stages": [
            {
                "device": scene.device(name).name,
                "node_class": name,
                "nodes": scene.node_names(name),
                "gpus": spec.stage_gpus,
                "tp": spec.tp,
                "layers": list(layers),
            }
            for name, layers in zip(spec.node_classes, stage_layers(scene, spec), strict=True)
        ],
        "max_batch": max(1, math.ceil(in_flight)),
        "kv_tokens": math.floor(spec.attn_dp * min(room)),
        "utilisation": 0.8 * load,
        "step": {"decode_s": own.decode_s, "prefill_s": own.prefill_s, "engine_s": ENGINE_S},
        "memory": memory,
        "watts": 0.7 * gpus * scene.device(spec.node_classes[0]).tdp_watts,
    }


def nodes_in_use(scene: Scene, specs: Sequence[Spec]) -> dict[str, int]:
    """Whole nodes of each class: all replicas here have sizes that divide the node."""
    gpus: dict[str, int] = {}
    for spec in specs:
        for name in spec.node_classes:
            gpus[name] = gpus.get(name, 0) + spec.count * spec.stage_gpus
    return {name: -(-used // scene.device(name).gpus_per_node) for name, used in gpus.items()}


def idle(scene: Scene, specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """A warning for each class with GPUs that no replica takes."""
    warnings = []
    for node in scene.cluster["nodes"]:
        name, device = node["name"], scene.device(node["name"])
        taken = sum(spec.count * spec.stage_gpus * list(spec.node_classes).count(name) for spec in specs)
        if left := node["count"] * device.gpus_per_node - taken:
            reason = "no fleet was found that serves more by using them"
            message = f"{left} {device.name} idle: {reason}"
            warnings.append(
                {"code": "idle_gpus", "message": message, "class": name, "count": left, "reason": reason}
            )
    return warnings


def idle_watts(scene: Scene, groups: Sequence[dict[str, Any]]) -> float:
    """A tenth of the limit of each GPU that no replica takes."""
    watts = 0.0
    for node in scene.cluster["nodes"]:
        device = scene.device(node["name"])
        taken = sum(
            r["count"] * stage["gpus"]
            for r in groups
            for stage in r["stages"]
            if stage["node_class"] == node["name"]
        )
        gpus = node["count"] * node.get("gpus_per_node", device.gpus_per_node)
        watts += 0.1 * device.tdp_watts * (gpus - taken)
    return watts


def band(value: float) -> dict[str, float]:
    return {"value": value, "low": 0.9 * value, "high": 1.1 * value}


def make(scene: Scene, specs: Sequence[Spec]) -> Plan:
    """The plan that runs `specs`: mixed groups share all buckets by what they can serve, a pair takes what
    both can."""
    rates = {spec.id: spec.count * times(scene, spec).rps for spec in specs}
    mixed = [spec for spec in specs if spec.role == "mixed"]
    ways: list[tuple[float, list[Spec]]] = [(rates[spec.id], [spec]) for spec in mixed]
    pair = [spec for spec in specs if spec.role != "mixed"]
    if pair:
        ways.append((min(rates[spec.id] for spec in pair), sorted(pair, key=lambda s: s.role, reverse=True)))
    rps = sum(rate for rate, _ in ways)
    load = {spec.id: rate / rates[spec.id] for rate, group in ways for spec in group}
    groups = [replica(scene, spec, load[spec.id]) for spec in specs]
    document = {
        "meshwright_version": "0.1.0",
        "schema_version": 1,
        "problem": problem(scene),
        "replicas": groups,
        "routing": routing(scene, ways, rps),
        "experts": experts(scene, specs),
        "predicted": predicted(scene, specs, groups, ways),
        "prices": [],
        "warnings": idle(scene, specs),
        "alternatives": [],
    }
    rps_band = document["predicted"]["rps"]["value"]
    objective = rps_band if scene.rate_rps is None else document["predicted"]["usd_per_hour"]["value"]
    document["proof"] = proof(objective, "max" if scene.rate_rps is None else "min")
    document["proof"] |= simpler(document["proof"], objective, specs)
    return Plan.model_validate(document)


def experts(scene: Scene, specs: Sequence[Spec]) -> dict[str, Any] | None:
    """Maps of groups with ep: every rank holds the next experts, whose loads differ up to five times."""
    sizes = [layer.ffn.experts for layer in scene.card.stack if isinstance(layer.ffn, MoeFfn)]
    divided = [spec for spec in specs if spec.ep > 1]
    if not sizes or not divided:
        return None
    tokens = [[1.0 + (7 * e + layer) % 5 for e in range(n)] for layer, n in enumerate(sizes)]
    maps = []
    for spec in divided:
        held = [n // spec.ep for n in sizes]
        ranks = [[list(range(r * k, r * k + k)) for r in range(spec.ep)] for k in held]
        full = [
            spec.ep * max(sum(own[e] for e in rank) for rank in layer) / sum(own)
            for layer, own in zip(ranks, tokens, strict=True)
        ]
        mean = sum(full) / len(full)
        maps.append(
            {
                "replica": spec.id,
                "ep": spec.ep,
                "redundant": 0,
                "slots_per_rank": held[0],
                "placement": "map",
                "hottest": mean,
                "in_order": mean,
                "bound": 1.0,
                "map": ranks,
            }
        )
    return {"loads": "loads.csv", "tokens": tokens, "replicas": maps}


def problem(scene: Scene) -> dict[str, Any]:
    workload: dict[str, Any] = {
        "name": "test",
        "buckets": [{"isl": isl, "osl": osl, "share": share} for isl, osl, share in scene.buckets],
        "slo": {"ttft_ms": 3000.0, "tpot_ms": scene.tpot_ms, "percentile": "mean"},
    }
    if scene.rate_rps is not None:
        workload["rate_rps"] = scene.rate_rps
    used = [scene.device(node["name"]) for node in scene.cluster["nodes"]]
    return {
        "cluster": scene.cluster,
        "devices": {device.name: device.model_dump(mode="json", exclude_none=True) for device in used},
        "model": scene.card.model_dump(mode="json", exclude_none=True),
        "workload": workload,
        "options": scene.options,
        "defaulted": ["slo.ttft_ms"],
        "calibration": {},
    }


def routing(scene: Scene, ways: Sequence[tuple[float, list[Spec]]], rps: float) -> list[dict[str, Any]]:
    routes: list[dict[str, Any]] = []
    for bucket, (isl, _, bucket_share) in enumerate(scene.buckets):
        for rate, group in ways:
            share = rate / rps
            if len(group) == 1:
                routes.append({"bucket": bucket, "replica": group[0].id, "share": share})
                continue
            moved = rate * bucket_share * derive.kv_bytes_per_seq(scene.card, isl, scene.card.weights.kv)
            ends = {"prefill": group[0].id, "decode": group[1].id}
            routes.append({"bucket": bucket, **ends, "share": share, "kv_gb_per_s": moved / 1e9})
    return routes


def predicted(
    scene: Scene,
    specs: Sequence[Spec],
    groups: Sequence[dict[str, Any]],
    ways: Sequence[tuple[float, list[Spec]]],
) -> dict[str, Any]:
    rps = sum(rate for rate, _ in ways)
    ttft_s = (
        sum(rate * (times(scene, group[0]).ttft_s + 0.05 * (len(group) - 1)) for rate, group in ways) / rps
    )
    tpot_s = sum(rate * times(scene, group[-1]).tpot_s for rate, group in ways) / rps
    watts = sum(group["count"] * group["watts"] for group in groups) + idle_watts(scene, groups)
    prices = {node["name"]: node["price_usd_per_hour"] for node in scene.cluster["nodes"]}
    usd = sum(prices[name] * nodes for name, nodes in nodes_in_use(scene, specs).items())
    busy = max(group["utilisation"] for group in groups)
    return predicted_of(scene, rps, ttft_s, tpot_s, watts=watts, usd=usd, utilisation=busy)


def predicted_of(
    scene: Scene, rps: float, ttft_s: float, tpot_s: float, *, watts: float, usd: float, utilisation: float
) -> dict[str, Any]:
    """All figures that follow from these."""
    out = rps * scene.osl
    return {
        "out_tok_per_s": band(out),
        "total_tok_per_s": band(rps * (scene.isl + scene.osl)),
        "rps": band(rps),
        "ttft_ms": band(1e3 * ttft_s),
        "tpot_ms": band(1e3 * tpot_s),
        "utilisation": band(utilisation),
        "usd_per_hour": band(usd),
        "usd_per_mtok": band(usd / (out * 3600 / 1e6)),
        "watts": band(watts),
        "joules_per_tok": band(watts / out),
    }


CAPS = [
    {"what": "GPUs of a replica", "value": 144.0, "binds": False},
    {"what": "designs of usual sizes (powers of two)", "value": 40.0, "binds": False},
    {"what": "sequences of a server", "value": 16384.0, "binds": False},
]
"""Those that each search has."""


def proof(objective: float, sense: str) -> dict[str, Any]:
    bound = objective * (1.004 if sense == "max" else 0.996)
    return {
        "objective": objective,
        "bound": bound,
        "gap": abs(bound - objective) / objective,
        "status": "within_gap",
        "seconds": 0.4,
        "solver": "HiGHS 1.12",
        "seed": 0,
        "space": {
            "considered": 1840,
            "kept": 212,
            "complete": True,
            "what": "plans made by hand",
            "caps": CAPS,
        },
        "sense": sense,
        "unit": "req/s" if sense == "max" else "USD/h",
    }


def simpler(best: dict[str, Any], chosen: float, specs: Sequence[Spec]) -> dict[str, Any]:
    """The plan is 2 % from a best fleet of two more kinds of replica; a kind less is 20 % worse than it."""
    alike = {
        (spec.role, *spec.node_classes, spec.tp, spec.attn_dp, spec.ep, *(spec.layers or ()))
        for spec in specs
    }
    factor = 1.02 if best["sense"] == "max" else 0.98
    kinds = [{"kinds": len(alike) - 1, "objective": chosen / factor**10}] if len(alike) > 1 else []
    kinds += [{"kinds": len(alike), "objective": chosen}]
    kinds += [{"kinds": len(alike) + 2, "objective": chosen * factor}]
    own = {name: best[name] * factor for name in ("objective", "bound")}
    own |= {"chosen": chosen, "given_up": abs(factor - 1) / factor, "kinds": kinds}
    cap = {"what": "utilisation", "value": 0.98, "binds": False, "considered": 1840, "left_out": 12}
    return own | {"space": best["space"] | {"caps": [cap, *CAPS]}}


H100 = {"name": "h", "count": 2, "device": "h100-sxm", "price_usd_per_hour": 24.0, "zone": "a"}
L40S = {"name": "l", "count": 4, "device": "l40s", "nic": "roce", "price_usd_per_hour": 8.0, "zone": "b"}
LINK = {"between": ["a", "b"], "gb_per_s": 12.5, "latency_ms": 1.0}
EIGHT_B = [(1024, 256, 0.75), (4096, 512, 0.25)]


def dense() -> Plan:
    """Llama-3.1-8B on one class, two sizes of replica, two buckets, cheapest for a rate under all three
    budgets."""
    budget = {"usd_per_hour": 30.0, "gpus": 8, "watts": 6000.0}
    options = {"objective": "cost", "budget": budget, "gap": 0.01}
    scene = Scene({"name": "lab", "nodes": [H100]}, "llama-3.1-8b", EIGHT_B, options, rate_rps=20.0)
    return make(scene, [Spec("r1", ["h"], count=4), Spec("r2", ["h"], count=2, tp=2, batch=48)])


def moe() -> Plan:
    """DeepSeek-V3 in fp8: attention-dp 8 x ep 16 over two H200 nodes, 32 sequences a rank."""
    nodes = [{"name": "h", "count": 2, "device": "h200-sxm", "price_usd_per_hour": 28.0, "zone": "a"}]
    scene = Scene({"name": "moe", "nodes": nodes}, "deepseek-v3", [(2048, 512, 1.0)], {"gap": 0.01})
    return make(scene, [Spec("r1", ["h"], attn_dp=16, ep=16, batch=256)])


def pair() -> Plan:
    """Llama-3.1-8B prefilled on H100 in zone a, decoded on L40S in zone b, beside mixed replicas on what is
    left."""
    cluster = {"name": "zones", "nodes": [H100, L40S], "links": [LINK]}
    scene = Scene(cluster, "llama-3.1-8b", [(2048, 128, 1.0)], {"objective": "throughput", "gap": 0.01})
    specs = [
        Spec("p1", ["h"], count=2, role="prefill"),
        Spec("d1", ["l"], count=12, role="decode", batch=24),
        Spec("r1", ["h"], count=6),
    ]
    return make(scene, specs)


def pipeline() -> Plan:
    """Llama-3.1-70B in fp8 over unequal stages: 48 layers on four H100, 32 on four L40S, in two zones."""
    cluster = {"name": "unequal", "nodes": [H100, L40S], "links": [LINK]}
    options = {"objective": "throughput", "gap": 0.01, "precision": "fp8"}
    scene = Scene(cluster, "llama-3.1-70b", [(1024, 256, 1.0)], options)
    layers = [(0, 48), (48, 80)]
    spec = Spec("r1", ["h", "l"], count=4, tp=4, batch=24, layers=layers, precision="fp8")
    return make(scene, [spec])


def rack() -> Plan:
    """Llama-3.1-405B in fp8 on GB200 NVL72: tp 8 over two nodes of one scale-up domain, eight replicas."""
    nodes = [{"name": "g", "count": 18, "device": "gb200", "price_usd_per_hour": 40.0, "zone": "a"}]
    scene = Scene({"name": "rack", "nodes": nodes}, "llama-3.1-405b-fp8", [(1024, 256, 1.0)], {"gap": 0.01})
    return make(scene, [Spec("r1", ["g"], count=8, tp=8, batch=48)])


SOUND = {"dense": dense, "moe": moe, "pair": pair, "pipeline": pipeline, "rack": rack}


def golden() -> Plan:
    """The contract's example filled in: an unequal pipeline serves part of the load, a prefill-decode pair
    the rest."""
    cluster = {
        "name": "lab",
        "nodes": [H100 | {"count": 3}, L40S],
        "links": [LINK],
    }
    options = {"objective": "throughput", "gap": 0.01, "precision": "fp8"}
    scene = Scene(cluster, "llama-3.1-70b", [(1024, 256, 1.0)], options)
    specs = [
        Spec("r1", ["h", "l"], count=4, tp=4, batch=24, layers=[(0, 40), (40, 80)], precision="fp8"),
        Spec("p1", ["h"], count=2, role="prefill", tp=4, precision="fp8"),
        Spec("d1", ["l"], count=2, role="decode", tp=4, batch=24, precision="fp8"),
    ]
    plan = make(scene, specs)
    extras = {
        "prices": [
            {
                "limit": "gpus h100-sxm",
                "one_more": "8 GPUs (a node)",
                "worth": 3.1,
                "unit": "req/s",
                "marginal": 0.36,
            }
        ],
        "alternatives": [
            {
                "what": "no prefill/decode split",
                "objective": 0.94 * plan.proof.objective,
                "loss": 0.06,
                "why": "prefill on the same GPUs lengthens every decode step",
            }
        ],
    }
    return Plan.model_validate(plan.model_dump(by_alias=True) | extras)

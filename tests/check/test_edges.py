"""Each rule by itself, at its own edge: limits counted by hand, a figure just inside and one just beyond."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.check import budgets, memory, queueing, routing, structure, totals, transfer
from planner.check.case import Case, open_case
from planner.plans.schema import Plan
from tests.check.plans import Scene, Spec, dense, make, pair

Document = dict[str, Any]


@dataclass(frozen=True)
class Edge:
    """`edit(document, x)` puts a figure at x times its limit; that is allowed at `inside`, not `beyond`."""

    rule: ModuleType | SimpleNamespace
    make: Callable[[], Plan]
    edit: Callable[[Document, float], None]
    codes: set[str]
    inside: float = 1.01
    beyond: float = 1.03


def codes(rule: ModuleType | SimpleNamespace, document: Document) -> set[str]:
    case = open_case(Plan.model_validate(document))
    assert isinstance(case, Case), case
    return {violation.code for violation in rule.violations(case)}


def value(d: Document, name: str, new: float | None = None) -> float:
    """A predicted figure, made `new` where that is given."""
    band = d["predicted"][name]
    if new is not None:
        band |= {"value": new, "low": 0.9 * new, "high": 1.1 * new}
    return float(band["value"])


def watts_of_replicas(d: Document) -> float:
    return float(sum(r["count"] * r["watts"] for r in d["replicas"]))


def budget(name: str, used: Callable[[Document], float]) -> Callable[[Document, float], None]:
    def edit(d: Document, x: float) -> None:
        d["problem"]["options"]["budget"] = {name: used(d) / x}

    return edit


def power_cap(d: Document, x: float) -> None:
    """All eight GPUs' watts over the caps of both nodes."""
    d["problem"]["cluster"]["nodes"][0]["power_cap_watts"] = watts_of_replicas(d) / 2 / x


def feed(d: Document, x: float) -> None:
    """Eight GPUs that may draw 700 W each, and eight at rest with 4 % of that at least."""
    d["problem"]["cluster"]["power_caps_watts"] = {"h": (8 * 700 + 8 * 28) / x}


def fed_and_limited(d: Document, x: float) -> None:
    """The same where each GPU is told 600 W."""
    d["problem"]["cluster"]["power_caps_watts"] = {"a": (8 * 600 + 8 * 28) / x}
    for replica in d["replicas"]:
        replica["power_limit_watts"] = 600.0


def limit_of_a_gpu(d: Document, x: float) -> None:
    """Told x times what a GPU may draw by itself."""
    for replica in d["replicas"]:
        replica["power_limit_watts"] = 700 * x


def limit_below_the_draw(d: Document, x: float) -> None:
    """Told less than the GPUs of a replica draw on average."""
    for replica in d["replicas"]:
        gpus = sum(stage["gpus"] for stage in replica["stages"])
        replica["power_limit_watts"] = replica["watts"] / gpus / x


def told_idle(d: Document, x: float) -> None:
    """Of 16 H100 two prefill and six serve whole requests: eight idle."""
    warning = next(w for w in d["warnings"] if w["class"] == "h")
    assert warning["count"] == 8
    warning["count"] = round(8 * x)


def tokens(d: Document, x: float) -> None:
    """0.75 x 256 + 0.25 x 512 = 320 tokens out a request."""
    value(d, "out_tok_per_s", x * 320 * value(d, "rps"))
    value(d, "joules_per_tok", value(d, "watts") / value(d, "out_tok_per_s"))
    value(d, "usd_per_mtok", value(d, "usd_per_hour") / value(d, "out_tok_per_s") / 3600 * 1e6)


def money(d: Document, x: float) -> None:
    """4 x 1 and 2 x 2 GPUs fill one node of 24 USD/h."""
    value(d, "usd_per_hour", 24 / x)
    value(d, "usd_per_mtok", 24 / x / 3600 / value(d, "out_tok_per_s") * 1e6)


def watts(d: Document, x: float) -> None:
    """Eight of 16 GPUs idle at 4 % of 700 W at least."""
    value(d, "watts", (watts_of_replicas(d) + 8 * 0.04 * 700) / x)
    value(d, "joules_per_tok", value(d, "watts") / value(d, "out_tok_per_s"))


def capacity(d: Document, x: float) -> None:
    part = d["replicas"][0]["memory"][0]
    others = part["weights_bytes"] + part["activation_bytes"] + part["reserve_bytes"]
    part["kv_bytes"] = x * part["capacity_bytes"] - others


def activations(d: Document, x: float) -> None:
    """A token's hidden state is 4,096 numbers of 2 bytes."""
    group = d["replicas"][0]
    group["max_batched_tokens"] = round(x * group["memory"][0]["activation_bytes"] / 8192)


def request(d: Document, x: float) -> None:
    """The longest request holds 4,096 + 512 - 1 tokens of 131,072 bytes."""
    part = d["replicas"][0]["memory"][0]
    part["reserve_bytes"] += part["kv_bytes"] - 4607 * 131_072 / x
    part["kv_bytes"] = 4607 * 131_072 / x
    d["replicas"][0]["kv_tokens"] = 1000


def batch(d: Document, x: float) -> None:
    """Sequences that decode at once: requests/s x steps, 0.75 x 255 + 0.25 x 511, x seconds of a step."""
    group = d["replicas"][1]
    share = next(route["share"] for route in d["routing"] if route["replica"] == group["id"])
    at_once = value(d, "rps") * share * 319 * group["step"]["decode_s"]
    group["max_batch"] = 100
    group["step"]["decode_s"] *= x * group["count"] * 100 / at_once
    value(d, "tpot_ms", 1e6)
    d["problem"]["workload"]["slo"]["tpot_ms"] = None


def rate(d: Document, x: float) -> None:
    d["problem"]["workload"]["rate_rps"] = x * value(d, "rps")


def limit(d: Document, x: float) -> None:
    d["problem"]["workload"]["slo"]["tpot_ms"] = value(d, "tpot_ms") / x


def share(d: Document, x: float) -> None:
    d["routing"][0]["share"] *= x


def gpus_of_a_stage(d: Document, x: float) -> None:
    """A stage of tp 2 has two GPUs."""
    stage = d["replicas"][1]["stages"][0]
    stage["gpus"] = round(stage["gpus"] * x)


def nics(d: Document, x: float) -> None:
    """Two prefill servers of one GPU send over a NIC of 50 GB/s each; the link between zones is wide."""
    d["problem"]["cluster"]["links"][0]["gb_per_s"] = 1000
    route = next(route for route in d["routing"] if route["prefill"])
    route["kv_gb_per_s"] = x * 2 * d["problem"]["devices"]["h100-sxm"]["nic_gb_per_s"]


def near() -> Plan:
    """Llama-3.1-8B on one node: two prefill servers of one GPU, four that decode."""
    node = {"name": "h", "count": 1, "device": "h100-sxm", "gpus_per_node": 8, "price_usd_per_hour": 20.0}
    scene = Scene({"name": "box", "nodes": [node]}, "llama-3.1-8b", [(64, 128, 1.0)], {"gap": 0.01})
    specs = [
        Spec("p1", ["h"], count=2, role="prefill"),
        Spec("d1", ["h"], count=4, role="decode", batch=24),
        Spec("r1", ["h"], count=2),
    ]
    return make(scene, specs)


def scale_up(d: Document, x: float) -> None:
    """Over NVLink of 450 GB/s each."""
    route = next(route for route in d["routing"] if route["prefill"])
    route["kv_gb_per_s"] = x * 2 * d["problem"]["devices"]["h100-sxm"]["intra_gb_per_s"]


def through_the_host(d: Document, x: float) -> None:
    """Without peers and RDMA over TCP, 0.37 GB/s each."""
    d["problem"]["cluster"]["nodes"][0] |= {"peer_to_peer": False, "nic": "ethernet"}
    route = next(route for route in d["routing"] if route["prefill"])
    route["kv_gb_per_s"] = x * 2 * 0.37


def looped(d: Document, x: float) -> None:
    """Without peers over the RDMA NICs of 50 GB/s."""
    d["problem"]["cluster"]["nodes"][0]["peer_to_peer"] = False
    route = next(route for route in d["routing"] if route["prefill"])
    route["kv_gb_per_s"] = x * 2 * d["problem"]["devices"]["h100-sxm"]["nic_gb_per_s"]


def link(d: Document, x: float) -> None:
    route = next(route for route in d["routing"] if route["prefill"])
    d["problem"]["cluster"]["links"][0]["gb_per_s"] = route["kv_gb_per_s"] / x


IDLE = SimpleNamespace(violations=totals.idle)

EDGES = {
    "dollars": Edge(
        budgets,
        dense,
        budget("usd_per_hour", lambda d: value(d, "usd_per_hour")),
        {"budget_over"},
        1.0,
        1.001,
    ),
    "gpus": Edge(budgets, dense, budget("gpus", lambda d: 8), {"budget_over"}, 1.0, 8 / 7),
    "watts": Edge(budgets, dense, budget("watts", lambda d: value(d, "watts")), {"budget_over"}, 1.0, 1.001),
    "a node's watts": Edge(budgets, dense, power_cap, {"power_cap_over"}),
    "a rack's watts": Edge(budgets, dense, feed, {"feed_over"}, 1.0, 1.00001),
    "a rack's watts under limits": Edge(budgets, dense, fed_and_limited, {"feed_over"}, 1.0, 1.00001),
    "a GPU's limit": Edge(budgets, dense, limit_of_a_gpu, {"limit_over"}, 1.0, 1.00001),
    "watts under a limit": Edge(budgets, dense, limit_below_the_draw, {"limit_over"}),
    "idle GPUs": Edge(
        SimpleNamespace(violations=totals.idle), pair, told_idle, {"idle_not_told"}, 1.0, 9 / 8
    ),
    "tokens": Edge(totals, dense, tokens, {"totals"}, 1.0005, 1.002),
    "nodes paid for": Edge(totals, dense, money, {"cost_understated"}, 1.0005, 1.002),
    "idle watts": Edge(totals, dense, watts, {"watts_understated"}, 1.0005, 1.002),
    "capacity": Edge(memory, dense, capacity, {"memory_over"}, 1.0, 1.00001),
    "activations": Edge(memory, dense, activations, {"activations_understated"}),
    "one request": Edge(memory, dense, request, {"request_over"}),
    "a batch": Edge(queueing, dense, batch, {"batch_over"}),
    "the rate": Edge(queueing, dense, rate, {"rate_not_served"}, 1.0, 1.001),
    "a limit": Edge(queueing, dense, limit, {"slo_missed"}),
    "shares": Edge(routing, dense, share, {"shares"}, 1.0, 1.00001),
    "GPUs of a stage": Edge(structure, dense, gpus_of_a_stage, {"stage_gpus"}, 1.0, 2.0),
    "NICs": Edge(transfer, pair, nics, {"nic_over"}),
    "scale-up links": Edge(transfer, near, scale_up, {"inside_over"}),
    "copies through the host": Edge(transfer, near, through_the_host, {"inside_over"}),
    "NICs inside a node": Edge(transfer, near, looped, {"nic_over"}),
    "a link": Edge(transfer, pair, link, {"link_over"}),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_figure_is_allowed_up_to_its_edge_and_not_beyond(name: str) -> None:
    edge = EDGES[name]
    for x, expected in ((edge.inside, set()), (edge.beyond, edge.codes)):
        document = edge.make().model_dump(mode="json", by_alias=True)
        edge.edit(document, x)

        assert codes(edge.rule, document) == expected, f"at {x} times the limit"

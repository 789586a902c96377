"""The verifier on replicas whose stages differ in class, layers and tp: the planner's own plan is sound, and
each way to bend it is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from planner import api
from planner.check import check
from planner.plans.schema import Plan
from tests.check.mutations import rescale_band
from tests.check.plans import pipeline

Document = dict[str, Any]


@cache
def written(source: str) -> str:
    """`planned`: Qwen3-32B in fp8 over a 3090 and a 4090 of two zones, as `plan` answers. `by_hand`:
    Llama-3.1-70B in fp8 over four H100 and four L40S of two zones."""
    if source == "by_hand":
        return pipeline().model_dump_json(by_alias=True)
    nodes = [
        {"name": "a", "device": "rtx-3090", "gpus_per_node": 1, "zone": "x"},
        {"name": "b", "device": "rtx-4090", "gpus_per_node": 1, "zone": "y"},
    ]
    link = {"between": ["x", "y"], "gb_per_s": 0.6, "latency_ms": 0.1}
    cluster = resolve(Cluster.model_validate({"nodes": nodes, "links": [link]}))
    plan = api.plan(cluster, "qwen3-32b-fp8", tpot_ms="none", ttft_ms="none", work_limit=1000, explain=False)
    return plan.model_dump_json(by_alias=True)


def document(source: str) -> Document:
    found: Document = json.loads(written(source))
    return found


def codes(found: Document) -> set[str]:
    return {violation.code for violation in check(Plan.model_validate(found))}


def stages(d: Document) -> Any:
    return d["replicas"][0]["stages"]


def devices_swapped(d: Document) -> None:
    first, second = stages(d)
    first["device"], second["device"] = second["device"], first["device"]


def nodes_swapped(d: Document) -> None:
    """Of two stages, class and device stay."""
    first, second = stages(d)
    first["nodes"], second["nodes"] = second["nodes"], first["nodes"]


def memory_swapped(d: Document) -> None:
    first, second = d["replicas"][0]["memory"]
    first["stage"], second["stage"] = second["stage"], first["stage"]


def layers_moved(d: Document) -> None:
    """A tenth of all layers from one stage to the other; memory still speaks of the old ones."""
    first, second = stages(d)
    tenth = second["layers"][1] // 10
    first["layers"][1] = second["layers"][0] = first["layers"][1] + tenth


def layer_left_out(d: Document) -> None:
    stages(d)[1]["layers"][0] += 1


def layer_run_twice(d: Document) -> None:
    stages(d)[0]["layers"][1] += 1


def stage_left_out(d: Document) -> None:
    d["replicas"][0]["stages"].pop()
    d["replicas"][0]["memory"].pop()


def stage_left_out_everywhere(d: Document) -> None:
    stage_left_out(d)
    d["replicas"][0]["pp"] = 1


def thin_link(d: Document) -> None:
    d["problem"]["cluster"]["links"][0]["gb_per_s"] = 1e-5


def far_link(d: Document) -> None:
    d["problem"]["cluster"]["links"][0]["latency_ms"] = 500.0


def no_link(d: Document) -> None:
    d["problem"]["cluster"]["links"] = []


def thin_nics(d: Document) -> None:
    for node in d["problem"]["cluster"]["nodes"]:
        node["nic_gb_per_s"] = 1e-5


def faster_than_both(d: Document) -> None:
    """As if the stage with more bandwidth ran all layers."""
    d["replicas"][0]["step"]["decode_s"] *= 0.3


def twice_on_the_smaller(d: Document) -> None:
    """Both stages on the second's nodes."""
    for field in ("device", "node_class", "nodes"):
        stages(d)[0][field] = copy.deepcopy(stages(d)[1][field])


def idle_for_the_other(d: Document) -> None:
    """Eight more replicas than there are nodes of either class."""
    d["replicas"][0]["count"] += 8


BENT: dict[Callable[[Document], None], set[str]] = {
    devices_swapped: {"wrong_device"},
    nodes_swapped: {"unknown_node"},
    memory_swapped: {"capacity_over", "weights_understated", "kv_tokens_over"},
    layers_moved: {"weights_understated"},
    layer_left_out: {"layers_gap"},
    layer_run_twice: {"layers_overlap"},
    stage_left_out: {"stage_count"},
    stage_left_out_everywhere: {"layers_not_covered"},
    thin_link: {"link_over"},
    far_link: {"decode_below_roofline"},
    no_link: {"no_link"},
    thin_nics: {"nic_over"},
    faster_than_both: {"decode_below_roofline"},
    twice_on_the_smaller: {"gpus_double_booked", "capacity_over"},
    idle_for_the_other: {"gpus_double_booked", "no_packing"},
}


@pytest.mark.parametrize("source", ["planned", "by_hand"])
def test_stages_on_two_classes_are_sound(source: str) -> None:
    found = document(source)

    assert len({stage["node_class"] for stage in stages(found)}) == 2
    assert codes(found) == set()


@pytest.mark.parametrize("bend", BENT, ids=lambda bend: bend.__name__)
@pytest.mark.parametrize("source", ["planned", "by_hand"])
def test_a_bent_replica_is_named(source: str, bend: Callable[[Document], None]) -> None:
    found = document(source)
    bend(found)

    assert codes(found) & BENT[bend]


def test_a_link_carries_all_tokens_between_two_stages() -> None:
    """By hand: (1,024 + 255) tokens x 8,192 x 2 bytes a request, one way; the NICs carry them too."""
    found = document("by_hand")
    flow = found["predicted"]["rps"]["value"] * (1024 + 255) * 8192 * 2 / 1e9
    for scale, expected in ((1.03, False), (0.97, True)):
        found["problem"]["cluster"]["links"][0]["gb_per_s"] = scale * flow
        assert ("link_over" in codes(found)) is expected
    for node in found["problem"]["cluster"]["nodes"]:
        node["nic_gb_per_s"] = 0.97 * flow / 16  # four replicas, four GPUs a stage

    assert "nic_over" in codes(found)


def uneven(found: Document) -> Document:
    """The second stage over eight L40S instead of four: each holds half as much."""
    replica = found["replicas"][0]
    replica.update(tp=8, moe_tp=8)
    stages(found)[1].update(tp=8, gpus=8)
    part = replica["memory"][1]
    part["weights_bytes"] /= 2
    part["reserve_bytes"] += part["weights_bytes"]
    watts = sum(r["count"] * r["watts"] for r in found["replicas"][1:])
    replica["watts"] = (found["predicted"]["watts"]["value"] - watts) / replica["count"]  # no GPU is idle now
    for name in ("usd_per_hour", "usd_per_mtok"):
        rescale_band(found["predicted"][name], 80 / 64)  # two more nodes of 8 USD/h
    found["warnings"] = [warning for warning in found["warnings"] if warning["class"] != "l"]
    return found


def test_stages_of_unequal_tp_need_a_warning() -> None:
    """No stock engine starts them, so a plan must say so itself."""
    found = uneven(document("by_hand"))
    assert codes(found) == {"stage_tp"}
    found["warnings"].append({"code": "uneven_tp", "message": "no stock engine starts it"})

    assert codes(found) == set()


def test_the_warning_excuses_nothing_else() -> None:
    told = {"code": "uneven_tp", "message": "no stock engine starts it"}
    narrow, halves, odd = (uneven(document("by_hand")) for _ in range(3))
    narrow["replicas"][0].update(tp=4, moe_tp=4)  # not the widest
    stages(halves)[1]["gpus"] = 4
    stages(odd)[1].update(tp=6, gpus=6)
    odd["replicas"][0].update(tp=6, moe_tp=6)
    for found in (narrow, halves, odd):
        found["warnings"].append(told)

    assert codes(narrow) == {"stage_tp"}
    assert "stage_gpus" in codes(halves)
    assert "heads_not_divisible" in codes(odd)

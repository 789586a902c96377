"""The verifier on weights beside the GPUs: plans with them are sound, and each way to bend one is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster
from model_zoo.schema import MoeFfn
from planner import api
from planner.check import check, tiers
from planner.check.case import Case, open_case
from planner.check.tier_node import met_share, missed_share
from planner.cost.expert_tiers import missed, rest_touched
from planner.plans.schema import Plan

Document = dict[str, Any]

HOST = {"memory_gb": 128, "gb_per_s": 90, "tflops": 2, "pcie_gb_per_s": 32}
DISK = {"kind": "nvme", "gb": 2000, "read_gb_per_s": 7, "write_gb_per_s": 5}
CXL = {"kind": "cxl", "gb": 128, "read_gb_per_s": 40, "write_gb_per_s": 30}
SMALL = {"device": "rtx-a6000", "host": HOST | {"memory_gb": 64}, "nic_gb_per_s": 1.25}
CASES: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "experts": ("gpt-oss-120b", None, {"host": HOST}),
    "layers": ("llama-3.1-70b", "int4_wo", {"host": HOST}),
    "disk": ("gpt-oss-120b", None, {"host": HOST | {"memory_gb": 32}, "tiers": [DISK]}),
    "streamed": (
        "llama-3.1-405b-fp8",
        None,
        {"host": HOST | {"memory_gb": 480, "gb_per_s": 512, "pcie_gb_per_s": 450}, "device": "gh200-96gb"},
    ),
    "streamed two": ("qwen3-30b-a3b", None, {"host": HOST, "device": "l4", "gpus_per_node": 2}),
    "cxl": ("gpt-oss-120b", None, {"host": HOST | {"memory_gb": 64}, "tiers": [CXL]}),
    "cxl layers": ("llama-3.1-70b", "int4_wo", {"host": HOST, "tiers": [CXL]}),
    "cxl streamed": ("qwen3-30b-a3b", None, {"host": HOST, "device": "l4", "tiers": [CXL]}),
    "unified": ("deepseek-v3", "int4_wo", {"device": "gb10", "tiers": [DISK]}),
    "over nodes": ("qwen3-235b-a22b", "int4_wo", SMALL | {"count": 4}),
    "layers over nodes": ("llama-3.1-405b", "int4_wo", SMALL | {"count": 4}),
    "two": ("qwen3-235b-a22b", "int4_wo", {"host": HOST, "gpus_per_node": 2}),
}


@cache
def written(name: str) -> str:
    model, precision, node = CASES[name]
    engine = "vllm" if name in ("streamed two", "cxl streamed") else "any"
    form: Document = {"nodes": [{"name": "box", "device": "rtx-4090", "gpus_per_node": 1, **node}]}
    form["device_overrides"] = {"rtx-a6000": {"memory_gb": 16}} if node.get("device") == "rtx-a6000" else {}
    cluster = resolve(Cluster.model_validate(form))
    asked = {"precision": precision, "engine": engine, "work_limit": 1000}
    return api.plan(cluster, model, **asked, explain=False).model_dump_json(by_alias=True)


def document(name: str) -> Document:
    found: Document = json.loads(written(name))
    return found


def codes(found: Document) -> set[str]:
    return {violation.code for violation in check(Plan.model_validate(found))}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_with_weights_beside_its_gpus_is_sound(name):
    found = document(name)

    assert codes(found) == set()
    assert found["tiers"]
    assert sum(found["replicas"][0]["step"]["by"].values()) == pytest.approx(
        found["replicas"][0]["step"]["decode_s"], rel=1e-6
    )


def test_the_cases_are_what_they_are_named_for():
    assert {t["what"] for t in document("experts")["tiers"]} == {"experts"}
    assert {t["what"] for t in document("layers")["tiers"]} == {"layers"}
    assert {t["what"] for t in document("streamed")["tiers"]} == {"weights"}
    for name in ("cxl", "cxl layers", "cxl streamed"):
        assert {t["tier"] for t in document(name)["tiers"]} == {"host", "cxl"}
    for name in ("over nodes", "layers over nodes"):
        assert len({stage["nodes"][0] for stage in document(name)["replicas"][0]["stages"]}) > 1
        assert len({t["stage"] for t in document(name)["tiers"]}) > 1
    assert {t["tier"] for t in document("unified")["tiers"]} == {"host", "nvme"}
    assert document("streamed two")["replicas"][0]["tp"] == 2
    assert {t["tier"] for t in document("disk")["tiers"]} == {"host", "nvme"}
    assert document("two")["replicas"][0]["pp"] * document("two")["replicas"][0]["tp"] == 2


def nothing_away(d: Document) -> None:
    d["tiers"] = []


def fewer_layers(d: Document) -> None:
    """Five layers' experts are nowhere."""
    first, end = d["tiers"][0]["layers"][0]
    d["tiers"][0]["layers"][0] = [first, end - 5]


def fewer_bytes(d: Document) -> None:
    d["tiers"][0]["bytes"] *= 0.8


def more_bytes(d: Document) -> None:
    d["tiers"][0]["bytes"] *= 3


def twice(d: Document) -> None:
    d["tiers"].append(d["tiers"][0])


def beyond_the_model(d: Document) -> None:
    d["tiers"][0]["layers"].append([500, 501])


def of_another_group(d: Document) -> None:
    d["tiers"][0]["replica"] = "r9"


def little_memory(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["host"]["memory_gb"] = 16


def no_host(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["host"] = None


def small_disk(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["tiers"][0]["gb"] = 1


def slow_memory(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["host"]["gb_per_s"] /= 10


def slow_disk(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["tiers"][0]["read_gb_per_s"] /= 100


def slow_cxl(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["tiers"][0]["read_gb_per_s"] /= 10


def small_cxl(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["tiers"][0]["gb"] = 5


def no_cxl(d: Document) -> None:
    """What lay there is nowhere."""
    d["tiers"] = [part for part in d["tiers"] if part["tier"] != "cxl"]


def larger_gpus(d: Document) -> None:
    """The GPU takes all of the memory that it shares."""
    for held in d["replicas"][0]["memory"]:
        held["capacity_bytes"] = 128e9


def of_another_node(d: Document) -> None:
    """What lies behind one stage is said to lie behind another."""
    part = next(part for part in d["tiers"] if part["stage"] is not None)
    part["stage"] = 1 - part["stage"] if part["stage"] < 2 else 0


def experts_behind_another(d: Document) -> None:
    """Experts in another node's memory than their layers."""
    part = next(part for part in d["tiers"] if part["stage"] is not None and part["what"] == "experts")
    part["stage"] -= 1


def behind_no_stage(d: Document) -> None:
    next(part for part in d["tiers"] if part["stage"] is not None)["stage"] = 9


def nothing_behind(d: Document) -> None:
    """Layers of the other nodes' memories are nowhere."""
    d["tiers"] = [part for part in d["tiers"] if part["stage"] is None]


def one_layer_fewer_behind(d: Document) -> None:
    part = next(part for part in d["tiers"] if part["stage"] is not None and part["what"] == "layers")
    first, end = part["layers"][0]
    part["layers"][0] = [first, end - 1]


def all_in_the_first_memory(d: Document) -> None:
    for part in d["tiers"]:
        part["stage"] = None


def slow_link(d: Document) -> None:
    d["problem"]["cluster"]["nodes"][0]["host"]["pcie_gb_per_s"] /= 2


def full_host(d: Document) -> None:
    """A figure above host memory, below host and GPU."""
    d["problem"]["cluster"]["nodes"][0]["host"]["memory_gb"] = 300


def computed_on_the_cpu(d: Document) -> None:
    d["tiers"][0]["way"] = "cpu"


def on_disk(d: Document) -> None:
    d["tiers"][0]["tier"] = "nvme"


def as_layers(d: Document) -> None:
    """As if their cache and compute had left the GPU, too."""
    d["tiers"][0]["what"] = "layers"


def moved_up(d: Document) -> None:
    """As many layers, but not those that the options name."""
    d["tiers"][0]["layers"] = [[0, sum(end - first for first, end in d["tiers"][0]["layers"])]]


def more_cache(d: Document) -> None:
    """The cache of some layers only."""
    d["replicas"][0]["kv_tokens"] *= 1.5


def quick_step(d: Document) -> None:
    """Every stated time a fifth, so that they agree."""
    step = d["replicas"][0]["step"]
    for name in ("decode_s", "prefill_s", "engine_s"):
        step[name] /= 5
    step["by"] = {k: v / 5 for k, v in step["by"].items()}


def parts_that_do_not_add_up(d: Document) -> None:
    d["replicas"][0]["step"]["by"]["host memory bandwidth"] *= 0.5


def engine_that_cannot(d: Document) -> None:
    d["replicas"][0]["engine"] = "trtllm"


def engine_that_streams(d: Document) -> None:
    d["replicas"][0]["engine"] = "vllm"


def engine_that_computes(d: Document) -> None:
    d["replicas"][0]["engine"] = "llama.cpp"


def layers_in_the_middle(d: Document) -> None:
    """The layers on the host are no longer the first ones."""
    first, end = d["tiers"][0]["layers"][0]
    d["tiers"][0]["layers"][0] = [first + 1, end + 1]


@pytest.mark.parametrize(
    ("name", "bend", "code"),
    [
        ("experts", nothing_away, "weights_understated"),
        ("experts", fewer_layers, "weights_understated"),
        ("experts", fewer_bytes, "tier_bytes_wrong"),
        ("experts", more_bytes, "tier_bytes_wrong"),
        ("experts", twice, "tier_twice"),
        ("experts", beyond_the_model, "layers_outside"),
        ("experts", of_another_group, "unknown_replica"),
        ("experts", little_memory, "tier_over"),
        ("experts", no_host, "tier_over"),
        ("experts", slow_memory, "decode_below_tiers"),
        ("experts", quick_step, "decode_below_tiers"),
        ("experts", parts_that_do_not_add_up, "step_parts"),
        ("experts", engine_that_cannot, "tier_engine"),
        ("layers over nodes", of_another_node, "layers_gap"),
        ("layers over nodes", behind_no_stage, "layers_gap"),
        ("layers over nodes", nothing_behind, "layers_gap"),
        ("layers over nodes", one_layer_fewer_behind, "layers_gap"),
        ("layers over nodes", all_in_the_first_memory, "layers_overlap"),
        ("layers over nodes", slow_memory, "decode_below_tiers"),
        ("layers over nodes", little_memory, "tier_over"),
        ("over nodes", experts_behind_another, "tier_layers"),
        ("over nodes", slow_memory, "decode_below_tiers"),
        ("over nodes", engine_that_cannot, "tier_nodes"),
        ("over nodes", little_memory, "tier_over"),
        ("cxl", slow_cxl, "decode_below_tiers"),
        ("cxl", small_cxl, "tier_over"),
        ("cxl", no_cxl, "weights_understated"),
        ("cxl layers", no_cxl, "tier_layers"),
        ("cxl streamed", slow_cxl, "decode_below_tiers"),
        ("cxl streamed", no_cxl, "tier_layers"),
        ("unified", larger_gpus, "tier_over"),
        ("unified", slow_disk, "decode_below_tiers"),
        ("experts", engine_that_streams, "tier_engine"),
        ("streamed", nothing_away, "weights_understated"),
        ("streamed", fewer_layers, "weights_understated"),
        ("streamed", fewer_bytes, "tier_bytes_wrong"),
        ("streamed", more_bytes, "tier_bytes_wrong"),
        ("streamed", twice, "tier_layers"),
        ("streamed", moved_up, "tier_layers"),
        ("streamed", computed_on_the_cpu, "tier_layers"),
        ("streamed", on_disk, "tier_over"),
        ("streamed", as_layers, "layers_overlap"),
        ("streamed", beyond_the_model, "layers_outside"),
        ("streamed", full_host, "tier_over"),
        ("streamed", no_host, "tier_over"),
        ("streamed", more_cache, "kv_tokens_over"),
        ("streamed", slow_link, "decode_below_tiers"),
        ("streamed", slow_memory, "decode_below_tiers"),
        ("streamed", quick_step, "decode_below_tiers"),
        ("streamed", quick_step, "prefill_below_tiers"),
        ("streamed", engine_that_computes, "tier_engine"),
        ("streamed two", slow_link, "decode_below_tiers"),
        ("streamed two", fewer_bytes, "tier_bytes_wrong"),
        ("layers", nothing_away, "layers_gap"),
        ("layers", fewer_layers, "layers_gap"),
        ("layers", layers_in_the_middle, "layers_overlap"),
        ("layers", twice, "tier_layers"),
        ("layers", slow_memory, "decode_below_tiers"),
        ("disk", small_disk, "tier_over"),
        ("disk", slow_disk, "decode_below_tiers"),
        ("two", twice, "tier_twice"),
        ("two", little_memory, "tier_over"),
    ],
)
def test_a_bent_plan_is_refused(name: str, bend: Callable[[Document], None], code: str):
    found = document(name)
    bend(found)

    assert code in codes(found)


@pytest.mark.parametrize(("factor", "expected"), [(0.985, set()), (0.975, {"tier_bytes_wrong"})])
def test_experts_weigh_what_their_matrices_do(factor: float, expected: set[str]):
    """By hand: 128 experts a layer of three 2,880 x 2,880 matrices of 4.25 bits; 2 % may be missing."""
    found = document("experts")
    for part in found["tiers"]:
        layers = sum(end - first for first, end in part["layers"])
        part["bytes"] = factor * part["share"] * layers * 128 * 3 * 2880**2 * 4.25 / 8

    case = open_case(Plan.model_validate(found))
    assert isinstance(case, Case)
    assert {violation.code for violation in tiers.violations(case)} == expected


def test_a_prompt_is_no_quicker_than_its_experts_are_read():
    found = document("experts")
    found["replicas"][0]["step"]["prefill_s"] /= 10

    assert "prefill_below_tiers" in codes(found)


def test_popularity_is_counted_twice_and_agrees():
    """The verifier's own formulas against the cost model's."""
    ffn, tokens = MoeFfn(experts=128, top_k=4, inner=64), np.array([1.0, 16.0, 500.0])
    for away in (1.0, 0.7, 0.2):
        held = np.full(3, 128 * (1 - away))
        ours = [128 * met_share(ffn, t, away) for t in tokens]
        assert ours == pytest.approx(rest_touched(128, 4, tokens, held).tolist())
        theirs = missed(128, 4, tokens, np.full(3, 1 - away)).tolist()
        assert [128 * missed_share(ffn, t, away) for t in tokens] == pytest.approx(theirs)

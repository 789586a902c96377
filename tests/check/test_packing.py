"""Replicas on nodes and scale-up domains, from 8 GPUs to 80,000."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.check import packing
from planner.check.case import Case, open_case
from planner.plans.schema import Plan
from tests.check.plans import dense, rack


def case_of(base: Plan, nodes: dict[str, Any], groups: list[tuple[int, int, int]]) -> Case:
    """`base` on other nodes, with groups (count, tp, attn_dp) allowed on all of them."""
    data = json.loads(base.model_dump_json(by_alias=True))
    entry = data["problem"]["cluster"]["nodes"][0]
    entry.update(nodes)
    model = data["replicas"][0]
    data["replicas"] = []
    for number, (count, tp, attn_dp) in enumerate(groups):
        stage = model["stages"][0] | {"gpus": tp * attn_dp, "tp": tp}
        stage["nodes"] = [f"{entry['name']}-{i}" for i in range(entry["count"])]
        sizes = {"count": count, "tp": tp, "attn_dp": attn_dp, "moe_tp": tp * attn_dp}
        data["replicas"].append(model | sizes | {"id": f"r{number}", "stages": [stage]})
    case = open_case(Plan.model_validate(data))
    assert isinstance(case, Case)
    return case


def codes(case: Case) -> list[str]:
    return [violation.code for violation in packing.violations(case)]


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ([(4, 4, 1)], []),
        ([(5, 4, 1)], ["gpus_double_booked"]),
        ([(2, 5, 1)], []),
        ([(3, 5, 1)], ["no_packing"]),  # 15 of 16 GPUs, but 5 + 5 > 8
        ([(2, 5, 1), (2, 3, 1)], []),
        ([(2, 6, 1), (1, 4, 1)], ["no_packing"]),  # 16 of 16 GPUs
        ([(1, 1, 16)], []),  # attention-dp over both nodes
        ([(1, 1, 16), (1, 1, 1)], ["gpus_double_booked"]),
        ([(1, 16, 1)], ["tp_across_domains", "no_packing"]),
    ],
)
def test_two_nodes_of_eight(groups: list[tuple[int, int, int]], found: list[str]) -> None:
    assert codes(case_of(dense(), {"count": 2}, groups)) == found


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ([(9, 8, 1)], []),  # nine pairs of 4-GPU nodes in one domain of 18
        ([(10, 8, 1)], ["gpus_double_booked"]),
        ([(1, 72, 1)], []),
        ([(2, 32, 1), (2, 4, 1)], []),
        ([(2, 36, 1)], []),
        ([(3, 20, 1), (1, 12, 1)], []),
        ([(3, 24, 1), (1, 1, 1)], ["gpus_double_booked"]),
    ],
)
def test_one_rack_of_72(groups: list[tuple[int, int, int]], found: list[str]) -> None:
    assert codes(case_of(rack(), {}, groups)) == found


def test_a_tensor_parallel_group_does_not_span_two_racks() -> None:
    """Two racks of 18 nodes: three groups of 40 GPUs are 120 of 144, but a rack takes one (10 of 18
    nodes)."""
    two = {"count": 36}

    assert codes(case_of(rack(), two, [(2, 40, 1)])) == []
    assert codes(case_of(rack(), two, [(3, 40, 1)])) == ["no_packing"]


def test_nvlink_pairs_inside_a_node_hold_two() -> None:
    pairs = {"count": 2, "scale_up_gpus": 2}

    assert codes(case_of(dense(), pairs, [(8, 2, 1)])) == []
    assert codes(case_of(dense(), pairs, [(9, 2, 1)])) == ["gpus_double_booked"]
    assert codes(case_of(dense(), pairs, [(1, 4, 1)])) == ["tp_across_domains", "no_packing"]


def test_ten_thousand_nodes_are_packed_exactly() -> None:
    many = {"count": 10_000}

    assert codes(case_of(dense(), many, [(5_000, 8, 1), (10_000, 4, 1)])) == []
    assert codes(case_of(dense(), many, [(5_000, 8, 1), (10_001, 4, 1)])) == ["gpus_double_booked"]
    assert codes(case_of(dense(), many, [(10_000, 5, 1), (10_001, 3, 1)])) == ["gpus_double_booked"]


def test_the_nodes_a_plan_needs_are_counted_whole() -> None:
    case = case_of(dense(), {"count": 9}, [(3, 5, 1), (1, 4, 1)])

    assert packing.nodes_used(case, case.cluster.classes[0]) == 4

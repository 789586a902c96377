"""A plan's expert map reaches the engine in the engine's own file."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from ruamel.yaml import YAML

from planner.launch import launched
from planner.plans.schema import ExpertMap, Experts
from tests.exporters.samples import made, replica

MOE = range(3, 61)
"""DeepSeek-V3's layers with experts."""


def placed(engine, ragged=False, redundant=8):
    """One replica over eight ranks, whose experts stand backwards, its copies those of the first ones."""
    r = replica("r1", engine, tp=8, ep=8, redundant_experts=redundant)
    in_slots = [*reversed(range(256)), *range(redundant)]
    each = -(-len(in_slots) // 8)
    ranks = [in_slots[i * each : (i + 1) * each] for i in range(8)]
    if ragged:
        ranks[0], ranks[1] = ranks[0][:-1], [ranks[0][-1], *ranks[1]]
    entry = ExpertMap(
        replica="r1",
        ep=8,
        redundant=redundant,
        slots_per_rank=each,
        placement="map",
        hottest=1.01,
        in_order=1.5,
        map=[ranks] * len(MOE),
    )
    plan = made(r).model_copy(update={"experts": Experts(loads="recorded", replicas=[entry])})
    return launched(plan).replicas[0].launch, in_slots


def test_sglang_reads_the_slots_of_every_layer_and_its_balancer_leaves_them():
    launch, slots = placed("sglang")
    name = launch.argv[launch.argv.index("--init-expert-location") + 1]
    rows = json.loads(launch.files[name])["physical_to_logical_map"]

    assert len(rows) == 61
    assert rows[3] == rows[60] == slots
    assert rows[2] == [*range(256), *range(8)]  # no experts there: in order
    assert "--enable-eplb" not in launch.argv


def test_tensorrt_llm_reads_the_layers_with_experts_and_updates_none():
    launch, slots = placed("trtllm")
    args = YAML(typ="safe").load(StringIO(launch.files["r1.yaml"]))
    told = YAML(typ="safe").load(StringIO(launch.files[args["moe_config"]["load_balancer"]]))

    assert told["num_slots"] == 264
    assert told["layer_updates_per_iter"] == 0
    assert list(told["initial_global_assignments"]) == list(MOE)
    assert told["initial_global_assignments"][3] == slots


@pytest.mark.parametrize(("engine", "says"), [("sglang", "--enable-eplb"), ("trtllm", "num_slots: 264")])
def test_a_map_of_unequal_slots_is_left_to_the_engines_balancer(engine, says):
    launch, _ = placed(engine, ragged=True)

    assert not any("experts" in name for name in launch.files)
    assert says in " ".join([*launch.argv, *launch.files.values()])


@pytest.mark.parametrize(("redundant", "says"), [(8, "finds one while it serves"), (0, "in order")])
def test_vllm_says_that_it_takes_no_map(redundant, says):
    launch, _ = placed("vllm", redundant=redundant)

    assert any(says in note for note in launch.notes)
    assert not launch.files

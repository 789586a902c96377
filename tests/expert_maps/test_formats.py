"""Maps as files: read back as they were written, and as the engines read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from planner.errors import InputError
from planner.expert_maps.formats import read_map, written
from planner.expert_maps.schema import ExpertMap
from planner.inputs.expert_loads import ExpertLoads

PLACE = [[[0, 1, 2], [3, 0, 1]], [[3, 2, 2], [1, 0, 3]]]
MADE = ExpertMap("some-moe", (1, 2), 4, (2,), PLACE, (1.0, 1.1), (1.0, 1.0), model_layers=4)
LOADS = ExpertLoads(np.ones((1, 2, 4)), (1, 2))
UNNUMBERED = ExpertLoads(np.ones((1, 2, 4)))


def file(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


@pytest.mark.parametrize("form", ["meshwright", "sglang"])
def test_what_is_written_reads_back(tmp_path: Path, form: Any) -> None:
    assert read_map(file(tmp_path / "map.json", written(MADE, form)), LOADS, 2) == PLACE


def test_sglang_gets_a_row_for_every_layer_and_no_other_key() -> None:
    """Its loader passes all keys on as arguments, so that another one would be an error."""
    data = json.loads(written(MADE, "sglang"))

    assert data == {
        "physical_to_logical_map": [
            [0, 1, 2, 3, 0, 1],  # no experts: in order, as SGLang starts
            [0, 1, 2, 3, 0, 1],
            [3, 2, 2, 1, 0, 3],
            [0, 1, 2, 3, 0, 1],
        ]
    }


def test_tensorrt_llm_gets_slots_by_layer() -> None:
    data = YAML(typ="safe").load(written(MADE, "trtllm"))

    assert data == {
        "num_slots": 6,
        "layer_updates_per_iter": 0,
        "initial_global_assignments": {1: [0, 1, 2, 3, 0, 1], 2: [3, 2, 2, 1, 0, 3]},
    }


@pytest.mark.parametrize("form", ["sglang", "trtllm"])
def test_engines_take_equal_slots_only(form: Any) -> None:
    uneven = ExpertMap(None, (0,), 2, (2,), [[[0, 1], [0]]])

    with pytest.raises(InputError, match="equal slots"):
        written(uneven, form)


@pytest.mark.parametrize(
    ("data", "loads", "gpus", "message"),
    [
        ({"map": PLACE, "layers": [1, 2]}, LOADS, 3, "layer 1: the map has 2 GPUs, and --gpus 3"),
        ({"map": PLACE, "layers": [1, 3]}, LOADS, 2, "layer 3 of the map is none of the loads'"),
        ({"map": PLACE[:1], "layers": [1]}, LOADS, 2, "the map has 1 layers, and the loads 2"),
        ({"map": [PLACE[0], [[3, 2], [1, 9]]], "layers": [1, 2]}, LOADS, 2, "layer 2: the map has expert 9"),
        ({"map": [PLACE[0], [[3, 2], [1]]], "layers": [1, 2]}, LOADS, 2, "layer 2: expert 0 is on no GPU"),
        ({"map": [PLACE[0], [["x"]]]}, LOADS, 2, r"is not map\[layer\]\[gpu\]"),
        ({"experts": {"replicas": [{"map": []}]}}, LOADS, 2, "the plan has no expert map for 2 GPUs"),
        ({"maps": []}, LOADS, 2, "is no expert map"),
        ({"physical_to_logical_map": [[0, 1, 2, 3]]}, UNNUMBERED, 2, "the map has 1 layers, and the loads 2"),
        ({"physical_to_logical_map": [[0, 1, 2]] * 2}, LOADS, 2, "3 slots of the map do not divide"),
        ({"physical_to_logical_map": [[0, 1], [0]]}, LOADS, 2, "layer 1: 1 slots, and 2 before it"),
        ("layer,expert\n", LOADS, 2, "is no expert map"),
    ],
)
def test_a_map_of_something_else_is_refused(
    tmp_path: Path, data: Any, loads: ExpertLoads, gpus: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_map(file(tmp_path / "map.json", data), loads, gpus)


def test_a_plans_map_is_that_of_its_ranks(tmp_path: Path) -> None:
    other = {"map": [[[0], [1], [2], [3]]] * 2}
    path = file(tmp_path / "plan.json", {"experts": {"replicas": [{"map": []}, other, {"map": PLACE}]}})

    assert read_map(path, LOADS, 2) == PLACE


def test_a_map_with_a_row_for_every_layer_gives_those_of_the_loads(tmp_path: Path) -> None:
    path = file(
        tmp_path / "map.json", {"physical_to_logical_map": [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]]}
    )

    assert read_map(path, LOADS, 2) == [[[3, 2], [1, 0]], [[1, 0], [3, 2]]]

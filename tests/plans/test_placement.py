"""Which nodes replicas stand on: packed, as far apart as can be, and as the program says."""

from types import SimpleNamespace
from typing import Any

import pytest

from planner.plans.placement import Placed, place
from planner.plans.verified import Unsound

NODES: Any = SimpleNamespace(id="g", gpus_per_node=8, scale_up_gpus=8, node_count=100)
RACKS: Any = SimpleNamespace(id="g", gpus_per_node=1, scale_up_gpus=72, node_count=3000)


def replica(gpus: int, joined: bool = False) -> Any:
    design = SimpleNamespace(pp=1, stages=(), on_nodes=(), offloads=False)
    return SimpleNamespace(
        id=f"tp{gpus}", node_class="g", gpus=gpus, joined=joined, design=design, blocks=(("g", gpus),)
    )


CANDIDATES = {f"tp{gpus}": replica(gpus) for gpus in (2, 3, 4, 16)}


def placed(counts: dict[str, int], **how: Any) -> Placed:
    return place([NODES], counts, CANDIDATES, **how)


def held(on: Placed) -> list[dict[str, int]]:
    """What stands on each node in use, in order."""
    return [dict(own) for _, own in sorted(on.standing.items())]


def test_replicas_are_packed_the_largest_first():
    on = placed({"tp2": 4, "tp4": 2})

    assert held(on) == [{"tp4": 2}, {"tp2": 4}]
    assert (on.used, on.stages["tp2"]) == ({"g": 2}, [[1]])


def test_where_nodes_may_be_lost_each_has_as_little_of_any_as_can_be():
    assert held(placed({"tp2": 4, "tp4": 2}, apart={"g": 2})) == [{"tp4": 1, "tp2": 2}] * 2
    assert held(placed({"tp2": 3}, apart={"g": 3})) == [{"tp2": 1}] * 3
    assert placed({"tp2": 4, "tp4": 2}, apart={"g": 3}).used == {"g": 3}


def test_larger_replicas_have_whole_nodes_and_others_the_rest():
    on = placed({"tp16": 1, "tp2": 2}, apart={"g": 4})

    assert held(on) == [{"tp16": 1}, {"tp16": 1}, {"tp2": 1}, {"tp2": 1}]


def test_what_the_program_says_of_nodes_is_done():
    contents = {"g": [{"tp4": 2}, {"tp2": 1}, {"tp2": 3}]}
    on = placed({"tp2": 4, "tp4": 2}, apart={"g": 3}, contents=contents)

    assert sorted(map(str, held(on))) == ["{'tp2': 1}", "{'tp2': 3}", "{'tp4': 2}"]


def test_what_does_not_fit_apart_is_packed():
    """Eighteen GPUs find no room on two nodes of eight; nor a replica that the program puts nowhere."""
    assert sum(sum(own.values()) for own in held(placed({"tp3": 4, "tp2": 3}, apart={"g": 2}))) == 7
    assert held(placed({"tp2": 2}, apart={"g": 2}, contents={"g": [{"tp2": 1}]})) == [{"tp2": 1}] * 2


def test_blocks_of_several_sizes_fill_racks_without_holes():
    every = {"tp12": replica(12, joined=True), "tp16": replica(16, joined=True)}
    on = place([RACKS], {"tp12": 82, "tp16": 126}, every)

    assert on.used == {"g": 3000}
    assert len(on.standing) == 3000
    racks: dict[int, set[str]] = {}
    for (_, node), own in on.standing.items():
        racks.setdefault(node // 72, set()).update(own)
    assert len(racks) == 42
    with pytest.raises(Unsound, match="finds no room"):
        place([RACKS], {"tp12": 83, "tp16": 126}, every)

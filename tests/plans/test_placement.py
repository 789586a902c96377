"""Which nodes replicas stand on: packed, as far apart as can be, and as the program says."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plans import placement
from planner.plans.placement import Placed, place
from planner.plans.verified import Unsound

NODES: Any = SimpleNamespace(id="g", gpus_per_node=8, domain_nodes=1, node_count=100)
RACKS: Any = SimpleNamespace(id="g", gpus_per_node=1, domain_nodes=72, node_count=3000)


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


PAIRS: Any = SimpleNamespace(id="g", gpus_per_node=4, domain_nodes=4, node_count=400)
"""Racks of four nodes of four GPUs."""


def test_a_block_that_needs_one_domain_leaves_what_is_too_small_for_the_next():
    """Blocks of three of a rack's four nodes: the fourth is for others."""
    every = {"tp12": replica(12, joined=True), "tp2": replica(2)}
    on = place([PAIRS], {"tp12": 3, "tp2": 2}, every)

    assert on.stages["tp12"] == [[0, 1, 2, 4, 5, 6, 8, 9, 10]]
    assert on.stages["tp2"] == [[3]]
    assert place([PAIRS], {"tp12": 3}, {"tp12": replica(12)}).stages["tp12"] == [list(range(9))]


def test_stages_of_one_class_fill_their_nodes_in_order():
    """Four stages of two GPUs are two to a node of four; of six GPUs two stages share the middle node."""
    small, large = (replica(gpus) for gpus in (8, 12))
    small.design.pp, large.design.pp = 4, 2
    on = place([PAIRS], {"tp8": 1, "tp12": 1}, {"tp8": small, "tp12": large})

    assert on.stages["tp12"] == [[0, 1], [1, 2]]
    assert on.stages["tp8"] == [[3], [3], [4], [4]]


def test_stages_on_several_classes_stand_on_each_by_itself():
    other: Any = SimpleNamespace(id="h", gpus_per_node=2, domain_nodes=1, node_count=9)
    both = replica(6)
    both.design.pp, both.design.stages = 2, (1, 2)
    both.blocks = (("g", 4), ("h", 2))
    on = place([PAIRS, other], {"tp6": 2}, {"tp6": both})

    assert on.stages["tp6"] == [[0, 1], [0, 1]]
    assert on.used == {"g": 2, "h": 2}
    assert on.standing["h", 1] == {"tp6": 1}


@settings(max_examples=60)
@given(counts=st.dictionaries(st.sampled_from([1, 2, 3, 4, 8, 12, 16]), st.integers(1, 6), min_size=1))
def test_no_node_has_more_than_its_gpus_and_no_joined_block_leaves_its_rack(counts: dict[int, int]):
    every = {f"tp{gpus}": replica(gpus, joined=gpus > 4) for gpus in counts}
    on = place([PAIRS], {f"tp{gpus}": n for gpus, n in counts.items()}, every)
    for own in on.standing.values():
        assert sum(n * min(every[c].gpus, 4) for c, n in own.items()) <= 4
    for gpus, n in counts.items():
        nodes = on.stages[f"tp{gpus}"][0]
        assert sum(own.get(f"tp{gpus}", 0) for own in on.standing.values()) == n * max(gpus // 4, 1)
        if gpus > 4:  # whole nodes, as many in each rack as whole blocks take
            racks = [sum(k // 4 == rack for k in nodes) for rack in range(100)]
            assert all(k % (gpus // 4) == 0 for k in racks)
    assert on.used["g"] == len(on.standing)


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 33])
def test_replicas_of_one_kind_stand_as_they_would_one_by_one(gpus: int, count: int, monkeypatch):
    """They fill nodes in order, which needs no loop over a million of them."""
    one = {"a": SimpleNamespace(**{**vars(replica(gpus)), "id": "a"})}
    at_once = place([NODES], {"a": count}, one)
    monkeypatch.setattr(placement, "_Free", type("Slow", (placement._Free,), {}))
    monkeypatch.setattr(placement, "type", lambda each: None, raising=False)
    one_by_one = place([NODES], {"a": count}, one)

    assert (at_once.stages, at_once.used) == (one_by_one.stages, one_by_one.used)
    assert held(at_once) == held(one_by_one)


def test_a_million_nodes_of_sixteen_are_filled_in_seconds():
    large: Any = SimpleNamespace(id="g", gpus_per_node=16, domain_nodes=1, node_count=999_000)
    began = time.process_time()
    on = place([large], {"tp1": 15_984_000}, {"tp1": replica(1)})

    assert on.used == {"g": 999_000}
    assert time.process_time() - began < 20

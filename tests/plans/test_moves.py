"""Which replicas move between two plans, by the nodes that each of them stands on."""

from __future__ import annotations

import json
from typing import Any

from planner.plans.moves import Move, moves, summary
from planner.plans.schema import Plan
from tests.check.plans import dense

DESIGN = "mixed tp1 on h, vllm, bf16/bf16/kv bf16"


def on_nodes(*names: str, count: int = 1) -> Plan:
    """`dense` with two nodes, of whose first kind of replica `count` stand on the nodes of these names."""
    data: dict[str, Any] = json.loads(dense().model_dump_json(by_alias=True))
    data["problem"]["cluster"]["nodes"][0]["count"] = 2
    data["replicas"] = [data["replicas"][0] | {"count": count}]
    data["replicas"][0]["stages"][0]["nodes"] = list(names)
    return Plan.model_validate(data)


def test_a_replica_on_another_node_moves() -> None:
    before, after = on_nodes("h-0", count=2), on_nodes("h-1", count=2)

    assert moves(before, after) == [Move(2, DESIGN, ("h-0",), ("h-1",))]
    assert summary(before, after, moves(before, after)) == "2 replicas move"


def test_what_stays_is_no_move_and_what_comes_is_on_its_node() -> None:
    before, after = on_nodes("h-0", count=1), on_nodes("h-0", count=3)

    assert moves(before, after) == [Move(2, DESIGN, (), ("h-0",))]
    assert summary(before, after, moves(before, after)) == "2 replicas more"
    assert moves(after, before) == [Move(2, DESIGN, ("h-0",), ())]
    assert summary(after, before, moves(after, before)) == "2 replicas fewer"


def test_a_plan_that_does_not_say_where_its_replicas_stand_has_no_moves() -> None:
    assert moves(on_nodes("h-0", count=2), on_nodes("h-1", count=99)) == []

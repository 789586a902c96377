"""Which replicas move between two plans, by the nodes that each of them stands on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.plans.moves import Move, moves, summary
from planner.plans.schema import Band, Plan
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


def priced(plan: Plan, usd: float | None, rps: float) -> Plan:
    """`plan` with another cost and throughput."""
    bands = {"usd_per_hour": usd, "rps": rps}
    told = {k: v if v is None else Band(value=v, low=v, high=v) for k, v in bands.items()}
    return plan.model_copy(update={"predicted": plan.predicted.model_copy(update=told)})


SAME = "the same replicas at the same cost and throughput"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((10.0, 5.0), (10.0, 5.0), SAME),
        ((10.0, 5.0), (8.0, 5.0), "cost 20.0 % lower"),
        ((8.0, 5.0), (10.0, 5.0), "cost 25.0 % higher"),
        ((10.0, 5.0), (9.0, 6.0), "cost 10.0 % lower, throughput 20.0 % higher"),
        ((10.0, 5.0), (10.0, 4.0), "throughput 20.0 % lower"),
        ((10.0, 5.0), (10.004, 5.0), SAME),  # less than 0.05 %: not worth a word
        ((10.0, 5.0), (10.006, 5.0), "cost 0.1 % higher"),
        ((None, 5.0), (10.0, 5.0), SAME),  # what it was is not known
        ((10.0, 5.0), (None, 5.0), SAME),
        ((0.0, 5.0), (10.0, 5.0), SAME),  # no share of nothing
    ],
)
def test_cost_and_throughput_are_compared_with_what_they_were(before, after, said) -> None:
    old, new = (priced(on_nodes("h-0"), *figures) for figures in (before, after))

    assert summary(old, new, []) == said


def wider(plan: Plan) -> Plan:
    """`plan` with replicas of another design."""
    data = json.loads(plan.model_dump_json(by_alias=True))
    data["replicas"][0]["engine"] = "sglang"
    return Plan.model_validate(data)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((1, 1), "1 replica changes"),
        ((2, 2), "2 replicas change"),
        ((2, 3), "2 replicas change, 1 replica more"),
        ((3, 1), "1 replica changes, 2 replicas fewer"),
    ],
)
def test_replicas_of_another_design_change(counts, said) -> None:
    before, after = on_nodes("h-0", count=counts[0]), wider(on_nodes("h-0", count=counts[1]))
    found = moves(before, after)

    assert summary(before, after, found) == said
    assert [(m.before, m.after, m.count) for m in found] == [
        (("h-0",), (), counts[0]),
        ((), ("h-0",), counts[1]),
    ]


def test_what_moves_comes_before_what_is_gone_and_what_is_new() -> None:
    before, after = on_nodes("h-0", count=2), on_nodes("h-1", count=1)

    assert [(m.before, m.after) for m in moves(before, after)] == [(("h-0",), ("h-1",)), (("h-0",), ())]
    assert summary(before, after, moves(before, after)) == "1 replica fewer, 1 replica moves"


def test_a_plan_that_does_not_say_where_its_replicas_stand_has_no_moves() -> None:
    assert moves(on_nodes("h-0", count=2), on_nodes("h-1", count=99)) == []

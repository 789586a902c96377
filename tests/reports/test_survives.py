"""What a plan still serves after a loss of nodes, in words."""

from __future__ import annotations

from typing import Any

import pytest

from planner.plans.schema import Loss, Survives
from planner.reports.replayed import surviving
from tests.reports.samples import ONE_NODE

ANY = Survives(
    nodes=1,
    share=1.0,
    standing=[],
    losses=[
        Loss(classes={"l": 1}, lost={"r2": 1}, rps=12.6, routing=[]),
        Loss(classes={"h": 1}, lost={"r1": 2}, rps=12.5, routing=[]),
        Loss(classes={"h": 1}, lost={"r1": 1}, rps=14.0, routing=[]),
    ],
    without=3400.0,
    bound=3400.0,
    price=0.0647,
)


def told(**changes: Any) -> tuple[str, str]:
    promise, price = surviving(ONE_NODE, ANY.model_copy(update=changes))
    return promise, price


def test_of_losses_alike_the_worst_is_told_and_the_worst_first():
    assert told()[0] == (
        "Without any one node the rest serves 12.4 req/s within the limits. "
        "At most: without a node of h 12.5 req/s; without a node of l 12.6 req/s."
    )


def test_a_share_of_the_rate_is_told_with_what_it_comes_to():
    both = Loss(classes={"h": 2, "l": 1}, lost={}, rps=7.0, routing=[])
    many = Loss(classes={}, lost={}, rps=6.5, routing=[])

    assert told(nodes=3, share=0.5, losses=[both, many])[0] == (
        "Without any 3 nodes the rest serves 50 % of the rate, 6.21 req/s within the limits. "
        "At most: without the worst of them 6.50 req/s; without 2 nodes of h and a node of l 7.00 req/s."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "It costs 6.5 %: without this promise it would be 3,400 tok/s in place of 3,180 tok/s."),
        ({"bound": 3450.0},
         "It costs 6.5 %: without this promise it would be 3,400 tok/s (at best 3,450 tok/s) in place of "
         "3,180 tok/s."),
        ({"price": 0.0}, "It costs nothing: no better plan was found that need not keep this promise."),
        ({"price": 0.0, "bound": 3450.0},
         "No better plan was found that need not keep this promise (at best 3,450 tok/s)."),
        ({"without": None}, "What that costs was not looked for."),
        ({"price": None}, "What that costs was not looked for."),
    ],
)  # fmt: skip
def test_what_the_promise_costs_is_told_with_what_is_proven(changes: dict[str, Any], said: str):
    assert told(**changes)[1] == said

"""What a solved model says, read again from its replicas and flows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.fleet.extract import fullest, nodes_in_use
from solvers.fleet.goals import COST
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock, Survive, Transfer

SMALL = FleetProblem(
    columns={
        "one": Column("g", 1, {"busy": {"w": 0.25}}),
        "three": Column("g", 3, {"busy": {"w": 0.1}}),
        "two nodes": Column("g", 8, {"busy": {"w": 0.01}}),
    },
    stocks={"g": Stock(6, 4, 2.0), "h": Stock(1, 4, 2.0)},
    share={"w": 1.0},
    objective=COST,
    demand=1.0,
)
LOST = replace(SMALL, survive=Survive(nodes=1, share=0.5))


@pytest.mark.parametrize(
    ("replicas", "packed", "apart"),
    [
        ({"one": 1}, 1, 1),
        ({"one": 3}, 1, 3),
        ({"one": 2, "three": 2}, 2, 4),
        ({"three": 3}, 3, 3),
        ({"two nodes": 2, "one": 1}, 5, 5),
        ({"one": 9}, 3, 6),
    ],
)
def test_nodes_are_those_that_replicas_fill_or_stand_apart_on(replicas, packed, apart):
    """Where nodes may be lost no replica shares one it need not, but none stands on two (odd problems, seed
    3412, no. 171: a program that ran out of time left two nodes on for one replica)."""
    on = {"g": 6, "h": 1}
    assert nodes_in_use(SMALL, replicas, on) == {"g": packed}
    assert nodes_in_use(LOST, replicas, on) == {"g": apart}


def test_no_more_nodes_are_in_use_than_the_program_has_on():
    assert nodes_in_use(LOST, {"one": 3}, {"g": 2}) == {"g": 2}


def test_the_fullest_is_a_replica_its_nic_or_a_link():
    """By hand: a replica half full; 6 requests/s of 5 bytes over a link of 40 bytes/s, and over NICs of 20 a
    GPU and second, two GPUs of prompts."""
    columns = {
        "p": Column("g", 2, {"busy": {"w": 0.05}}, group="P"),
        "d": Column("g", 4, {"busy": {"w": 1 / 12}}, group="D"),
    }
    p = replace(
        SMALL,
        columns=columns,
        pairs={("P", "D", "w"): Transfer(5.0, links=("k",))},
        nic={"P": 20.0, "D": 20.0},
        links={"k": 400.0},
    )
    s = FleetSolution(
        "optimal",
        1.0,
        1.0,
        "HiGHS",
        {"p": 1, "d": 1},
        {},
        {("p", "w"): 6.0, ("d", "w"): 6.0},
        {("P", "D", "w"): 6.0},
        6.0,
    )

    assert fullest(p, s) == pytest.approx(30 / 40)
    assert fullest(replace(p, links={"k": 40.0}, nic={"P": 1e9, "D": 1e9}), s) == pytest.approx(30 / 40)
    assert fullest(replace(p, nic={"P": 1e9, "D": 1e9}), s) == pytest.approx(0.5)

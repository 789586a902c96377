"""Several fleets on the same nodes: by hand, and taken apart again."""

from dataclasses import replace

import pytest

from solvers import fleet, fleet_union
from solvers.fleet.goals import COST, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.linear import Limits


def part(gpus, rate):
    """A model whose only replica takes so many GPUs and serves so many requests/s."""
    column = Column("h", gpus, {"busy": {"0": 1 / rate}})
    return FleetProblem({"c": column}, {"h": Stock(2, 4, 8.0)}, {"0": 1.0}, THROUGHPUT)


def test_two_models_share_a_node_and_it_is_paid_once():
    """By hand: two GPUs each for 10 requests/s of one and 5 of the other are one node of $8."""
    parts = [replace(part(2, rate), objective=COST, demand=rate) for rate in (10.0, 5.0)]
    s = fleet.solve(fleet_union.union(parts, [2 / 3, 1 / 3], 15.0), Limits(gap=0.0))

    assert s.objective == pytest.approx(8.0) == s.bound
    assert [own.replicas for own in fleet_union.parts_of(s, [2 / 3, 1 / 3])] == [{"c": 1}, {"c": 1}]


def test_throughput_is_the_largest_common_scale():
    """By hand: of 8 GPUs, 4 each; 20 and 10 requests/s, of which the parts ask for two to one."""
    p = fleet_union.union([part(2, 10.0), part(2, 5.0)], [2 / 3, 1 / 3], None)
    s = fleet.solve(p, Limits(gap=0.0))
    own = fleet_union.parts_of(s, [2 / 3, 1 / 3])

    assert s.objective == pytest.approx(30.0) == s.bound
    assert [x.rate for x in own] == pytest.approx([20.0, 10.0])
    assert fleet_union.with_flows(s, own).flows == pytest.approx(s.flows)
    assert fleet_union.part_of(p, s, 1, 1 / 3).columns["c"].use == {"busy": {"0": 0.2}}


def test_parts_that_do_not_share_their_nodes_are_refused():
    other = replace(part(2, 5.0), stocks={"h": Stock(3, 4, 8.0)})
    with pytest.raises(ValueError, match="stocks"):
        fleet_union.union([part(2, 10.0), other], [0.5, 0.5], None)

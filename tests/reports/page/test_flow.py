"""The way of requests: rates of each way, lanes that add up, and what only some requests get."""

from __future__ import annotations

import pytest

from planner.plans.schema import Plan
from planner.reports.page.blocks import Flow, Folded, Stop
from planner.reports.page.flow import MOST, rates, section
from tests.reports.page.samples import ALL, plan_of
from tests.reports.samples import MIXED, ONE_NODE


def lanes(plan: Plan) -> list[Flow]:
    return [block for block in section(plan).blocks if isinstance(block, Flow)]


def figure(stop: Stop) -> float:
    """The requests/s that a lane begins with."""
    return float(stop.title.split()[0].replace(",", ""))


def weighed(first: float, second: float) -> Plan:
    """MIXED with its two buckets of these shares, at 40 requests/s."""
    load = MIXED.problem.workload
    buckets = [b | {"share": s} for b, s in zip(load["buckets"], (first, second), strict=True)]
    problem = MIXED.problem.model_copy(update={"workload": {**load, "buckets": buckets}})
    return MIXED.model_copy(update={"problem": problem})


def test_each_way_has_its_part_of_its_bucket():
    """By hand: of 40 requests/s a quarter in the first bucket, 0.3 of these on one server."""
    assert [rate for _, rate in rates(weighed(1, 3))] == pytest.approx([3.0, 7.0, 30.0])
    assert [rate for _, rate in rates(weighed(0.5, 0.5))] == pytest.approx([6.0, 14.0, 20.0])


@pytest.mark.parametrize("name", ALL)
def test_all_requests_go_some_way_and_each_lane_begins_with_its_own(name: str):
    plan = plan_of(name)
    begun = sum(figure(lane.stops[0]) for lane in lanes(plan))

    assert sum(rate for _, rate in rates(plan)) == pytest.approx(plan.predicted.rps.value, rel=1e-3)
    assert begun == pytest.approx(plan.predicted.rps.value, rel=0.01)
    assert all((lane.stops[0].kind, lane.stops[-1].kind) == ("in", "out") for lane in lanes(plan))


def test_requests_that_change_servers_have_a_lane_of_their_own():
    """By hand: 37 requests/s change servers with 1.9 + 6.2 GB/s of cache, 3 stay: 92 % and 7.5 %."""
    pairs, lone = lanes(weighed(1, 3))

    assert [stop.kind for stop in pairs.stops] == ["in", "prefill", "transfer", "decode", "out"]
    assert [stop.kind for stop in lone.stops] == ["in", "mixed", "out"]
    assert (figure(pairs.stops[0]), figure(lone.stops[0])) == (37.0, 3.0)
    assert pairs.stops[2].note == "8.10 GB/s from prefill to decode"
    assert pairs.stops[0].note == "2 kinds of request"
    assert (pairs.stops[-1].note, lone.stops[-1].note) == ("92 % of all requests", "7.5 % of all requests")
    assert all(lane.stops[-1].title.startswith("about ") for lane in (pairs, lone))


def test_one_lane_of_one_kind_of_request_says_no_share():
    (lane,) = lanes(ONE_NODE)

    assert lane.stops[0].note == "1,024 tokens in, 256 out"
    assert lane.stops[-1].note == ""
    assert not lane.stops[-1].title.startswith("about")
    (bar,) = lane.stops[1].lines
    assert bar.label.startswith("r1: 4 servers, each on 2")
    assert (bar.parts[0].kind, bar.parts[0].width) == ("mixed", 1.0)


def test_every_way_is_folded_away_only_where_there_are_several():
    assert [b.summary for b in section(MIXED).blocks if isinstance(b, Folded)] == ["Every way by itself"]
    assert not [b for b in section(ONE_NODE).blocks if isinstance(b, Folded)]


def test_the_busiest_chains_are_drawn_and_the_rest_is_counted():
    plan = plan_of("chains")
    one = plan.chains[0]
    many = [one.model_copy(update={"share": share / 100}) for share in range(1, MOST + 3)]
    (lane,) = lanes(plan.model_copy(update={"chains": many}))
    drawn = lane.stops[1]

    assert [bar.parts[0].width for bar in drawn.lines] == [s / 100 for s in range(MOST + 2, 2, -1)]
    assert drawn.note == "and 2 more chains"
    (few,) = lanes(plan.model_copy(update={"chains": many[:MOST]}))
    assert few.stops[1].note == "nodes with the layers they run"

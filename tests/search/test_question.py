"""What a question asks of the fleet program beside its candidates."""

from __future__ import annotations

from dataclasses import replace

from planner.inputs.options import Survive
from tests.beside.solved import solved


def test_what_was_asked_stands_in_the_problem():
    """The plan is sure of what the rest serves; the bound is not."""
    asked, found = solved("2xH100", "llama-3.1-8b", tpot_ms=50)[1:]
    lost = replace(asked, survive=Survive(nodes=1, share=0.5), most_kinds=1, worst=3.0)
    plan, bound = (lost.state(found.pool, side) for side in ("plan", "bound"))

    assert (plan.survive.nodes, plan.survive.share, plan.survive.sure) == (1, 0.5, True)
    assert not bound.survive.sure
    assert (plan.most_kinds, plan.demand) == (1, 3.0)
    assert asked.state(found.pool).survive is None


def test_traffic_is_spread_where_there_may_be_more_than_the_rate_needs():
    asked = solved("1xH100", "llama-3.1-8b", tpot_ms=50)[1]

    assert not asked.spread
    assert replace(asked, traffic=replace(asked.traffic, rate_rps=1.0)).spread
    assert replace(asked, survive=Survive(nodes=1, share=0.5)).spread

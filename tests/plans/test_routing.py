"""The parts that every Plan is made of, by hand."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plans import parts, routing
from planner.plans.found import Path
from planner.plans.parts import Way, idle_gpus, routes, usd_per_mtok
from planner.plans.tiers import ranges
from tests.candidates.samples import node


def test_shares_are_of_each_bucket_by_itself():
    """By hand: 3 and 1 of bucket 0, all of bucket 1."""
    one, two, pair = routes([Way(0, 3.0, "r1"), Way(0, 1.0, "r2"), Way(1, 5.0, "p1", "d1", 2e9)])

    assert (one.share, two.share, pair.share) == (0.75, 0.25, 1.0)
    assert (one.replica, one.prefill, one.decode) == ("r1", None, None)
    assert (pair.replica, pair.prefill, pair.decode, pair.kv_gb_per_s) == (None, "p1", "d1", 2.0)


def test_ways_of_a_fleet_are_its_paths(monkeypatch):
    g, d = SimpleNamespace(id="p1"), SimpleNamespace(id="d1")
    ways = [Path(0, 2.0, g, d, 0.1, 0.01, 4e9), Path(0, 6.0, g, None, 0.1, 0.01)]
    monkeypatch.setattr(routing, "paths", lambda found, made: ways)
    pair, alone = routing.routing(None, [])

    assert (pair.prefill, pair.decode, pair.share, pair.kv_gb_per_s) == ("p1", "d1", 0.25, 4.0)
    assert (alone.replica, alone.share) == ("p1", 0.75)


def test_a_million_tokens_cost_an_hours_dollars_over_an_hours_tokens():
    """By hand: 1,000 tok/s are 3.6 million an hour."""
    assert usd_per_mtok(7.2, 1000.0) == pytest.approx(2.0)


def test_idle_gpus_are_told_of_all_with_device_or_name():
    plain, named = idle_gpus(node(), 3, "why"), idle_gpus(node(), 3, "why", "the others")

    assert (plain.message, plain.code) == ("3 of 4 h100-sxm idle: why", "idle_gpus")
    assert named.message == "3 of 4 the others idle: why"
    assert plain.model_dump(by_alias=True)["count"] == 3


@settings(max_examples=50, deadline=None)
@given(layers=st.sets(st.integers(0, 20)))
def test_ranges_hold_just_the_layers_and_as_few_as_can_be(layers):
    found = ranges(sorted(layers))

    assert sorted(i for a, b in found for i in range(a, b)) == sorted(layers)
    assert all(b < c for (_, b), (c, _) in pairwise(found))
    assert parts.routes([]) == []

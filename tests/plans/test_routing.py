"""The parts that every Plan is made of, by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plans import parts
from planner.plans.bands import Totals, band
from planner.plans.found import Path
from planner.plans.parts import Way, idle, routes
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
    monkeypatch.setattr(parts, "paths", lambda found, made: ways)
    pair, alone = parts.routing(None, [])

    assert (pair.prefill, pair.decode, pair.share, pair.kv_gb_per_s) == ("p1", "d1", 0.25, 4.0)
    assert (alone.replica, alone.share) == ("p1", 0.75)


def test_a_million_tokens_cost_an_hours_dollars_over_an_hours_tokens():
    """By hand: 1,000 tok/s are 3.6 million an hour."""
    point = band(1.0, 0.0)
    told = Totals(4.0, 1000.0, 5000.0, 7.2, 500.0).predicted(point, point, point)

    assert told.usd_per_mtok.value == pytest.approx(2.0)
    assert told.joules_per_tok.value == pytest.approx(0.5)
    assert Totals(4.0, 1000.0, 5000.0, None, 500.0).predicted(point, point, point).usd_per_mtok is None


def test_idle_gpus_are_told_of_all_by_device_or_where_two_classes_have_it_by_class():
    one, other = node(), replace(node(), id="others")
    (alone,) = idle([one], {one.id: 1}, lambda n, left: f"{left} too many")
    both = idle([one, other], {one.id: 4}, lambda n, left: "why")

    assert (alone.message, alone.code) == ("3 of 4 h100-sxm idle: 3 too many", "idle_gpus")
    assert alone.model_dump(by_alias=True)["count"] == 3
    assert [w.message for w in both] == ["4 of 4 h100-sxm (others) idle: why"]


@settings(max_examples=50)
@given(layers=st.sets(st.integers(0, 20)))
def test_ranges_hold_just_the_layers_and_as_few_as_can_be(layers):
    found = ranges(sorted(layers))

    assert sorted(i for a, b in found for i in range(a, b)) == sorted(layers)
    assert all(b < c for (_, b), (c, _) in pairwise(found))
    assert parts.routes([]) == []

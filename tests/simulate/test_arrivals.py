"""Requests that a simulated plan gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.inputs.traces import Trace
from planner.plans.schema import Plan
from planner.simulate.arrivals import drawn, traced, whole
from planner.simulate.groups import Servers

PLAN = Path(__file__).resolve().parents[1] / "golden" / "plan.json"


@given(st.floats(1, 1e5), st.integers(1, 400))
def test_whole_tokens_have_the_mean_that_they_stand_for(mean: float, n: int):
    found = whole(np.full(n, mean))

    assert set(found) <= {np.floor(mean), np.ceil(mean)}
    assert abs(found.sum() - n * mean) <= 5  # of golden steps no sum is further off: under 1.9 + log2(n) / 4


def test_a_prefix_cache_that_finds_nearly_all_leaves_the_mean_to_compute():
    """99 % of prompts of 128 tokens: 1.28 tokens each, where whole ones would be 1."""
    document = json.loads(PLAN.read_text())
    document["problem"]["workload"]["prefix_hit"] = 0.99
    servers = Servers(Plan.model_validate(document))
    n, none = 1000, np.zeros(0, dtype=np.int64)
    lengths = np.full(n, 128), np.full(n, 20)
    trace = Trace("t", np.arange(n, dtype=float), *lengths, 0, none, np.zeros(n + 1, dtype=np.int64))

    for computed in traced(servers, trace, None).load.new.values():
        assert abs(computed.mean() - 1.28) < 0.005


def test_an_open_loop_without_a_rate_is_replayed_at_the_rate_that_the_plan_says():
    document = json.loads(PLAN.read_text())
    document["problem"]["workload"] |= {"rate_rps": None, "arrivals": "open"}
    plan = Plan.model_validate(document)
    load = drawn(Servers(plan), 20_000, None, 0).load

    assert load.in_flight is None
    assert 20_000 / load.requests.arrival_s[-1] == pytest.approx(plan.predicted.rps.value, rel=0.03)

"""The fast server against its rules said plainly, step by step; and policies of another kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays.stepwise import Chunked, Stepwise
from benchmarks.replays.transfers import Beside
from planner.simulate.fleet import Fleet, Outcome, Rules, Site
from planner.simulate.links import Wire
from planner.simulate.pools import Group, Load
from planner.simulate.requests import Requests, Settings, StepCosts
from planner.simulate.routing import Way
from tests.simulate.test_replay import poisson, step


def plainly(group: Group) -> Group:
    """The same group, one step at a time."""
    policy = Chunked(group.step, group.rules)
    return replace(group, machine=lambda ledger, _: Stepwise(policy, ledger, group.role))


def ran(groups: list[Group], requests: Requests, in_flight: int | None = None) -> Outcome:
    ways = [[Way(1.0, *(g.id for g in groups))]]
    ends = {(groups[0].id, groups[-1].id): Wire(5e6, 5e6, 1e-3)}
    site = Site(groups, ways, ends, {groups[0].id: requests.isl * 1e3})
    load = Load(requests, np.zeros(len(requests), dtype=np.int64), {}, in_flight)
    return Fleet(site, load, Rules(transfers=Beside)).run()


COSTS = StepCosts.of(step(0.01, 1e-4, 2e-8, 1e-3, 3e-7))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 9999),
    rate=st.sampled_from([2.0, 8.0, 30.0]),
    servers=st.integers(1, 3),
    rules=st.builds(
        Settings,
        token_budget=st.sampled_from([64, 300, 2048]),
        max_sequences=st.sampled_from([2, 5, 1000]),
        kv_tokens=st.sampled_from([450, 900, 2500, 1e9]),
    ),
    closed=st.booleans(),
)
def test_jumps_are_the_steps_that_they_stand_for(seed, rate, servers, rules, closed) -> None:
    requests = poisson(60, rate, np.array([20.0, 150.0, 400.0]), np.array([1.0, 8.0, 40.0]), seed)
    group = Group("r1", "mixed", servers, COSTS, rules)
    in_flight = 3 * servers if closed else None
    fast, plain = ran([group], requests, in_flight), ran([plainly(group)], requests, in_flight)

    assert fast.first_s == pytest.approx(plain.first_s)
    assert fast.end_s == pytest.approx(plain.end_s)
    assert (fast.steps, fast.preempted) == (plain.steps, plain.preempted)


@settings(max_examples=40)
@given(seed=st.integers(0, 9999), room=st.sampled_from([600, 1500, 1e9]), budget=st.sampled_from([200, 2048]))
def test_of_pairs_too(seed, room, budget) -> None:
    requests = poisson(60, 12.0, np.array([20.0, 150.0, 400.0]), np.array([1.0, 8.0, 40.0]), seed)
    rules = Settings(budget, 30, room)
    pair = [Group("p1", "prefill", 2, COSTS, rules), Group("d1", "decode", 2, COSTS, rules)]
    fast, plain = ran(pair, requests), ran([plainly(g) for g in pair], requests)

    assert fast.first_s == pytest.approx(plain.first_s)
    assert fast.end_s == pytest.approx(plain.end_s)
    assert (fast.steps, fast.preempted) == (plain.steps, plain.preempted)

"""Whole plans replayed: equal to the replay of one pool, by hand on wires and failures, conserved always."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays.servers import Settings, replay
from planner.errors import InputError
from planner.simulate.fleet import Fleet, Outcome, Rules, Site
from planner.simulate.links import Wire
from planner.simulate.pools import Group, Load, Trouble
from planner.simulate.requests import Requests, StepCosts
from planner.simulate.routing import AtRandom, LeastLoad, Way
from tests.simulate.test_replay import poisson, step

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "simulate"
NO_WIRES: dict[tuple[str, str], Wire] = {}


def group(name: str = "r1", **changes: object) -> Group:
    base = Group(name, "mixed", 1, StepCosts.of(step()), Settings(), 0.0, 1.0, 1.0)
    return replace(base, **changes)  # type: ignore[arg-type]


def load(requests: Requests, groups: list[Group], in_flight: int | None = None) -> Load:
    bucket = np.zeros(len(requests), dtype=np.int64)
    return Load(requests, bucket, {g.id: requests.isl for g in groups}, in_flight)


def run(requests: Requests, *groups: Group, trouble: tuple[Trouble, ...] = (), **given: object) -> Outcome:
    """On groups that each take an equal share of one bucket."""
    ways = [[Way(1 / len(groups), g.id) for g in groups]]
    fleet = Fleet(
        Site(groups, ways, NO_WIRES, {}), load(requests, list(groups)), Rules(trouble=trouble, **given)
    )  # type: ignore[arg-type]
    return fleet.run()


@settings(max_examples=30)
@given(seed=st.integers(0, 999), servers=st.integers(1, 4), room=st.sampled_from([600, 3_000, 50_000]))
def test_one_group_is_the_replay_of_its_servers(seed: int, servers: int, room: int) -> None:
    requests = poisson(40, 6.0, np.array([100.0, 300.0]), np.array([5.0, 60.0]), seed)
    rules = Settings(512, 16, room)
    whole = run(requests, group(servers=servers, rules=rules))
    known = replay(step(), requests, replace(rules, replicas=servers, routing="least_requests"))

    assert whole.ttft_s == pytest.approx(known.ttft_s)
    assert whole.end_s == pytest.approx(known.end_s)
    assert (whole.steps, whole.preempted) == (known.steps, known.preemptions)


@pytest.mark.skipif(not CASES.is_dir(), reason="the stored cases lie beside the repository and are not here")
def test_a_stored_case_of_four_servers() -> None:
    case = json.loads((CASES / "chunked_4x70b_conv_least_requests.json").read_text())
    p, t = case["problem"], case["problem"]["step"]
    costs = step(t["t0_s"], t["prefill_s_per_token"], 0.0, t["sequence_s"], t["context_s_per_token"])
    rules = Settings(p["token_budget"], p["max_sequences"], p["kv_tokens"])
    table = np.array(p["requests"], dtype=float)
    out = run(Requests(*table.T), group(servers=4, rules=rules, step=StepCosts.of(costs)))

    for name, value in case["known"]["result"].items():
        field, percent = name.rsplit("_p", 1)
        times = out.end_s - out.arrival_s if field == "e2e_s" else getattr(out, field)
        assert np.nanpercentile(times, int(percent)) == pytest.approx(value, rel=1e-4)


def test_what_the_engine_takes_for_a_request_comes_on_top() -> None:
    requests = Requests(np.array([0.0]), np.array([100.0]), np.array([11.0]))
    bare, late = run(requests, group()), run(requests, group(request_s=0.5))
    assert late.ttft_s - bare.ttft_s == pytest.approx(0.5)
    assert late.tpot_s == pytest.approx(bare.tpot_s)
    read = run(requests, group(text_token_s=1e-3))
    assert read.ttft_s - bare.ttft_s == pytest.approx(0.1)
    assert read.end_s - bare.end_s == pytest.approx(0.1)


def test_drafted_tokens_make_fewer_steps() -> None:
    requests = Requests(np.array([0.0]), np.array([100.0]), np.array([11.0]))
    assert run(requests, group(emitted=2.0)).steps == 1 + 5
    assert run(requests, group()).steps == 1 + 10


def test_planned_routing_keeps_the_shares() -> None:
    requests = poisson(300, 50.0, np.array([50.0]), np.array([5.0]))
    one, two = group("r1"), group("r2")
    ways = [[Way(0.75, "r1"), Way(0.25, "r2")]]
    fleet = Fleet(Site([one, two], ways, NO_WIRES, {}), load(requests, [one, two]))
    fleet.run()
    assert sorted(w.first for w in fleet.way if w) == ["r1"] * 225 + ["r2"] * 75


def test_least_load_goes_where_fewest_wait_for_what_is_sent_there() -> None:
    """Two groups, the second planned for thrice the rate: in a burst it gets about thrice the requests."""
    requests = Requests(np.zeros(40), np.full(40, 50.0), np.full(40, 5.0))
    one, two = group("r1", rps=1.0), group("r2", rps=3.0)
    ways = [[Way(0.5, "r1"), Way(0.5, "r2")]]
    fleet = Fleet(Site([one, two], ways, NO_WIRES, {}), load(requests, [one, two]), Rules(LeastLoad))
    fleet.run()
    assert sorted(w.first for w in fleet.way if w) == ["r1"] * 10 + ["r2"] * 30


def test_random_routing_gives_each_server_random_arrivals_of_its_own() -> None:
    """Of four servers a quarter each, but one waits while others idle: TTFT is that of one server at
    a quarter of the rate, and longer than where the fewest wait."""
    requests = poisson(4_000, 24.0, np.array([100.0]), np.array([30.0]))
    alone = poisson(4_000, 6.0, np.array([100.0]), np.array([30.0]))
    rules = Settings(512, 4)
    out, least = (
        run(requests, group(servers=4, rules=rules), **given) for given in ({"router": AtRandom}, {})
    )
    single = run(alone, group(rules=rules))

    assert out.ttft_s.mean() == pytest.approx(single.ttft_s.mean(), rel=0.15)
    assert out.ttft_s.mean() > 1.5 * least.ttft_s.mean()


def pair(requests: Requests, wire: Wire, size: float = 1e6) -> Outcome:
    p, d = group("p1", role="prefill"), group("d1", role="decode")
    ways, sent = [[Way(1.0, "p1", "d1")]], {"p1": np.full(len(requests), size)}
    return Fleet(Site([p, d], ways, {("p1", "d1"): wire}, sent), load(requests, [p, d])).run()


def test_caches_leave_a_wire_one_after_the_other() -> None:
    """By hand: two prompts of one step (30 ms); the wire takes 0.5 s for each, the link 2 s."""
    two = Requests(np.zeros(2), np.full(2, 100.0), np.full(2, 3.0))
    near = pair(two, Wire(2e6, 9e9, 0.1))
    far = pair(two, Wire(2e6, 9e9, 0.1, "a to b", 0.5e6))

    assert near.first_s == pytest.approx([0.03 + 0.5 + 0.1, 0.03 + 1.0 + 0.1])
    assert far.first_s == pytest.approx([0.03 + 2.0 + 0.1, 0.03 + 4.0 + 0.1])
    assert (near.end_s > near.first_s).all()


def test_answers_of_one_token_end_where_their_prompt_does() -> None:
    one = Requests(np.zeros(1), np.full(1, 100.0), np.ones(1))
    assert pair(one, Wire(1.0, 1.0, 9.0)).end_s == pytest.approx([0.02])


def test_a_server_that_fails_loses_no_request() -> None:
    requests = poisson(60, 20.0, np.array([100.0]), np.array([50.0]))
    calm = run(requests, group(servers=3))
    hit = run(requests, group(servers=3), trouble=(Trouble("r1", fails_s=1.0),))

    assert np.isfinite(hit.end_s).all()
    assert hit.end_s.max() > calm.end_s.max()
    assert (hit.ttft_s >= 0).all()


def test_with_its_last_server_gone_a_request_has_nowhere_to_go() -> None:
    requests = poisson(20, 20.0, np.array([100.0]), np.array([50.0]))
    with pytest.raises(InputError, match="no server is left"):
        run(requests, group(), trouble=(Trouble("r1", fails_s=0.1),))


def test_a_slow_server_is_slow() -> None:
    requests = Requests(np.zeros(1), np.full(1, 100.0), np.full(1, 11.0))
    hit = run(requests, group(), trouble=(Trouble("r1", slower=1.5),))
    assert hit.end_s == pytest.approx(1.5 * run(requests, group()).end_s)


def test_a_closed_loop_keeps_so_many_in_flight() -> None:
    requests = Requests(np.zeros(60), np.full(60, 100.0), np.full(60, 20.0))
    g = group()
    out = Fleet(Site([g], [[Way(1.0, "r1")]], NO_WIRES, {}), load(requests, [g], 4)).run()
    at = np.sort(np.concatenate([out.arrival_s, out.end_s - 1e-9]))
    inside = [int(((out.arrival_s <= t) & (out.end_s > t)).sum()) for t in at]
    assert max(inside) <= 4
    assert np.median(inside) == 4


@settings(max_examples=25)
@given(seed=st.integers(0, 999), slower=st.floats(1.0, 3.0), fails=st.floats(0.0, 5.0))
def test_every_request_ends_after_its_first_token_after_it_came(seed, slower, fails) -> None:
    requests = poisson(50, 10.0, np.array([50.0, 400.0]), np.array([1.0, 30.0]), seed)
    trouble = (Trouble("r1", slower=slower), Trouble("r2", fails_s=fails))
    out = run(requests, group("r1", servers=2), group("r2", servers=2), trouble=trouble)

    assert (out.first_s > out.arrival_s).all()
    assert (out.end_s >= out.first_s).all()
    assert all(0 < b <= 1 for b in out.busy.values())


def test_the_series_sees_steps_that_end_with_all_they_began() -> None:
    """Prefill servers take whole prompts: between two steps there is nothing in work."""
    requests = poisson(400, 30.0, np.array([200.0]), np.array([2.0]))
    series = pair(requests, Wire(1e9, 1e9, 0.0)).series
    assert series.running["p1"].max() >= 1
    assert (np.diff(series.times_s) > 0).all()

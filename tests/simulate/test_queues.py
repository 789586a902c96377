"""Limiting cases with closed forms, and what is conserved at every step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays.servers import Settings, replay
from planner.simulate import pools
from planner.simulate.fleet import Fleet, Rules, Site
from planner.simulate.links import Wire
from planner.simulate.pools import FEW, Group, Load, Trouble
from planner.simulate.requests import Requests, StepCosts
from planner.simulate.routing import Way
from planner.simulate.server import Server
from tests.simulate.test_replay import poisson, step

ONE_BY_ONE = Settings(max_sequences=1)


def waits(isl: np.ndarray, rate: float, count: int = 120_000) -> tuple[float, np.ndarray]:
    """Mean wait of requests that are served alone, of one token each, in 10 ms and 0.1 ms a prompt token; and
    the times of service."""
    requests = poisson(count, rate, isl, np.ones(len(isl)), seed=3)
    result = replay(step(), requests, ONE_BY_ONE)
    return float(result.queue_s.mean()), 0.01 + 1e-4 * requests.isl


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_served_alone_and_alike_it_is_m_d_1(busy: float) -> None:
    """W = ρ D / 2 (1 - ρ)."""
    service = 0.01 + 1e-4 * 900
    found, _ = waits(np.array([900.0]), busy / service)
    assert found == pytest.approx(busy * service / 2 / (1 - busy), rel=0.05)


def test_served_alone_and_unlike_it_is_m_g_1() -> None:
    """Pollaczek and Khinchine: W = λ E[S²] / 2 (1 - ρ)."""
    isl = np.array([100.0, 400.0, 2000.0])
    rate = 0.7 / float(np.mean(0.01 + 1e-4 * isl))
    found, service = waits(isl, rate)
    second = float(np.mean(service**2))
    assert found == pytest.approx(rate * second / 2 / (1 - rate * service.mean()), rel=0.06)


def test_full_batches_serve_what_their_steps_do() -> None:
    """By hand: 8 in flight of 41 tokens: 40 steps of 18 ms and a step of 8 prompts for every 8."""
    n = 4000
    rows = Requests(np.zeros(n), np.full(n, 100.0), np.full(n, 41.0))
    result = replay(step(), rows, Settings(concurrency=8))
    assert result.rate_rps == pytest.approx(8 / (0.01 + 800e-4 + 40 * 0.018), rel=0.01)


class Watched(Server):
    """A server that checks itself after each step."""

    def step(self) -> list[int]:
        before = self.now_s
        finished = Server.step(self)
        book = self.ledger
        known = sum(book.isl[i] + self.kept.get(i, 0) for i in self.batch if i not in self.origin)
        known += sum(book.isl[i] + self.steps - self.origin[i] for i in self.origin)
        assert self.now_s > before
        assert self.held == pytest.approx(known)
        assert self.context == pytest.approx(
            sum(book.isl[i] + self.steps - at for i, at in self.origin.items())
        )
        assert self.held <= self.rules.kv_tokens or len(self.batch) == 1
        assert len(self.batch) <= self.rules.max_sequences
        assert self.inside == len(self.batch) + len(self.waiting)
        assert self.decoding == len(self.origin)
        return finished


@settings(max_examples=40)
@given(
    seed=st.integers(0, 9999),
    room=st.sampled_from([500, 900, 4000]),
    most=st.sampled_from([3, 20]),
    servers=st.integers(1, 3),
)
def test_at_every_step_tokens_held_are_those_of_the_batch_and_within_the_room(
    seed, room, most, servers
) -> None:
    requests = poisson(50, 15.0, np.array([20.0, 150.0, 400.0]), np.array([1.0, 8.0, 40.0]), seed)
    rules, costs = Settings(300, most, room), StepCosts.of(step())
    group = Group("r", "mixed", servers, costs, rules, machine=lambda book, _: Watched(costs, rules, book))
    load = Load(requests, np.zeros(len(requests), dtype=np.int64), {})
    fleet = Fleet(Site([group], [[Way(1.0, "r")]], {}, {}), load)
    out = fleet.run()

    assert np.isfinite(out.end_s).all()
    assert fleet.ended == len(requests)
    assert all(s.held == 0 and not s.inside for s in fleet.pools["r"].servers)


@settings(max_examples=30)
@given(seed=st.integers(0, 9999), rate=st.sampled_from([3.0, 20.0]))
def test_every_token_is_made_once_and_every_prompt_token_computed_once(seed: int, rate: float) -> None:
    """Without preemption: what steps cost is what tokens cost, and a t0 for each step."""
    requests = poisson(80, rate, np.array([20.0, 700.0]), np.array([1.0, 8.0, 40.0]), seed)
    result = replay(step(), requests, Settings(256))
    work = 1e-4 * requests.isl.sum() + 1e-3 * (requests.osl - 1).sum()
    assert result.busy * result.span_s == pytest.approx(work + 0.01 * result.steps)


def test_of_many_servers_the_emptiest_is_found_as_of_few() -> None:
    """More servers than are looked through one by one: requests that never end fill them evenly."""
    n = 3 * (FEW + 8)
    requests = Requests(np.zeros(n), np.full(n, 10.0), np.full(n, 9.0))
    group = Group("r", "mixed", FEW + 8, StepCosts.of(step()), Settings())
    fleet = Fleet(Site([group], [[Way(1.0, "r")]], {}, {}), Load(requests, np.zeros(n, dtype=np.int64), {}))
    out = fleet.run()
    assert all(s.in_step[0] == 3 for s in fleet.pools["r"].servers)
    assert len(set(out.end_s.tolist())) == 1


def test_drafted_tokens_take_room_as_others_do() -> None:
    """Two tokens a step: 30 tokens of an answer end as 15 steps, but hold as much cache as 30."""
    one = Requests(np.zeros(1), np.full(1, 100.0), np.full(1, 31.0))
    group = Group("r", "mixed", 1, StepCosts.of(step()), Settings(), emitted=2.0)
    fleet = Fleet(Site([group], [[Way(1.0, "r")]], {}, {}), Load(one, np.zeros(1, dtype=np.int64), {}))
    fleet.run()
    (server,) = fleet.pools["r"].servers
    assert isinstance(server, Server)
    assert server.steps == 1 + 15
    assert server.in_step == (1, 100 + 2 * 16)


@pytest.mark.parametrize("in_flight", [None, 60])
def test_the_emptiest_server_is_the_same_however_it_is_looked_for(in_flight, monkeypatch) -> None:
    requests = poisson(600, 300.0, np.array([50.0, 400.0]), np.array([3.0, 40.0]))
    group = Group("r", "mixed", 12, StepCosts.of(step()), Settings())
    load = Load(requests, np.zeros(600, dtype=np.int64), {}, in_flight)
    ends = []
    for few in (0, 1000):
        monkeypatch.setattr(pools, "FEW", few)
        ends.append(Fleet(Site([group], [[Way(1.0, "r")]], {}, {}), load).run().end_s)
    assert ends[0].tolist() == ends[1].tolist()


def test_caches_on_their_way_to_a_server_that_fails_go_to_another() -> None:
    """By hand: a prompt of 20 ms, its cache under way until 1.02 s; its decode server fails at 0.5 s."""
    one = Requests(np.zeros(1), np.full(1, 100.0), np.full(1, 3.0))
    costs = StepCosts.of(step())
    groups = [Group("p", "prefill", 1, costs, Settings()), Group("d", "decode", 2, costs, Settings())]
    site = Site(groups, [[Way(1.0, "p", "d")]], {("p", "d"): Wire(1.0, 1.0, 0.0)}, {"p": np.ones(1)})
    load = Load(one, np.zeros(1, dtype=np.int64), {})
    other = Requests(np.zeros(2), np.full(2, 100.0), np.full(2, 3.0))
    assert Fleet(site, load).run().end_s == pytest.approx([1.02 + 2 * 0.011])
    two = replace(site, sent_bytes={"p": np.array([0.0, 1.0])})  # the first is on the first decode server
    fleet = Fleet(two, replace(load, requests=other, bucket=np.zeros(2, dtype=np.int64)), FAILING)
    out = fleet.run()
    assert out.end_s == pytest.approx([0.03 + 0.022, 1.03 + 0.022])
    assert [s.steps for s in fleet.pools["d"].servers] == [4]


FAILING = Rules(trouble=(Trouble("d", fails_s=0.5),))

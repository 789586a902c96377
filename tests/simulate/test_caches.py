"""Prefix caches of servers: by hand, within their room, and as the replay of one list has them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.replays import prefix
from planner.inputs.traces import Trace
from planner.simulate.caches import Blocks, PrefixCache
from planner.simulate.fleet import Fleet, Rules, Site
from planner.simulate.pools import Group, Load
from planner.simulate.requests import Requests, Settings, StepCosts
from planner.simulate.routing import PrefixAware, Way
from tests.simulate.test_replay import step


def blocks_of(prompts: list[list[int]], tokens: int = 10) -> Blocks:
    ends = np.cumsum([len(p) for p in prompts])
    return Blocks(
        np.array([b for p in prompts for b in p], dtype=np.int64),
        ends - [len(p) for p in prompts],
        ends,
        tokens,
    )


def test_the_beginning_of_a_prompt_is_found_again() -> None:
    """By hand, blocks of 10: 1 2 3 are there; of 1 2 9 the first two are found, of 5 1 none, as it begins
    otherwise; of what is all there one token is computed again."""
    cache = PrefixCache(blocks_of([[1, 2, 3], [1, 2, 9], [5, 1], [1, 2, 3]]), [30, 30, 20, 30])
    assert cache.enter(0, 100) == 30
    cache.done(0, 100)
    assert [cache.enter(i, 100) for i in (1, 2, 3)] == [10, 20, 1]
    assert (cache.found_tokens, cache.asked_tokens) == (20 + 29, 110)


def test_the_last_blocks_of_the_least_recently_used_prompt_go_first() -> None:
    """Room for 4 blocks: of 1 2 3 and then 7 8 the last one of the first prompt goes."""
    cache = PrefixCache(blocks_of([[1, 2, 3], [7, 8]]), [30, 20])
    for i in (0, 1):
        cache.done(i, 40)
        cache.left(i)
    assert cache.enter(0, 40) == 10
    assert list(cache.held) == [2, 1, 8, 7]


def test_prompts_in_work_are_not_counted_twice() -> None:
    """A request holds its prompt's room itself: that room is not taken from the cache, until it leaves."""
    cache = PrefixCache(blocks_of([[1, 2, 3]]), [30])
    cache.done(0, room_tokens=0)
    assert len(cache.held) == 3
    cache.left(0)
    cache.enter(0, room_tokens=20)
    assert len(cache.held) == 2


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), min_size=2, max_size=15))
def test_one_server_finds_what_one_list_has(prompts) -> None:
    """One request at a time, with room for all: the hits of the replay of caches alone. Blocks of a prompt
    are ids of all before them."""
    ids: dict[tuple[int, ...], int] = {}
    chained = [[ids.setdefault(tuple(p[: i + 1]), len(ids)) for i in range(len(p))] for p in prompts]
    n, sizes = len(prompts), np.array([10 * len(p) for p in prompts])
    blocks = blocks_of(chained)
    requests = Requests(100.0 * np.arange(n), sizes.astype(float), np.ones(n))
    group = Group("r", "mixed", 1, StepCosts.of(step()), Settings(kv_tokens=1e9))
    load = Load(requests, np.zeros(n, dtype=np.int64), {}, blocks=blocks)
    out = Fleet(Site([group], [[Way(1.0, "r")]], {}, {}), load).run()
    trace = Trace(
        "",
        requests.arrival_s,
        sizes,
        np.ones(n, dtype=np.int64),
        10,
        blocks.block,
        np.append(blocks.start, blocks.end[-1]),
    )
    known = np.minimum(10 * prefix.lru(trace, [1000]).hits[:, 0], sizes - 1)

    assert out.found == pytest.approx(known.sum() / sizes.sum())
    assert out.ttft_s == pytest.approx(0.01 + 1e-4 * (sizes - known))


def turns(conversations: int, each: int) -> tuple[Requests, Blocks]:
    """Conversations whose prompts each go on where the last one ended, one after the other."""
    prompts = [[100 * c + b for b in range(2 * (t + 1))] for t in range(each) for c in range(conversations)]
    n = len(prompts)
    sizes = np.array([10.0 * len(p) for p in prompts])
    return Requests(0.01 * np.arange(n), sizes, np.full(n, 3.0)), blocks_of(prompts)


def test_prefix_aware_routing_finds_what_others_miss() -> None:
    requests, blocks = turns(13, 6)
    group = Group("r", "mixed", 4, StepCosts.of(step()), Settings(kv_tokens=1e6))
    load = Load(requests, np.zeros(len(requests), dtype=np.int64), {}, blocks=blocks)
    site = Site([group], [[Way(1.0, "r")]], {}, {})
    blind, aware = Fleet(site, load).run(), Fleet(site, load, Rules(PrefixAware)).run()

    assert aware.found == pytest.approx(sum(2 * t for t in range(6)) / sum(2 * (t + 1) for t in range(6)))
    assert blind.found < 0.7 * aware.found
    assert aware.ttft_s.mean() < blind.ttft_s.mean()


def test_uneven_loads_are_evened_though_a_server_knows_the_prompt() -> None:
    """200 alike at once: after 65 on the one that knows them, the others get as many as it has."""
    n = 400
    requests = Requests(np.append(0.0, np.full(n - 1, 50.0)), np.full(n, 100.0), np.full(n, 50.0))
    load = Load(requests, np.zeros(n, dtype=np.int64), {}, blocks=blocks_of([list(range(10))] * n))
    group = Group("r", "mixed", 2, StepCosts.of(step()), Settings(kv_tokens=1e6))
    fleet = Fleet(Site([group], [[Way(1.0, "r")]], {}, {}), load, Rules(PrefixAware))
    fleet.run()
    peaks = sorted(s.ledger is not None and s.held_peak for s in fleet.pools["r"].servers)
    assert peaks[0] > 0.5 * peaks[1]

"""Served placement: the closed form by hand, the plans it is asked for, and the bound on them."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.formulations import placement
from solvers.linear import Limits
from solvers.placement import served as placement_served
from solvers.placement import served_bound as placement_served_bound
from solvers.placement.predict import BESIDE, LINKED, TOGETHER, behind, predict, renamed, together
from solvers.placement.service import Service
from solvers.placement.shares import SINK, SOURCE, balanced
from solvers.placement.types import Network

NET = Network(
    layers=4,
    capacity={"big": (1.0,) * 4, "small": (1.0,) * 2},
    kinds=("big", "small", "small"),
    link=np.full((3, 3), 1e6),
    source=np.full(3, 1e9),
    sink=np.full(3, 1e9),
)
SERVICE = Service(
    network=NET,
    room={"big": (80.0, 40.0, 25.0, 20.0), "small": (40.0, 20.0)},
    decode={"big": [(0.0, 0.0), (2.0, 0.01), (8.0, 0.01)], "small": [(2.0, 0.02), (8.0, 0.02)]},
    prompt_s={"big": 0.02, "small": 0.05},
    prompt=500.0,
    output=100.0,
    latency=np.full((3, 3), 0.001),
    from_source=np.full(3, 0.001),
    to_sink=np.full(3, 0.001),
)
"""One node that holds the model, or two stages of a small node each, or mixtures."""


def test_a_batch_beyond_the_last_knot_takes_as_much_more_as_before_it():
    """By hand: 1 ms at 512 requests, 2 ms at 1,024: 8 ms at 4,096, no less."""
    rising = replace(SERVICE, decode={"big": [(1.0, 0.001), (512.0, 0.001), (1024.0, 0.002)]})

    assert rising.decode_s("big", 768) == pytest.approx(0.0015)
    assert rising.decode_s("big", 4096) == pytest.approx(0.008)
    assert SERVICE.decode_s("big", 64) == 0.01


def test_one_node_serves_by_littles_law():
    """By hand: 20 requests, passes of 0.04 s, prompts of 0.08 s on that node."""
    plan = predict(SERVICE, {0: (0, 4)}, {(SOURCE, 0): 1.0, (0, SINK): 1.0})

    x = plan.tokens_per_s
    busy = 0.04 / (0.04 + math.exp(-x * 0.04) / x)
    alone = 0.002 + 0.04 * (1 + (1 - TOGETHER) * busy / 2) + 2e-9
    wait = 0.08 * behind(x / 100 * (0.08 + 2 * 5e-7)) / (1 - x / 100 * 0.08 - BESIDE * min(1, x * 0.04))
    assert plan.in_flight == 20
    assert plan.decode_s == pytest.approx(alone + wait, rel=1e-3)
    assert x == pytest.approx(20 / (plan.decode_s + plan.prompt_s / 100), rel=1e-3)


def test_a_slow_link_adds_what_tokens_wait_for_prompts_on_it():
    intervals, shares = {1: (0, 2), 2: (2, 4)}, {(SOURCE, 1): 1.0, (1, 2): 1.0, (2, SINK): 1.0}
    slow = replace(SERVICE, network=replace(NET, link=np.full((3, 3), 1e3)))

    fast, late = (predict(s, intervals, shares) for s in (SERVICE, slow))

    assert late.prompt_s - fast.prompt_s == pytest.approx(0.5, abs=0.06)
    assert late.decode_s > fast.decode_s
    assert late.decode_s - fast.decode_s < 0.5 * (1 + LINKED)


def test_prompts_that_take_several_nodes_are_waited_for_less():
    one = {(SOURCE, 1): 1.0, (1, SINK): 1.0}
    two = {(SOURCE, 1): 0.5, (SOURCE, 2): 0.5, (1, SINK): 0.5, (2, SINK): 0.5}
    short = replace(SERVICE, network=replace(NET, layers=2))

    alone, shared = predict(short, {1: (0, 2)}, one), predict(short, {1: (0, 2), 2: (0, 2)}, two)

    assert shared.in_flight == 2 * alone.in_flight
    assert shared.tokens_per_s > 1.5 * alone.tokens_per_s


def test_a_node_with_too_large_a_share_limits_what_is_in_flight():
    shares = {(SOURCE, 1): 0.8, (SOURCE, 2): 0.2, (1, SINK): 0.8, (2, SINK): 0.2}
    short = replace(SERVICE, network=replace(NET, layers=2))

    assert predict(short, {1: (0, 2), 2: (0, 2)}, shares).in_flight == pytest.approx(25.0)


def test_replicas_together_add_what_they_serve_and_mix_latencies():
    short = replace(SERVICE, network=replace(NET, layers=2))
    big, small = (predict(short.of([i]), {0: (0, 2)}, {(SOURCE, 0): 1.0, (0, SINK): 1.0}) for i in (0, 1))

    both = together([big, renamed(small, [1])])

    assert both.tokens_per_s == big.tokens_per_s + small.tokens_per_s
    assert min(big.decode_s, small.decode_s) < both.decode_s < max(big.decode_s, small.decode_s)
    assert both.shares[SOURCE, 0] / both.shares[SOURCE, 1] == pytest.approx(
        big.tokens_per_s / small.tokens_per_s
    )


def test_nodes_are_split_where_replicas_of_their_own_serve_better():
    """Two kinds that each hold the model: apart each answers at its own pace; together all at a mean one."""
    kinds = ("big", "big", "small", "small")
    wide = Network(2, NET.capacity, kinds, np.full((4, 4), 1e6), np.full(4, 1e9), np.full(4, 1e9))
    four = replace(
        SERVICE,
        network=wide,
        latency=np.full((4, 4), 0.001),
        from_source=np.full(4, 0.001),
        to_sink=np.full(4, 0.001),
    )

    fastest = placement_served.front(four)[-1]
    whole = placement_served._replica(four, math.inf)[-1]

    assert sorted(placement_served._Split(four, math.inf).best()) == [[0, 1], [2, 3]]
    assert fastest.tokens_per_s > whole.tokens_per_s
    assert set(fastest.intervals) == {0, 1, 2, 3}
    crossing = [e for e in fastest.shares if min(e) >= 0 and kinds[e[0]] != kinds[e[1]]]
    assert not crossing


def test_the_front_rises_in_tokens_and_latency_and_is_below_the_bound():
    front = placement_served.front(SERVICE)

    assert [p.tokens_per_s for p in front] == sorted(p.tokens_per_s for p in front)
    assert [p.decode_s for p in front] == sorted(p.decode_s for p in front)
    best = front[-1].tokens_per_s
    assert placement_served_bound.bound(SERVICE, best) >= best
    assert placement_served.chosen(front) in front


def test_the_chosen_plan_comes_with_chains_that_add_up_to_the_shares_of_links():
    found = placement.solve(SERVICE, "served", Limits())

    assert found.tokens_per_s == placement_served.chosen(found.front).tokens_per_s <= found.bound
    assert sum(c.share for c in found.chains) == pytest.approx(1.0)
    for i in found.intervals:
        through = sum(share for (_, to), share in found.shares.items() if to == i)
        assert sum(c.share for c in found.chains if i in dict(c.hops)) == pytest.approx(through)


def test_what_holds_no_model_is_infeasible_and_a_network_cannot_be_served():
    deep = replace(SERVICE, network=replace(NET, layers=40))

    assert placement.solve(deep, "served", Limits()).status == "infeasible"
    with pytest.raises(TypeError, match="Service"):
        placement.solve(NET, "served", Limits())


def test_plans_cover_all_layers_and_shares_add_up():
    for plan in placement_served.front(SERVICE):
        for layer in range(NET.layers):
            assert any(s <= layer < e for s, e in plan.intervals.values())
        assert sum(s for (a, _), s in plan.shares.items() if a == SOURCE) == pytest.approx(1.0)
        assert sum(s for (_, b), s in plan.shares.items() if b == SINK) == pytest.approx(1.0)


def test_shares_over_links_that_differ_load_the_slower_less():
    """Two regions; node 2 is reached at 30 and at 10: its half comes 3 : 1 where node 3 can take the rest."""
    link = np.array([[0, 1e6, 30, 10], [1e6, 0, 10, 30], [0, 0, 0, 1e6], [0, 0, 1e6, 0]], float)
    net = Network(2, {"a": (1e3,)}, ("a",) * 4, link, np.full(4, 1e6), np.full(4, 1e6))

    shares = balanced(net, {0: (0, 1), 1: (0, 1), 2: (1, 2), 3: (1, 2)}, dict.fromkeys(range(4), 0.5))

    assert shares[0, 2] == pytest.approx(0.375)
    assert shares[0, 3] == pytest.approx(0.125)


def test_the_bound_of_one_node_is_its_memory_over_the_seconds_of_its_layers():
    """By hand: 80 layers of requests, 4 of each; each holds one for 10.3 ms a token, and 2 ms of hops."""
    assert placement_served_bound.bound(SERVICE.of([0]), 1e-6) == pytest.approx(80 / 4 / (4 * 0.0103 + 0.002))


def test_a_batch_of_one_takes_as_long_as_the_next_that_was_timed():
    timed = replace(SERVICE, decode={"big": [(1.0, 9.0), (2.0, 0.01), (8.0, 0.04)]})

    assert [timed.decode_s("big", batch) for batch in (1, 2, 5, 9)] == pytest.approx(
        [0.01, 0.01, 0.025, 0.045]
    )


@st.composite
def services(draw):
    kinds = tuple(draw(st.lists(st.sampled_from(["big", "small"]), min_size=1, max_size=3)))
    n = len(kinds)
    net = Network(4, NET.capacity, kinds, np.full((n, n), 1e6), np.full(n, 1e9), np.full(n, 1e9))
    seconds = st.floats(0.001, 0.1)
    return replace(
        SERVICE,
        network=net,
        prompt_s={"big": draw(seconds), "small": draw(seconds)},
        decode={k: [(2.0, t := draw(seconds)), (50.0, 2 * t)] for k in ("big", "small")},
        latency=np.full((n, n), 0.001),
        from_source=np.full(n, 0.001),
        to_sink=np.full(n, 0.001),
    )


@settings(max_examples=4, derandomize=True, database=None, phases=[Phase.generate])
@given(services())
def test_no_stages_of_small_clusters_exceed_the_bound(service):
    """All placements in stages, shares in proportion to room."""
    best = max((p.tokens_per_s for p in all_staged(service)), default=0.0)
    if best == 0:
        assert placement_served.front(service) == []
        return

    assert placement_served_bound.bound(service, 1e-6) >= best * (1 - 1e-6)
    assert placement_served.front(service)[-1].tokens_per_s >= 0.8 * best


def all_staged(service):
    net = service.network
    options = [
        [
            None,
            *((s, s + k) for k in range(1, len(net.capacity[kind]) + 1) for s in range(net.layers - k + 1)),
        ]
        for kind in net.kinds
    ]
    for choice in product(*options):
        intervals = {i: iv for i, iv in enumerate(choice) if iv}
        stages = sorted(set(intervals.values()))
        if not stages or stages[0][0] != 0 or stages[-1][1] != net.layers:
            continue
        if any(a[1] != b[0] for a, b in pairwise(stages)):
            continue
        through = {}
        for stage in stages:
            rooms = {
                i: service.room[net.kinds[i]][iv[1] - iv[0] - 1] for i, iv in intervals.items() if iv == stage
            }
            through |= {i: r / sum(rooms.values()) for i, r in rooms.items()}
        yield predict(service, intervals, balanced(net, intervals, through))

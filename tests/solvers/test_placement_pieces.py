"""Parts of the placement of layers against trying everything, or by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.placement import stages
from solvers.placement.blocks import minimal
from solvers.placement.patterns import extended, verdict
from solvers.placement.routing import decomposed, flow, seated, shares
from solvers.placement.shares import SINK, SOURCE
from solvers.placement.stages import layouts, planned
from solvers.placement.types import Network, part, without_links
from tests.solvers.test_placement_served import SERVICE


def network(layers: int, capacity: dict[str, tuple[float, ...]], kinds: str, link: float = np.inf) -> Network:
    n = len(kinds)
    free = np.full(n, np.inf)
    return Network(layers, capacity, tuple(kinds), np.full((n, n), link), free, free)


@st.composite
def clusters(draw: st.DrawFn) -> Network:
    """Up to four nodes of two kinds that hold one to three layers, the more the slower."""
    kinds = "".join(draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=4)))
    tables = st.lists(st.integers(1, 12), min_size=1, max_size=3)
    capacity = {kind: tuple(sorted((float(c) for c in draw(tables)), reverse=True)) for kind in "ab"}
    return network(draw(st.integers(1, 4)), capacity, kinds)


@settings(max_examples=60, derandomize=True)
@given(net=clusters())
def test_the_flow_of_the_best_placement_is_not_refuted(net: Network):
    options = [range(len(net.capacity[kind]) + 1) for kind in net.kinds]
    best = max(_carried(net, held) for held in product(*options))
    if best == 0:
        return

    found = verdict(net, best * (1 - 1e-9))

    assert found.layers >= net.layers - 1e-7
    assert sum(found.worth[kind] for kind in net.kinds) >= net.layers - 1e-7


def test_what_the_work_of_all_nodes_cannot_do_is_refuted():
    """By hand: a node of three layers at 12, two at 20, or one at 40, and two of one at 20: four at 20."""
    net = network(4, {"a": (40.0, 20.0, 12.0), "b": (20.0, 10.0)}, "abb")

    assert verdict(net, 20.0).layers == pytest.approx(4.0)
    assert verdict(net, 30.0).layers < 4 - 1e-7
    assert verdict(net, 1e4).layers < 1


def _carried(net: Network, held: tuple[int, ...]) -> float:
    """What the layer with the least is carried by, where nodes that hold so many layers stand best."""
    best = 0.0
    for chosen in product(
        *([(s, s + k) for s in range(net.layers - k + 1)] if k else [(0, 0)] for k in held)
    ):
        on = np.zeros(net.layers)
        for kind, (s, e) in zip(net.kinds, chosen, strict=True):
            on[s:e] += net.capacity[kind][e - s - 1] if e > s else 0.0
        best = max(best, float(on.min()))
    return best


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_an_item_more_leaves_the_states_that_none_beats_in_both(seed: int):
    r = np.random.default_rng(seed)
    reach, paid, capacity, cost = (r.integers(0, 7, n).astype(float) for n in (4, 4, 3, 3))
    flow, limit, rate = 8.0, float(r.integers(4, 12)), 0.5
    ways = [(a, i, min(reach[a] + capacity[i], flow), paid[a] + cost[i]) for a in range(4) for i in range(3)]
    best = {
        (to, pay) for *_, to, pay in ways if not any(t >= to and p <= pay for t, p in _others(ways, to, pay))
    }

    to, pay, before, item = extended(reach, paid, capacity, cost, flow, limit, rate)

    assert sorted(zip(to, pay, strict=True)) == sorted(s for s in best if s[1] + (flow - s[0]) * rate < limit)
    assert {(a, i, t, p) for a, i, t, p in zip(before, item, to, pay, strict=True)} <= set(ways)


def _others(ways: list[tuple[int, int, float, float]], to: float, pay: float) -> set[tuple[float, float]]:
    return {way[2:] for way in ways} - {(to, pay)}


@settings(max_examples=40, derandomize=True)
@given(net=clusters(), at=st.floats(1.0, 30.0))
def test_blocks_are_the_stages_that_need_every_node(net: Network, at: float):
    kinds = list(dict.fromkeys(net.kinds))
    expected = set()
    for k in range(1, net.layers + 1):
        able = [kind for kind in kinds if k <= len(net.capacity[kind])]
        for counts in product(*(range(net.kinds.count(kind) + 1) for kind in able)):
            each = [net.capacity[kind][k - 1] for kind, n in zip(able, counts, strict=True) for _ in range(n)]
            if each and sum(each) >= at * (1 - 1e-9) > sum(each) - min(each) + 1e-9:
                expected.add((k, tuple(sorted((kind, n) for kind, n in zip(able, counts, strict=True) if n))))

    found = list(minimal(net, 7, at, dict.fromkeys("ab", 0.0), slack=0.0))

    assert {(b.length, tuple(sorted(b.nodes))) for b in found} == expected
    assert len(found) == len(expected)
    for b in found:
        reach = sum(net.capacity[kind][b.length - 1] * n for kind, n in b.nodes)
        assert (b.region, b.reach) == (7, pytest.approx(reach))


def test_blocks_that_are_worth_more_than_their_layers_and_the_slack_are_left_out():
    net = network(2, {"a": (10.0, 10.0), "b": (5.0, 5.0)}, "abb")

    def found(slack: float) -> set[tuple[int, tuple[tuple[str, int], ...]]]:
        return {(b.length, b.nodes) for b in minimal(net, 0, 10.0, {"a": 1.0, "b": 1.5}, slack)}

    assert found(0.0) == {(1, (("a", 1),)), (2, (("a", 1),))}
    assert found(1.0) == found(0.0) | {(2, (("b", 2),))}
    assert found(2.0) == found(1.0) | {(1, (("b", 2),))}


def test_the_flow_is_what_nodes_and_links_let_through():
    """By hand: 0 holds both layers at 6; 1 hands 4 of its 9 to 2 over the link."""
    net = network(2, {"a": (9.0, 6.0)}, "aaa", link=4.0)
    intervals = {0: (0, 2), 1: (0, 1), 2: (1, 2)}

    assert flow(net, intervals) == pytest.approx(10.0, rel=1e-6)
    assert flow(without_links(net), intervals) == pytest.approx(15.0, rel=1e-6)
    assert flow(net, {1: (0, 1)}) == flow(net, {}) == 0.0
    parts = {(SOURCE, 0): 0.6, (SOURCE, 1): 0.4, (0, SINK): 0.6, (1, 2): 0.4, (2, SINK): 0.4}
    assert shares(net, intervals) == pytest.approx(parts)
    assert seated(without_links(net), [((0, "a"), (0, 1)), ((0, "a"), (1, 2))]) == {0: (0, 1), 1: (1, 2)}


@settings(max_examples=40, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(2, 3), st.floats(0.01, 1)), min_size=1, max_size=6))
def test_chains_add_up_to_the_shares_of_the_links_they_take(ways: list[tuple[int, int, float]]):
    """Nodes 0 and 1 hold the first two of three layers, 2 and 3 the last."""
    intervals = {0: (0, 2), 1: (0, 2), 2: (2, 3), 3: (2, 3)}
    total, links = sum(share for *_, share in ways), dict[tuple[int, int], float]()
    for a, b, share in ways:
        for link in ((SOURCE, a), (a, b), (b, SINK)):
            links[link] = links.get(link, 0.0) + share / total

    found = decomposed(intervals, links)

    taken = dict[tuple[int, int], float]()
    for chain in found:
        assert [layers for _, layers in chain.hops] == [(0, 2), (2, 3)]
        (a, _), (b, _) = chain.hops
        for link in ((SOURCE, a), (a, b), (b, SINK)):
            taken[link] = taken.get(link, 0.0) + chain.share
    assert taken == pytest.approx(links, abs=1e-6)
    assert found[0].share == max(chain.share for chain in found)


def test_a_plan_of_stages_holds_every_layer_and_as_many_requests_as_were_asked_for():
    """Two regions that a slow link joins, each with a node that holds the model and two that hold half."""
    net, n = SERVICE.network, 6
    link = np.full((n, n), 0.5)
    link[:3, :3] = link[3:, 3:] = 1e6
    two = replace(
        SERVICE,
        network=replace(net, kinds=net.kinds * 2, link=link, source=np.full(n, 1e9), sink=np.full(n, 1e9)),
        latency=np.full((n, n), 0.001),
        from_source=np.full(n, 0.001),
        to_sink=np.full(n, 0.001),
    )
    assert two.network.regions == (0, 0, 0, 1, 1, 1)
    orders = {layout.groups for layout in layouts(two)}
    assert orders == {((0,),), ((1,),), ((0,), (1,)), ((1,), (0,)), ((0, 1),)}

    plans = [(layout, planned(two, layout, 20.0, 1)) for layout in layouts(two)]

    assert all(plan is not None for _, plan in plans)
    for layout, plan in plans:
        assert plan is not None
        assert plan.in_flight >= 20.0 * (1 - 1e-9)
        assert all(any(s <= at < e for s, e in plan.intervals.values()) for at in range(net.layers))
        assert {two.network.regions[i] for i in plan.intervals} == set(layout.share)


def test_as_many_requests_as_all_memory_holds_take_every_node_of_each_kind():
    """By hand: the large node holds 40 for two layers, each small one 40 for one."""
    plan = planned(SERVICE, next(layouts(SERVICE)), 40.0, 1)

    assert plan is not None
    assert plan.in_flight == pytest.approx(40.0)
    assert sorted(end - first for first, end in plan.intervals.values()) == [1, 1, 2]


def test_no_stage_is_stated_after_the_time(monkeypatch: pytest.MonkeyPatch):
    """The first look at the clock is on time, the later ones are not."""
    clock = count()
    monkeypatch.setattr(stages.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(stages, "_stage_s", pytest.fail)
    layout = next(layouts(SERVICE))

    for until in (-1.0, 0.5):
        assert planned(SERVICE, layout, 1.0, 1, until) is None


def test_stages_that_are_stated_in_part_make_no_plan(monkeypatch: pytest.MonkeyPatch):
    """The time ends after each look at the clock once: there is no plan, or the whole of it."""
    clock, layout = count(), next(layouts(SERVICE))
    whole = planned(SERVICE, layout, 20.0, 1)
    monkeypatch.setattr(stages.time, "perf_counter", lambda: float(next(clock)))
    found = [planned(SERVICE, layout, 20.0, 1, next(clock) + looks) for looks in range(40)]

    assert found[0] is None
    assert found[-1] == whole
    assert all(plan in (None, whole) for plan in found)


def test_a_part_of_a_network_keeps_the_links_of_its_nodes():
    net = replace(network(2, {"a": (9.0,)}, "aaa"), link=np.arange(9.0).reshape(3, 3))

    assert part(net, [2, 0]).link.tolist() == [[8.0, 6.0], [2.0, 0.0]]

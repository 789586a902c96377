"""Placement against trying every placement of small clusters, with and without networks, and by hand."""

from collections import deque
from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.formulations import placement, placement_bound
from benchmarks.formulations.placement_chain import carried
from benchmarks.formulations.placement_evened import evened
from solvers.linear import Limits
from solvers.placement.replan import Cover
from solvers.placement.types import Network

SMALL = Network(
    layers=4,
    capacity={"big": (40.0, 20.0, 12.0), "small": (20.0, 10.0)},
    kinds=("big", "small", "small"),
    link=np.full((3, 3), np.inf),
    source=np.full(3, np.inf),
    sink=np.full(3, np.inf),
)
"""By hand: big holds two layers at 20, each small one layer at 20: four layers, and none to spare."""


def linked(kinds, capacity, layers, link):
    n = len(kinds)
    return Network(layers, capacity, tuple(kinds), np.array(link), np.full(n, np.inf), np.full(n, np.inf))


def greatest_flow(net, intervals):
    """Shortest augmenting paths on a dense matrix."""
    nodes = sorted(intervals)
    n = len(nodes)
    room = np.zeros((2 * n + 2, 2 * n + 2))
    for a, i in enumerate(nodes):
        s, e = intervals[i]
        room[a, n + a] = net.capacity[net.kinds[i]][e - s - 1]
        room[2 * n, a] = min(1e9, net.source[i]) if s == 0 else 0.0
        room[n + a, 2 * n + 1] = min(1e9, net.sink[i]) if e == net.layers else 0.0
        for b, j in enumerate(nodes):
            if i != j and intervals[j][0] <= e < intervals[j][1]:
                room[n + a, b] = min(1e9, net.link[i, j])
    total = 0.0
    while True:
        came, queue = {2 * n: -1}, deque([2 * n])
        while queue and 2 * n + 1 not in came:
            u = queue.popleft()
            for v in np.flatnonzero(room[u] > 1e-9):
                if int(v) not in came:
                    came[int(v)] = u
                    queue.append(int(v))
        if 2 * n + 1 not in came:
            return total
        path, v = [], 2 * n + 1
        while came[v] >= 0:
            path.append((came[v], v))
            v = came[v]
        step = min(room[u, v] for u, v in path)
        for u, v in path:
            room[u, v] -= step
            room[v, u] += step
        total += step


def best_by_trying_all(net):
    """Placements in the order of the least capacity on a layer, as long as that can beat the best."""
    options = []
    for kind in net.kinds:
        table = net.capacity[kind][: net.layers]
        held = [(s, s + k + 1) for k in range(len(table)) for s in range(net.layers - k)]
        options.append([None, *held])
    rows = [
        np.array([[0.0] * net.layers if iv is None else _covers(net, kind, iv) for iv in ivs])
        for kind, ivs in zip(net.kinds, options, strict=True)
    ]
    layers = rows[0]
    for more in rows[1:]:
        layers = (layers[:, None, :] + more[None, :, :]).reshape(-1, net.layers)
    least = layers.min(axis=1)
    choices = list(product(*(range(len(o)) for o in options)))
    best = 0.0
    for at in np.argsort(-least):
        if least[at] <= best + 1e-9:
            return best
        picked = {i: options[i][o] for i, o in enumerate(choices[at]) if options[i][o] is not None}
        best = max(best, greatest_flow(net, picked))
    return best


def _covers(net, kind, interval):
    s, e = interval
    return [net.capacity[kind][e - s - 1] if s <= layer < e else 0.0 for layer in range(net.layers)]


@st.composite
def clusters(draw, networked):
    kinds = draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=4))
    most = 4 if len(kinds) < 4 else 3
    layers = draw(st.integers(1, 8 if len(kinds) < 4 else 6))
    capacity = {}
    for kind in "ab":
        sizes = draw(st.integers(1, most))
        capacity[kind] = tuple(
            float(c) for c in draw(st.lists(st.integers(0, 30), min_size=sizes, max_size=sizes))
        )
    n = len(kinds)
    speeds = st.sampled_from([0.0, 1.0, 4.0, 9.0, 15.0, 1e6]) if networked else st.just(np.inf)
    link = np.array([[draw(speeds) for _ in range(n)] for _ in range(n)])
    return linked(kinds, capacity, layers, link)


@pytest.mark.parametrize("networked", [False, True])
def test_agrees_with_trying_every_placement(networked):
    @settings(max_examples=100, derandomize=True, database=None, phases=[Phase.generate])
    @given(clusters(networked))
    def agrees(net):
        best = best_by_trying_all(net)
        found = placement.solve(net, "maxflow", Limits(seconds=20))

        assert found.tokens_per_s == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert found.bound >= best * (1 - 1e-6)
        assert found.status == "optimal"
        assert sum(c.share for c in found.chains) == pytest.approx(1.0 if best > 0 else 0.0)
        for c in found.chains:
            runs = [layers for _, layers in c.hops]
            assert [r[0] for r in runs] == [0, *(r[1] for r in runs[:-1])]
            assert runs[-1][1] == net.layers
            assert all(found.intervals[i][0] <= s < e <= found.intervals[i][1] for i, (s, e) in c.hops)
        assert greatest_flow(net, found.intervals) == pytest.approx(found.tokens_per_s, rel=1e-5, abs=1e-6)

    agrees()


def test_two_kinds_share_four_layers_at_twenty():
    found = placement.solve(SMALL, "maxflow", Limits())

    assert found.tokens_per_s == pytest.approx(20.0)
    assert found.bound == pytest.approx(20.0)
    assert sorted(e - s for s, e in found.intervals.values()) == [1, 1, 2]


def test_a_slow_link_between_two_zones_lowers_the_flow_and_the_bound():
    """All four nodes are needed, in a row, so that at 20 everything would cross one link of 5."""
    link = np.full((4, 4), 5.0)
    link[:2, :2] = link[2:, 2:] = 1e6
    net = linked("aabb", {"a": (20.0,), "b": (20.0,)}, 4, link)

    found = placement.solve(net, "maxflow", Limits())

    assert (found.tokens_per_s, found.status) == (pytest.approx(5.0), "optimal")


def test_zones_that_hold_the_model_are_added_where_nothing_passes_between_them():
    link = np.zeros((4, 4))
    link[:2, :2] = link[2:, 2:] = 1e6
    net = linked("aabb", {"a": (20.0,), "b": (12.0,)}, 2, link)

    assert placement.solve(net, "maxflow", Limits()).tokens_per_s == pytest.approx(32.0)


def test_no_node_can_hold_what_is_asked():
    found = placement.solve(linked("a", {"a": (5.0,)}, 2, [[0.0]]), "maxflow", Limits())

    assert (found.tokens_per_s, found.status, found.intervals) == (0.0, "optimal", {})


def test_the_same_question_has_the_same_answer():
    assert placement.solve(SMALL, "maxflow", Limits()) == placement.solve(SMALL, "maxflow", Limits())


@pytest.mark.parametrize("flow", [10.0, 20.0, 20.1, 30.0])
def test_a_flow_is_refuted_only_above_the_best(flow):
    assert placement_bound.refuted(SMALL, flow) == (flow > 20.0)


def test_nodes_hand_over_what_their_links_and_capacities_allow():
    assert carried((10.0, 2.0), (6.0, 3.0), 4.0) == pytest.approx(9.0)
    assert carried((10.0,), (10.0,), 4.0) == 4.0


def test_evening_carries_more_on_the_least_carried_layer():
    """By hand: two layers at 20 on a node; the fourth, twice on the first half, is missed on the second."""
    wide, free = np.full((5, 5), np.inf), np.full(5, np.inf)
    net = Network(4, {"a": (40.0, 20.0, 10.0, 5.0)}, ("a",) * 5, wide, free, free)

    even = evened(net, {0: (0, 2), 1: (0, 2), 2: (0, 2), 3: (2, 4)}, deadline=np.inf)

    assert Cover(net, even).carried.min() >= 40.0

"""Nodes that hold some of the layers: units and what joins them, by hand; loads of what passes them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from planner.designs.shape import like
from planner.problems.chain_units import FULLEST, KEPT
from planner.problems.chains import ACTIVATION_BYTES, MOST_UNITS, TOKEN_BYTES, pose
from solvers.placement.predict import predict
from solvers.placement.shares import SINK, SOURCE
from tests.candidates.samples import CHAT, ask

HIDDEN = 4096
MESSAGE = 2 * HIDDEN


def cluster(gb_per_s=0.05, latency_ms=20.0, here=2, there=1):
    """L4s at home, and T4s in an office behind a link."""
    nodes = [
        Node(name="a", device="l4", gpus_per_node=1, count=here, zone="home", nic_gb_per_s=1.0),
        Node(name="t", device="t4", gpus_per_node=1, count=there, zone="office", nic_gb_per_s=0.5),
    ]
    link = Link(between=["home", "office"], gb_per_s=gb_per_s, latency_ms=latency_ms)
    return resolve(Cluster(nodes=nodes, links=[link]))


POSED = pose(cluster(), ask())
HALVES = {0: (0, 16), 1: (16, 32)}
LINE = {(SOURCE, 0): 1.0, (0, 1): 1.0, (1, SINK): 1.0}


def served(intervals=None, shares=None, posed=POSED):
    return predict(posed.service, intervals or HALVES, shares or LINE)


def test_units_are_the_gpus_of_all_nodes_in_order():
    assert [(u.node_class, u.node, u.tp) for u in POSED.units] == [("a", 0, 1), ("a", 1, 1), ("t", 0, 1)]
    assert POSED.service.network.layers == 32


def test_a_unit_is_as_wide_as_a_node():
    wide = Node(name="w", device="l4", gpus_per_node=4, count=2)
    posed = pose(resolve(Cluster(nodes=[wide])), ask())

    assert posed.tp == {"w": 4}
    assert len(posed.units) == 2


def test_too_many_units_answers_of_one_token_and_too_small_cards_are_not_posed():
    one = CHAT.model_copy(update={"buckets": [CHAT.buckets[0].model_copy(update={"osl": 1})]})

    assert pose(cluster(here=MOST_UNITS - 1), ask()) is not None
    assert pose(cluster(here=MOST_UNITS), ask()) is None
    assert pose(cluster(), ask(workload=one)) is None


def test_what_room_layers_leave_is_filled_to_four_fifths():
    """By hand: k layers of 436 MB leave room - k x 436 MB; a request holds k x 4 KiB a token of 1,100."""
    room = POSED.service.room["a"]
    layer = 2 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
    each = 2 * 2 * 8 * 128 * 1100.0
    total = [r * k * each / KEPT + k * layer for k, r in enumerate(room, start=1)]

    assert total == pytest.approx([total[0]] * len(room), rel=0.01)
    assert 18e9 < total[0] < 24e9
    assert all(x > y > 0 for x, y in pairwise(room))


def test_capacity_is_a_token_a_layer_after_the_other():
    """Of k layers a k-th of what the batch that fits there makes, prompts' time taken off."""
    s = POSED.service
    for kind in ("a", "t"):
        batch, seconds = np.array(s.decode[kind]).T
        for k, (room, most) in enumerate(zip(s.room[kind], s.network.capacity[kind], strict=True), start=1):
            slope = (seconds[-1] - seconds[-2]) / (batch[-1] - batch[-2])
            full_s = np.interp(room, batch, seconds) + slope * max(room - batch[-1], 0.0)
            each = full_s / max(room, 1.0) + s.prompt_s[kind] / 199
            assert most == pytest.approx(1 / (k * each))


def test_messages_take_the_nic_at_home_and_the_link_between_places():
    """By hand: 8 KiB of activations over 1 GB/s, 0.05 GB/s and 20 ms."""
    net, wait = POSED.service.network, POSED.service.latency

    assert MESSAGE == ACTIVATION_BYTES * HIDDEN
    assert net.link[0, 1] == net.link[1, 0] == pytest.approx(1e9 / MESSAGE)
    assert net.link[0, 2] == net.link[2, 1] == pytest.approx(0.05e9 / MESSAGE)
    assert net.link[0, 0] == 0
    assert 0.02 < wait[0, 2] < 0.03
    assert wait[0, 1] < 0.01
    assert net.source[0] == net.sink[0] == pytest.approx(0.5e9 / TOKEN_BYTES)


def test_the_nic_is_the_limit_where_the_link_is_faster():
    assert pose(cluster(gb_per_s=9.0), ask()).service.network.link[0, 2] == pytest.approx(0.5e9 / MESSAGE)


def test_places_without_a_link_are_not_joined():
    apart = cluster()
    posed = pose(replace(apart, links=()), ask())

    assert posed.service.network.link[0, 2] == 0
    assert posed.service.network.link[0, 1] > 0
    assert posed.shared == ()


def test_requests_come_from_where_most_of_them_fit():
    """Two L4s hold more than a T4: the office is 20 ms away; of four T4s with one L4 home is."""
    here = POSED.service
    away = pose(cluster(here=1, there=8), ask()).service

    assert here.from_source.tolist() == [0, 0, 0.02]
    assert away.from_source.tolist() == [0.02, *[0] * 8]
    assert (here.to_sink - here.from_source > 0).all()


def test_a_declared_link_carries_each_direction_by_itself():
    up, down = POSED.shared

    assert up[0] == down[0] == pytest.approx(0.05e9 / MESSAGE)
    assert (up[1] == down[1].T).all()
    assert sorted((int(up[1].sum()), int(down[1].sum()))) == [2, 2]


def test_a_link_is_used_by_the_tokens_that_cross_it_prompts_too():
    """By hand: tokens/s x (1 + 1,000 / 199) messages each, of those that go from an L4 to the T4."""
    over = served({0: (0, 24), 2: (24, 32)}, {(SOURCE, 0): 1.0, (0, 2): 1.0, (2, SINK): 1.0})
    messages = over.tokens_per_s * (1 + 1000 / 199)

    assert POSED.link_load(over) == pytest.approx(messages * MESSAGE / 0.05e9)
    assert POSED.link_load(served()) == 0


def test_a_unit_is_busy_with_its_layers_the_engines_own_seconds_and_the_head_after_the_last_layer():
    """By hand; of a small model on a quick device the LM head alone takes a tenth of a step."""
    s, own, model = POSED.service, served(), POSED.models["a"]
    head_s = float(model.layers.head_s(np.array([own.in_flight]), like(1, 1))[0])
    step_s = 16 * s.decode_s("a", own.in_flight) + model.tuning.step_s + head_s
    request_s = 16 * s.prompt_s["a"] + model.tuning.step_s + 199 * step_s / own.in_flight

    assert head_s > 0
    assert POSED.node_load(own) == pytest.approx(own.tokens_per_s / 199 * request_s)


def test_ways_of_a_replica_share_it_and_mean_what_it_takes():
    """Two chains that fork at the last layers: the one over the slow link is longer."""
    fork = served(
        {0: (0, 24), 1: (24, 32), 2: (24, 32)},
        {(SOURCE, 0): 1.0, (0, 1): 0.75, (0, 2): 0.25, (1, SINK): 0.75, (2, SINK): 0.25},
    )
    ways = {chain.hops[-1][0]: (chain.share, prompt, token) for chain, prompt, token in POSED.ways(fork)}

    assert {i: w[0] for i, w in ways.items()} == {1: pytest.approx(0.75), 2: pytest.approx(0.25)}
    assert ways[2][1] > ways[1][1]
    assert ways[2][2] > ways[1][2]
    for figure, mean in ((1, fork.prompt_s), (2, fork.decode_s)):
        assert sum(w[0] * w[figure] for w in ways.values()) == pytest.approx(mean)


def test_parts_that_share_no_unit_are_replicas_of_their_own():
    both = {0: (0, 32), 1: (0, 32)}
    shares = {(SOURCE, 0): 0.5, (0, SINK): 0.5, (SOURCE, 1): 0.5, (1, SINK): 0.5}
    tiny = pose(cluster(), ask(workload=CHAT))
    s = tiny.service
    if len(s.room["a"]) < 32:
        both = {0: (0, 16), 1: (0, 16)}
    apart = [r.intervals for r in tiny.replicas(served(both, shares))]
    joined = tiny.replicas(served())

    assert apart == [{0: both[0]}, {1: both[1]}]
    assert [r.intervals for r in joined] == [HALVES]
    assert joined[0].shares == {k: pytest.approx(v) for k, v in LINE.items()}


def test_half_the_room_is_half_of_the_requests_in_flight():
    (whole,), (half,) = POSED.replicas(served()), POSED.replicas(served(), 0.5)

    assert half.in_flight == pytest.approx(whole.in_flight / 2)
    assert POSED.held_load(half) < POSED.held_load(whole)
    assert POSED.held_load(whole) == pytest.approx(KEPT, rel=0.3)


def test_a_plan_is_eased_until_a_link_that_two_ways_share_carries_it():
    """Each of two ways has the link for itself in the plan; together they have more than it carries."""
    narrow = pose(cluster(gb_per_s=0.0004, there=2), ask())
    halves = {0: (0, 24), 1: (0, 24), 2: (24, 32), 3: (24, 32)}
    ways = {(0, 2): 0.5, (1, 3): 0.5}
    ends = {(SOURCE, i): 0.5 for i in (0, 1)} | {(i, SINK): 0.5 for i in (2, 3)}
    over = served(halves, ends | ways, narrow)
    eased = narrow.eased(over)
    together = sum(narrow.link_load(r) for r in eased)

    assert narrow.link_load(over) > 1
    assert not narrow.carried(narrow.replicas(over))
    assert narrow.carried(eased)
    assert 0.97 < together <= 1
    assert all(narrow.node_load(r) <= 1.0 and narrow.held_load(r) <= FULLEST for r in eased)

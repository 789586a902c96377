"""What a fleet may lose, by hand and by trying every loss; what the rest serves; how it is told."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.inputs.options import Survive
from planner.plans import losses as module
from planner.plans.found import groups
from planner.plans.insured import Insured
from planner.plans.losses import alike, least_left, losses, placed, rests, running
from planner.plans.placement import Placed
from planner.plans.strain import SLACK, strain
from solvers.linear import Limits
from tests.beside.solved import on

LIMITS = Limits(gap=0.001, seconds=10)


def standing(*nodes: dict[str, int]):
    """A fleet whose replicas stand so on the nodes of one class."""
    counts = {}
    for own in nodes:
        for c, k in own.items():
            counts[c] = counts.get(c, 0) + k
    flows = {(c, "0"): 1.0 for c in counts}
    found = SimpleNamespace(solution=SimpleNamespace(replicas=counts, flows=flows))
    held = {("g", i): own for i, own in enumerate(nodes) if own}
    return found, Placed({}, {"g": len(held)}, held)


def test_nodes_with_the_same_replicas_are_alike():
    _, placed_ = standing({"a": 1}, {"a": 1}, {"a": 1, "b": 2})
    kinds = alike(placed_)

    assert [(kind.nodes, dict(kind.held)) for kind in kinds] == [
        ([("g", 0), ("g", 1)], {"a": 1}),
        ([("g", 2)], {"a": 1, "b": 2}),
    ]


def test_a_loss_within_another_is_left_out():
    """By hand: who serves without a and b serves without a; losing two nodes loses three of a, or b too."""
    found, on_nodes = standing({"a": 1}, {"a": 1}, {"a": 1, "b": 2})

    assert set(losses(found, on_nodes, 1)) == {(("a", 1), ("b", 2))}
    assert set(losses(found, on_nodes, 2)) == {(("a", 2), ("b", 2))}
    assert losses(found, on_nodes, 2)[("a", 2), ("b", 2)] == {"g": 2}
    assert set(losses(found, on_nodes, 9)) == {(("a", 3), ("b", 2))}


def test_a_replica_on_two_lost_nodes_is_lost_once():
    found, on_nodes = standing({"a": 1}, {"a": 1})
    found.solution.replicas["a"] = 1

    assert set(losses(found, on_nodes, 2)) == {(("a", 1),)}


def test_the_worst_rest_counts(monkeypatch):
    monkeypatch.setattr(module, "rests", lambda *_: [SimpleNamespace(rps=x) for x in (3.0, 2.0, 4.0)])

    assert least_left(None, None, LIMITS) == 2.0


def test_replicas_that_fit_on_one_node_stand_on_two_where_one_may_be_lost():
    form = Node(name="n", device="h100-sxm", count=2, gpus_per_node=2, price_usd_per_hour=2.0)
    found = on(resolve(Cluster(nodes=[form])), "llama-3.1-8b", tpot_ms=50)[2]
    one = next(c.id for c in found.pool.candidates if c.gpus == 1 and c.role == "mixed")
    few = replace(found.solution, replicas={one: 2}, flows={(one, "0"): 1.0}, held={})
    own = replace(found, solution=few)

    assert placed(own, None).used == {"n": 1}
    assert placed(own, Survive(nodes=1, share=0.5)).used == {"n": 2}


HELD = st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), min_size=1)


@settings(max_examples=60)
@given(nodes=st.lists(HELD, min_size=1, max_size=5), lost=st.integers(1, 3))
def test_losses_are_those_of_trying_every_set_of_nodes(nodes, lost):
    found, on_nodes = standing(*nodes)
    every = set()
    for some in combinations(nodes, min(lost, len(nodes))):
        gone = {}
        for own in some:
            for c, k in own.items():
                gone[c] = gone.get(c, 0) + k
        every.add(tuple(sorted(gone.items())))

    def inside(one, other):
        return one != other and all(k <= dict(other).get(c, 0) for c, k in one)

    assert set(losses(found, on_nodes, lost)) == {x for x in every if not any(inside(x, y) for y in every)}


@settings(max_examples=40)
@given(nodes=st.lists(HELD, min_size=2, max_size=5), lost=st.integers(1, 3))
def test_where_losses_are_too_many_one_is_looked_at_that_is_worse_than_any(nodes, lost):
    found, on_nodes = standing(*nodes)
    every = losses(found, on_nodes, lost)
    most, module.MOST = module.MOST, 0
    try:
        (worst,) = losses(found, on_nodes, lost)
    finally:
        module.MOST = most

    assert all(k <= dict(worst).get(c, 0) for loss in every for c, k in loss)
    tops = {c: sorted((own.get(c, 0) for own in nodes), reverse=True) for c in dict(worst)}
    assert dict(worst) == {c: sum(own[:lost]) for c, own in tops.items()}


@cache
def two(**more):
    """Two nodes of one GPU each."""
    form = Node(name="n", device="h100-sxm", count=2, gpus_per_node=1, price_usd_per_hour=2.0)
    return on(resolve(Cluster(nodes=[form])), "llama-3.1-8b", engine="sglang", tpot_ms=100, **more)[2]


def test_without_a_promise_replicas_are_packed_and_with_one_they_stand_apart():
    found = two()
    one = replace(found, solution=replace(found.solution, replicas=dict.fromkeys(found.solution.replicas, 1)))

    assert placed(one, None).used == {"n": 1}
    assert set(placed(found, Survive(nodes=1, share=0.5)).standing) == {("n", 0), ("n", 1)}


def test_replicas_that_serve_nothing_do_not_run():
    found = two()
    idle = replace(found.solution, replicas={**found.solution.replicas, "idle": 3})

    assert running(replace(found, solution=idle)) == running(found)


def test_the_rest_of_two_nodes_is_one_that_keeps_every_limit_with_half_of_the_traffic():
    found = two()
    (rest,) = rests(found, Survive(nodes=1, share=0.5), LIMITS)

    assert dict(rest.classes) == {"n": 1}
    assert sum(rest.lost.values()) == 1
    assert rest.rps == pytest.approx(found.solution.rate / 2, rel=5e-3)
    assert strain(rest.fleet, groups(rest.fleet)) <= 1 + SLACK
    assert least_left(found, Survive(nodes=1, share=0.5), LIMITS) == rest.rps
    assert least_left(found, Survive(nodes=2, share=0.5), LIMITS) == 0.0


def test_a_rest_serves_the_rate_it_is_given():
    (rest,) = rests(two(), Survive(nodes=1, share=0.5), LIMITS)
    found, made = rest.serving(3.0)

    assert found.solution.rate == pytest.approx(3.0)
    assert sum(rate for g in made for rate in g.served.values()) == pytest.approx(3.0)
    assert replace(rest, fleet=None).serving(3.0) is None


def test_a_promise_is_told_with_where_replicas_stand_and_what_each_loss_leaves():
    """By hand: two nodes alike; after either loss the one left routes all; a tenth dearer than 10 is 11."""
    found, survive = two(), Survive(nodes=1, share=0.5)
    made = groups(found)
    safe = Insured.of(found, survive, LIMITS)
    without = replace(found.solution, objective=10.0, bound=10.5)
    told = replace(safe, without=without).told(found, made, 9.0)
    (stand,), (loss,) = told.standing, told.losses

    assert (told.nodes, told.share) == (1, 0.5)
    assert len(stand.nodes) == 2
    assert stand.replicas == {made[0].id: 1}
    assert (loss.classes, loss.lost) == ({"n": 1}, {made[0].id: 1})
    assert loss.rps == pytest.approx(found.solution.rate / 2, rel=5e-3)
    assert [(r.replica, r.share) for r in loss.routing] == [(made[0].id, pytest.approx(1.0))]
    assert (told.without, told.bound, told.price) == (10.0, 10.5, pytest.approx(0.1))
    better = replace(safe, without=without).told(found, made, 11.0)
    assert (better.without, better.price) == (11.0, 0.0)
    plain = safe.told(found, made, 9.0)
    assert (plain.without, plain.bound, plain.price) == (None, None, None)
    after = safe.after[made[0].candidate.id]
    assert [g.count for g in after] == [1]
    assert sum(after[0].served.values()) == pytest.approx(0.5 * found.solution.rate)

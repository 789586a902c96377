"""Placed layers become a plan: groups, chains, batches by Little's law, memory, money and proof, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from planner.chains import plan as chained
from planner.chains.assembly import Assembly
from planner.plans.schema import Chain, Hop, Plan
from planner.problems.chain_units import Posed, Unit
from planner.question.asked import Asked, read
from solvers.linear import Limits
from solvers.placement.predict import Served
from solvers.placement.shares import SINK, SOURCE
from tests.chains.test_plan import cluster

STEPS = 255
"""Tokens of an answer beyond the first."""

LINE = {0: (0, 18), 1: (18, 36)}, {(SOURCE, 0): 1.0, (0, 1): 1.0, (1, SINK): 1.0}
"""Nodes a-0 and a-1 hold half of the layers each."""

TWO_LINES = (
    {0: (0, 18), 1: (18, 36), 2: (0, 18), 3: (18, 36)},
    {(SOURCE, 0): 0.7, (0, 1): 0.7, (1, SINK): 0.7, (SOURCE, 2): 0.3, (2, 3): 0.3, (3, SINK): 0.3},
)
"""Nodes t-0 and t-1, too, by themselves."""

FORK = (
    {0: (0, 12), 1: (0, 12), 2: (12, 36)},
    {(SOURCE, 0): 0.75, (SOURCE, 1): 0.25, (0, 2): 0.75, (1, 2): 0.25, (2, SINK): 1.0},
)
"""Both nodes a hold the first third, t-0 the rest."""


@pytest.fixture(scope="module")
def question() -> tuple[Asked, Posed]:
    asked = read(cluster(), "qwen3-8b", None, "chat", {}, {"engine": "chains"})
    posed = chained.pose(asked)
    assert posed is not None
    return asked, posed


def assembly(question: tuple[Asked, Posed], placed: tuple[Any, Any], **changes: Any) -> Assembly:
    asked, posed = question
    replicas = posed.replicas(Served(*placed, 0.0, 0.0, 0.0, 0.0))
    return Assembly(asked, replace(posed, **changes.pop("posed", {})), replicas, **changes)


def plan_of(made: Assembly, bound: float = 2.0, **limits: Any) -> Plan:
    """With a bound of so many times what it serves."""
    return made.plan(bound * made.served.tokens_per_s, Limits(**limits), 0.0)


def test_each_stage_of_a_line_is_a_group_in_the_order_of_layers(question: tuple[Asked, Posed]) -> None:
    made = assembly(question, LINE)
    plan = plan_of(made)

    assert [(r.id, r.role, r.count, r.stages[0].nodes, r.stages[0].layers) for r in plan.replicas] == [
        ("c1", "chain", 1, ["a-0"], (0, 18)), ("c2", "chain", 1, ["a-1"], (18, 36)),
    ]  # fmt: skip
    (chain,) = plan.chains
    assert [(h.node, h.replica, h.layers) for h in chain.hops] == [
        ("a-0", "c1", (0, 18)), ("a-1", "c2", (18, 36)),
    ]  # fmt: skip
    assert chain.share == 1.0
    assert (chain.ttft_s, chain.tpot_s) == pytest.approx((made.served.prompt_s, made.served.decode_s))
    assert [(route.bucket, route.share, route.chains) for route in plan.routing] == [(0, 1.0, True)]


def test_requests_are_tokens_over_the_steps_of_an_answer(question: tuple[Asked, Posed]) -> None:
    made = assembly(question, LINE)
    predicted = plan_of(made).predicted

    assert made.rps == pytest.approx(made.served.tokens_per_s / STEPS)
    assert predicted.rps.value == pytest.approx(made.rps)
    assert predicted.out_tok_per_s.value == pytest.approx(256 * made.rps)
    assert predicted.total_tok_per_s.value == pytest.approx((1024 + 256) * made.rps)
    assert predicted.ttft_ms.value == pytest.approx(1e3 * made.served.prompt_s)
    assert predicted.tpot_ms.value == pytest.approx(1e3 * made.served.decode_s)


def test_a_batch_is_what_is_in_flight_and_a_node_is_busy_with_its_steps(
    question: tuple[Asked, Posed],
) -> None:
    made = assembly(question, LINE)
    in_flight = made.rps * (made.served.prompt_s + STEPS * made.served.decode_s)

    for r in plan_of(made).replicas:
        assert in_flight <= r.max_batch < in_flight + 1
        busy = made.rps * (STEPS * r.step.decode_s / r.max_batch + r.step.prefill_s)
        assert r.utilisation == pytest.approx(busy)


def test_only_the_last_stage_has_the_head(question: tuple[Asked, Posed]) -> None:
    first, last = plan_of(assembly(question, LINE)).replicas

    assert last.step.decode_s > first.step.decode_s
    assert last.step.prefill_s == first.step.prefill_s


def test_a_stage_holds_half_of_the_weights_and_the_cache_of_its_layers(question: tuple[Asked, Posed]) -> None:
    """8.19 billion parameters in 16 bit, of which the embedding is about as large as the head; a layer's
    cache of a token is 2 x 8 heads x 128 x 2 bytes."""
    plan = plan_of(assembly(question, LINE))

    for r in plan.replicas:
        (m,) = r.memory
        assert m.weights_bytes == pytest.approx(8.19e9, rel=1e-3)
        parts = m.weights_bytes + m.kv_bytes + m.activation_bytes + m.reserve_bytes
        assert parts == pytest.approx(m.capacity_bytes)
        assert r.kv_tokens == pytest.approx(m.kv_bytes / (18 * 2 * 8 * 128 * 2), abs=1)


def test_lines_beside_each_other_take_requests_as_fast_as_each_serves_them(
    question: tuple[Asked, Posed],
) -> None:
    made = assembly(question, TWO_LINES)
    plan = plan_of(made)
    fast, slow = made.replicas

    assert [(r.id, r.stages[0].nodes) for r in plan.replicas] == [
        ("c1", ["a-0"]), ("c2", ["t-0"]), ("c3", ["a-1"]), ("c4", ["t-1"]),
    ]  # fmt: skip
    share = fast.tokens_per_s / (fast.tokens_per_s + slow.tokens_per_s)
    assert [c.share for c in plan.chains] == pytest.approx([share, 1 - share])
    assert [[h.replica for h in c.hops] for c in plan.chains] == [["c1", "c3"], ["c2", "c4"]]


def test_nodes_of_a_class_with_the_same_layers_are_one_group_as_wide_as_its_busiest(
    question: tuple[Asked, Posed],
) -> None:
    made = assembly(question, FORK)
    plan = plan_of(made)
    both, rest = plan.replicas
    flight = {
        c.hops[0].node: made.rps * c.share * (c.ttft_s + STEPS * c.tpot_s) for c in plan.chains
    }  # by first node

    assert (both.count, both.stages[0].nodes) == (2, ["a-0", "a-1"])
    assert (rest.count, rest.stages[0].nodes) == (1, ["t-0"])
    assert sorted(c.share for c in plan.chains) == pytest.approx([0.25, 0.75])
    assert both.max_batch - 1 < max(flight.values()) <= both.max_batch
    assert rest.max_batch - 1 < sum(flight.values()) <= rest.max_batch
    busy = 0.75 * made.rps * (STEPS * both.step.decode_s / both.max_batch + both.step.prefill_s)
    assert both.utilisation == pytest.approx(busy)


def test_units_on_one_node_share_what_is_in_flight_there() -> None:
    """Four units on two nodes: half of a node's requests each."""
    units = [Unit("a", node, 1) for node in (0, 0, 1, 1)]
    made = Assembly(SimpleNamespace(), SimpleNamespace(units=units), [])  # type: ignore[arg-type]

    assert made._copies([0, 1, 2, 3]) == 2
    assert made._copies([0, 2]) == 1


def test_what_is_in_flight_is_of_the_busiest_node_of_a_group(question: tuple[Asked, Posed]) -> None:
    """At one request a second, three quarters of which pass a-0, ten seconds each."""
    made = assembly(question, LINE)
    told = [
        Chain(share=share, hops=[Hop(node=node, replica="c1", layers=(0, 36))], ttft_s=s, tpot_s=0.0)
        for share, node, s in ((0.5, "a-0", 10.0), (0.25, "a-0", 10.0), (0.25, "a-1", 20.0))
    ]

    assert made._in_flight("c1", told) == pytest.approx(7.5 * made.rps)
    assert made._in_flight("c9", told) == 0.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "chains over them would serve no more"),
        ({"gone": frozenset({3})}, "nodes have left"),
        ({"gone": frozenset({1})}, "chains over them would serve no more"),
        ({"posed": {"units": (Unit("a", 0, 1), Unit("a", 1, 1))}}, "too small for any layer"),
    ],
)
def test_gpus_that_hold_no_layers_have_a_reason(
    question: tuple[Asked, Posed], changes: dict[str, Any], reason: str
) -> None:
    (idle,) = assembly(question, LINE, **changes)._idle()

    assert (idle.node_class, idle.count, idle.reason) == ("t", 2, reason)


def test_where_every_gpu_holds_layers_none_is_idle(question: tuple[Asked, Posed]) -> None:
    made = assembly(question, TWO_LINES)

    assert made.busy == {"a": 2, "t": 2}
    assert [w.code for w in plan_of(made).warnings] == ["not_stock"]


@pytest.mark.parametrize(("placed", "usd"), [(LINE, 1.4), (TWO_LINES, 2.2), (FORK, 1.8)])
def test_only_nodes_that_hold_layers_are_paid_and_idle_ones_draw_power(
    question: tuple[Asked, Posed], placed: tuple[Any, Any], usd: float
) -> None:
    plan = plan_of(assembly(question, placed))
    running = sum(r.count * r.watts for r in plan.replicas)

    assert plan.predicted.usd_per_hour is not None
    assert plan.predicted.usd_per_hour.value == pytest.approx(usd)
    assert (plan.predicted.watts.value > running + 1) == (placed is not TWO_LINES)


@pytest.mark.parametrize(
    ("bound", "gap", "status"),
    [
        (1.0, 0.0, "optimal"),
        (1.005, 0.005, "within_gap"),
        (1.5, 0.5, "time_limit"),
    ],
)
def test_the_proof_is_in_requests_and_no_status_is_better_than_its_gap(
    question: tuple[Asked, Posed], bound: float, gap: float, status: str
) -> None:
    made = assembly(question, LINE)
    proof = plan_of(made, bound, gap=0.01, seed=7).proof

    assert (proof.status, proof.seed, proof.sense, proof.unit) == (status, 7, "max", "req/s")
    assert (proof.objective, proof.bound) == pytest.approx((made.rps, bound * made.rps))
    assert proof.gap == pytest.approx(gap, abs=1e-9)
    assert (proof.space.considered, proof.space.kept) == (4, 2)


@pytest.mark.parametrize(
    ("layers", "ranges"),
    [
        ((0, 36), [(0, 36)]),
        ((0, 18), [(0, 18), (18, 36)]),
        ((18, 36), [(0, 18), (18, 36)]),
        ((12, 20), [(0, 12), (12, 20), (20, 36)]),
    ],
)
def test_a_stage_is_one_of_as_few_as_the_model_can_have_around_it(
    question: tuple[Asked, Posed], layers: tuple[int, int], ranges: list[tuple[int, int]]
) -> None:
    assert assembly(question, LINE)._ranges(layers) == ranges

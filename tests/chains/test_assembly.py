"""Chains in the Plan's form: a placement stated by hand, and every figure of the plan worked out from it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.chains import plan as chained
from planner.chains.assembly import CLOSED_FORM, Assembly
from planner.cost.bands import Z80
from planner.cost.power import idle_watts
from planner.designs.shape import like
from planner.question.asked import read
from solvers.linear import Limits
from solvers.placement.predict import Served
from solvers.placement.shares import SINK, SOURCE

LAYERS, STEPS, ISL, OSL = 36, 200, 1000, 201
"""Of Qwen3-8B; an answer of 201 tokens has 200 steps after the first."""

LAYERS_OF = {0: (0, 18), 1: (0, 18), 2: (18, 36)}
SHARES = {(SOURCE, 0): 0.6, (SOURCE, 1): 0.4, (0, 2): 0.6, (1, 2): 0.4, (2, SINK): 1.0}
"""Two L4 hold the first half of the layers, one T4 the second: 60 % of the requests take the first L4."""


@cache
def posed(gpus_per_node: int = 1):
    """Two nodes of L4, of so many each, and two of T4, in one zone."""
    nodes = [
        Node(name="a", device="l4", gpus_per_node=gpus_per_node, count=2, price_usd_per_hour=0.7),
        Node(name="t", device="t4", gpus_per_node=1, count=2, price_usd_per_hour=0.4),
    ]
    loads = {"isl": ISL, "osl": OSL, "ttft_ms": 3000, "tpot_ms": 80}
    asked = read(resolve(Cluster(nodes=nodes)), "qwen3-8b", None, "chat", loads, {"engine": "chains"})
    return asked, chained.pose(asked)


def served(tokens_per_s: float = 100.0, intervals=None, shares=None, **more) -> Served:
    """0.5 requests/s of 200 steps each; 40 ms a token, 2 s a prompt."""
    times = {"decode_s": 0.04, "prompt_s": 2.0, **more}
    return Served(intervals or LAYERS_OF, shares or SHARES, 5.0, tokens_per_s, **times)


def assembly(*replicas: Served, gone=frozenset()) -> Assembly:
    return Assembly(*posed(), replicas or (served(),), gone)


@cache
def whole():
    """The plan of the placement above, no bound of which is above 150 tokens/s."""
    return assembly().plan(150.0, Limits(gap=0.01, seed=3), 0.0)


def test_units_that_hold_the_same_layers_are_one_group_in_the_order_of_layers():
    first, second = whole().replicas

    assert (first.id, first.count, first.stages[0].nodes) == ("c1", 2, ["a-0", "a-1"])
    assert (second.id, second.count, second.stages[0].nodes) == ("c2", 1, ["t-0"])
    assert [r.stages[0].layers for r in (first, second)] == [(0, 18), (18, 36)]
    assert [(r.tp, r.pp, r.ep, r.role, r.engine) for r in (first, second)] == [
        (1, 1, 1, "chain", "chains")
    ] * 2


def test_groups_follow_the_layers_wherever_their_units_stand():
    """The T4, the last of the cluster's nodes, holds the first layers."""
    shares = {(SOURCE, 2): 1.0, (2, 0): 1.0, (0, SINK): 1.0}
    made = assembly(served(100.0, {0: (18, 36), 2: (0, 18)}, shares)).plan(100.0, Limits(), 0.0)

    assert [(r.id, r.stages[0].nodes, r.stages[0].layers) for r in made.replicas] == [
        ("c1", ["t-0"], (0, 18)),
        ("c2", ["a-0"], (18, 36)),
    ]


def test_a_unit_is_all_gpus_of_a_node_and_the_node_is_paid_once():
    """Nodes of two L4: one unit of tp 2 each."""
    made = Assembly(*posed(2), (served(),)).plan(150.0, Limits(), 0.0)
    first, second = made.replicas

    assert (first.tp, first.moe_tp, first.stages[0].gpus, first.count) == (2, 2, 2, 2)
    assert (second.tp, second.stages[0].gpus) == (1, 1)
    assert made.predicted.usd_per_hour.value == pytest.approx(0.7 + 0.7 + 0.4)
    assert [w.message for w in made.warnings if w.code == "idle_gpus"] == [
        "1 of 2 t4 idle: chains over them would serve no more"
    ]
    assert first.memory[0].weights_bytes < 0.6 * whole().replicas[0].memory[0].weights_bytes


def test_chains_are_the_ways_of_the_shares():
    one, two = whole().chains

    assert [(one.share, two.share)] == [(pytest.approx(0.6), pytest.approx(0.4))]
    assert [(hop.node, hop.replica, hop.layers) for hop in one.hops] == [
        ("a-0", "c1", (0, 18)),
        ("t-0", "c2", (18, 36)),
    ]
    assert [hop.node for hop in two.hops] == ["a-1", "t-0"]
    assert [(r.share, r.chains) for r in whole().routing] == [(1.0, True)]


def test_chains_take_as_long_as_the_placement_in_the_mean():
    mean = [
        sum(c.share * t for c, t in zip(whole().chains, times, strict=True))
        for times in zip(*[(c.ttft_s, c.tpot_s) for c in whole().chains], strict=True)
    ]

    assert mean == pytest.approx([2.0, 0.04])


def test_each_of_several_replicas_has_the_part_of_the_requests_that_it_serves():
    """75 and 25 of 100 tokens/s, each on one L4 and one T4 of its own."""
    halves = [
        served(75.0, {0: (0, 18), 2: (18, 36)}, {(SOURCE, 0): 1.0, (0, 2): 1.0, (2, SINK): 1.0}),
        served(
            25.0, {1: (0, 18), 3: (18, 36)}, {(SOURCE, 1): 1.0, (1, 3): 1.0, (3, SINK): 1.0}, prompt_s=6.0
        ),
    ]
    made = assembly(*halves).plan(100.0, Limits(), 0.0)

    assert [c.share for c in made.chains] == pytest.approx([0.75, 0.25])
    assert [r.count for r in made.replicas] == [2, 2]
    assert made.predicted.ttft_ms.value == pytest.approx(1000 * (0.75 * 2.0 + 0.25 * 6.0))
    assert made.predicted.rps.value == pytest.approx(0.5)


def test_the_batch_of_a_group_is_what_its_busiest_node_holds():
    """By Little's law 0.48 requests/s of 2 s + 200 · 40 ms are 4.8 in flight on the T4, all of whose chains
    take 10 s in the mean; the busier L4 has about 60 % of them: 2.9."""
    first, second = assembly(served(96.0)).plan(150.0, Limits(), 0.0).replicas

    assert (first.max_batch, second.max_batch) == (3, 5)


def test_no_group_has_less_than_one_sequence():
    made = assembly(served(1e-8)).plan(1.0, Limits(), 0.0)

    assert [r.max_batch for r in made.replicas] == [1, 1]


def test_two_units_of_a_node_share_what_is_in_flight_there():
    """Both on node a-0, which has all 5 requests: each a half, in place of 60 % on one of two nodes."""
    asked, own = posed()
    on_one = replace(own, units=(own.units[0], own.units[0], *own.units[2:]))
    (first, second) = Assembly(asked, on_one, (served(96.0),)).plan(100.0, Limits(), 0.0).replicas

    assert (first.count, first.stages[0].nodes) == (2, ["a-0"])
    assert first.max_batch == math.ceil(0.48 * 10 / 2) == 3
    assert second.max_batch == 5
    assert Assembly(asked, own, (served(60.0),)).plan(100.0, Limits(), 0.0).replicas[0].max_batch == 2
    assert Assembly(asked, on_one, (served(80.0),)).plan(100.0, Limits(), 0.0).replicas[0].max_batch == 2


@pytest.mark.parametrize(("which", "share"), [(0, 0.6), (1, 1.0)])
def test_steps_and_use_of_a_group_are_those_of_its_layers(which, share):
    """18 layers at its batch, the engine's own seconds a step, and for the last layers the LM head."""
    own = posed()[1]
    r = whole().replicas[which]
    node, batch = ("a", "t")[which], float(r.max_batch)
    model, step_s = own.models[node], own.models[node].tuning.step_s
    head = float(model.layers.head_s(np.array([batch]), like(1, 1))[0]) if which else 0.0

    assert r.step.engine_s == step_s > 0
    assert r.step.decode_s == pytest.approx(18 * own.service.decode_s(node, batch) + step_s + head)
    assert r.step.prefill_s == pytest.approx(18 * own.service.prompt_s[node] + step_s)
    used = 0.5 * share * (STEPS * r.step.decode_s / batch + r.step.prefill_s)
    assert r.utilisation == pytest.approx(used)
    assert (head > 0) is bool(which)


def test_memory_of_the_groups_is_the_models_and_leaves_room_for_what_they_hold():
    """Qwen3-8B in 16 bits: 8.19 thousand million weights in all; half of the layers and a table each."""
    parts = [r.memory[0] for r in whole().replicas]

    assert sum(m.weights_bytes for m in parts) == pytest.approx(2 * 8.19e9, rel=0.01)
    for m, r in zip(parts, whole().replicas, strict=True):
        assert (
            m.weights_bytes + m.kv_bytes + m.activation_bytes + m.reserve_bytes <= m.capacity_bytes * 1.0001
        )
        per_token = 18 * 2 * 8 * 128 * 2  # layers, keys and values, heads, their size, bytes
        assert r.kv_tokens == pytest.approx(m.kv_bytes / per_token, rel=1e-3)


def test_layers_in_the_middle_have_no_table():
    """A third of the layers each: the middle one has neither embedding nor LM head (151,936 x 4,096)."""
    intervals = {0: (0, 12), 1: (12, 24), 2: (24, 36)}
    shares = {(SOURCE, 0): 1.0, (0, 1): 1.0, (1, 2): 1.0, (2, SINK): 1.0}
    made = assembly(served(100.0, intervals, shares)).plan(100.0, Limits(), 0.0)
    first, middle, last = (r.memory[0].weights_bytes for r in made.replicas)
    table = 2 * 151_936 * 4096

    assert first - middle == pytest.approx(table, rel=1e-3)
    assert last - middle == pytest.approx(table, rel=1e-3)
    assert [r.id for r in made.replicas] == ["c1", "c2", "c3"]


def test_totals_are_of_all_requests_and_of_the_nodes_in_use():
    p = whole().predicted
    drawn = sum(r.count * r.watts for r in whole().replicas)

    assert p.rps.value == pytest.approx(0.5)
    assert p.out_tok_per_s.value == pytest.approx(0.5 * OSL)
    assert p.total_tok_per_s.value == pytest.approx(0.5 * (ISL + OSL))
    assert p.usd_per_hour.value == pytest.approx(0.7 + 0.7 + 0.4)  # t-1 holds nothing
    assert p.watts.value == pytest.approx(drawn + idle_watts(70.0))  # a T4 of 70 W at rest
    assert (p.ttft_ms.value, p.tpot_ms.value) == (pytest.approx(2000.0), pytest.approx(40.0))
    assert p.utilisation.value == max(r.utilisation for r in whole().replicas)


def test_bands_are_those_of_the_least_known_class_and_of_the_closed_form():
    own, p = posed()[1], whole().predicted
    sigmas = [m.sigmas(like(1, 1))[:, 0] for m in own.models.values()]
    ttft, tpot = (math.hypot(max(s[k] for s in sigmas), CLOSED_FORM) for k in (0, 1))

    assert p.ttft_ms.high == pytest.approx(2000.0 * math.exp(Z80 * ttft))
    assert p.tpot_ms.low == pytest.approx(40.0 * math.exp(-Z80 * tpot))
    assert p.rps.low == pytest.approx(0.5 * math.exp(-Z80 * tpot))


def test_limits_are_kept_with_the_odds_of_the_mean():
    """3 s of 2 and 80 ms of 40: likely; a limit at the prediction is kept by a half of all."""
    p = whole().predicted

    assert 0.5 < p.chance_ttft < p.chance_tpot < 1
    even = assembly(served(prompt_s=3.0, decode_s=0.08)).plan(150.0, Limits(), 0.0).predicted
    assert (even.chance_ttft, even.chance_tpot) == (pytest.approx(0.5), pytest.approx(0.5))


@pytest.mark.parametrize(
    ("bound", "gap", "status"),
    [(100.0, 0.0, "optimal"), (110.0, 0.2, "within_gap"), (110.0, 0.01, "not_closed")],
)
def test_the_proof_compares_requests_with_the_bound_in_requests(bound, gap, status):
    """100 tokens/s are 0.5 requests/s of 200 steps."""
    proof = assembly().plan(bound, Limits(gap=gap, seed=3), 0.0).proof

    assert (proof.objective, proof.bound) == (pytest.approx(0.5), pytest.approx(bound / STEPS))
    assert proof.gap == pytest.approx(bound / 100 - 1)
    assert (proof.status, proof.sense, proof.unit, proof.seed) == (status, "max", "req/s", 3)
    assert (proof.space.considered, proof.space.kept) == (4, 3)


def told(plan) -> dict[str, str]:
    return {w.message.split(" idle")[0]: w.message for w in plan.warnings if w.code == "idle_gpus"}


def test_gpus_without_layers_are_told_with_the_reason():
    left = assembly(gone=frozenset({3})).plan(150.0, Limits(), 0.0)

    assert told(whole()) == {"1 of 2 t4": "1 of 2 t4 idle: chains over them would serve no more"}
    assert told(left) == {"1 of 2 t4": "1 of 2 t4 idle: nodes have left"}
    assert [w.code for w in whole().warnings].count("not_stock") == 1


def test_a_class_without_any_unit_is_too_small():
    asked, own = posed()
    without = replace(own, units=tuple(u for u in own.units if u.node_class == "a"))
    shares = {(SOURCE, 0): 1.0, (0, 1): 1.0, (1, SINK): 1.0}
    placed = served(100.0, {0: (0, 18), 1: (18, 36)}, shares)
    made = Assembly(asked, without, (placed,)).plan(150.0, Limits(), 0.0)

    assert told(made) == {"2 of 2 t4": "2 of 2 t4 idle: too small for any layer"}

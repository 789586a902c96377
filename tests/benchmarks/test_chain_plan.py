"""A Plan's chains replayed: what is read from it, and how far its own prediction is from the replay."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.replays.chain_plan import Case, replay_plan
from planner.check import check
from planner.errors import InputError
from planner.plans.schema import Plan
from tests.check.chain_plans import CHAINS, three, twelve

WITHIN = 1.25
"""Replayed over predicted, either way: the plans are made by hand, with 40 % of their time for waiting."""


@pytest.mark.parametrize("name", CHAINS)
def test_a_sound_plan_does_about_what_it_predicts(name: str) -> None:
    plan = CHAINS[name]()
    said, result = Case(plan).promised, replay_plan(plan)

    assert not check(plan)
    assert 1 / WITHIN < result.decode_tok_per_s / said.decode_tok_per_s < WITHIN
    assert 1 / WITHIN < result.tpot_s / said.tpot_s < WITHIN
    assert result.in_flight == pytest.approx(said.in_flight, rel=0.05)


@pytest.mark.parametrize("name", CHAINS)
def test_no_node_admits_more_than_its_places(name: str) -> None:
    plan = CHAINS[name]()
    result = replay_plan(plan)

    places = {node.name: node.places for node in Case(plan).net.nodes}
    assert all(result.peak[name] <= most for name, most in places.items())
    assert all(use <= 1 for use in [*result.busy.values(), *result.wire_use.values()])


def test_the_same_seed_gives_the_same_replay() -> None:
    a, b = (replay_plan(three(), lifetimes=1.0, seed=7) for _ in range(2))

    assert np.array_equal(a.end_s, b.end_s, equal_nan=True)


def test_a_full_pass_and_a_mean_prompt_take_what_the_plan_says() -> None:
    plan = three()
    shares = np.array([bucket["share"] for bucket in plan.problem.workload["buckets"]])
    for node in Case(plan).net.nodes:
        group = next(r for r in plan.replicas if node.name.endswith(f"/{r.id}"))
        batch, layer_s = node.decode[-1]
        prompt_s = np.array([s for _, s in node.prompt])
        assert batch == group.max_batch
        assert node.pass_s + node.layers * layer_s == pytest.approx(group.step.decode_s)
        assert node.pass_s + node.layers * float(prompt_s @ shares) == pytest.approx(group.step.prefill_s)


def test_fewer_tokens_and_shorter_prompts_take_less_but_not_in_proportion() -> None:
    """A pass reads the weights, however few tokens it has."""
    for node in Case(three()).net.nodes:
        assert [n for n, _ in node.decode] == sorted({n for n, _ in node.decode})
        assert all(a[1] <= b[1] <= a[1] * b[0] / a[0] for a, b in pairwise(node.decode))
        assert all(a[1] <= b[1] for a, b in pairwise(node.prompt))


def test_zones_share_the_declared_link_and_neighbours_use_their_own_cards() -> None:
    net = Case(twelve()).net
    across = {leg.wire for chain in net.chains for leg in chain.legs if leg.latency_s >= 5e-3}

    assert [net.wires[wire] for wire in across] == ["a to b"]
    assert {name for name in net.wires if name != "a to b"} == {"l-0 NIC"}
    assert all(chain.back_s == pytest.approx(5e-3) for chain in net.chains)
    speeds = {net.wires[leg.wire]: leg.bytes_per_s for chain in net.chains for leg in chain.legs}
    assert speeds == {"a to b": 0.125e9, "l-0 NIC": 1.25e9}


def test_copies_on_a_node_and_hops_of_some_layers_are_read() -> None:
    net = Case(twelve()).net
    copies = {node.name: node.copies for node in net.nodes}
    parts = {hop.layers for chain in net.chains for hop in chain.hops if net.nodes[hop.node].name == "l-1/c2"}

    assert copies["l-0/c1"] == 2
    assert copies["t-0/c3"] == 1
    assert parts == {(0, 16), (4, 14)}


def test_a_plan_without_chains_is_refused() -> None:
    bare: Plan = three().model_copy(update={"chains": []})

    with pytest.raises(InputError, match="no chains"):
        replay_plan(bare)

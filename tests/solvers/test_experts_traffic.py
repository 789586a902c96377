"""Traffic of a layer of experts: its bound below every placement, its moves priced at what they bring."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import experts
from solvers.experts import joint
from solvers.experts.joint import Layer
from solvers.experts.traffic import Descent, Surroundings, Traffic
from solvers.experts.traffic_bound import Meetings
from solvers.experts.types import Aim, ExpertsProblem
from solvers.linear import Limits


def every(count: int, slots: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Replicas (experts, units) of every way to fill the slots so that no expert is missing."""
    for place in product(*(combinations_with_replacement(range(count), k) for k in slots)):
        on = np.array([np.bincount(held, minlength=count) for held in place]).T
        if on.any(1).all():
            yield on


def visited(on: np.ndarray, tokens: np.ndarray) -> float:
    """Nodes a token, from the definition."""
    share = on / on.sum(1, keepdims=True)
    return float(np.mean([sum(1 - np.prod(1 - share[t], axis=0)) for t in tokens]))


def drawn(seed: int, count: int, each: int) -> np.ndarray:
    """Tokens of a few experts that are liked most."""
    r = np.random.default_rng(seed)
    likes = r.lognormal(0, 1.5, count)
    return np.array([r.choice(count, each, replace=False, p=likes / likes.sum()) for _ in range(8)])


@settings(max_examples=30, derandomize=True)
@given(
    st.integers(0, 10**6),
    st.sampled_from([(3, 1), (2, 2), (4, 1), (3, 2), (2, 1, 1)]),
    st.sampled_from([1.0, 4.0]),
    st.integers(2, 3),
)
def test_no_placement_is_below_the_bounds_of_traffic(
    seed: int, slots: tuple[int, ...], pace: float, each: int
):
    """Nodes with a GPU each, some larger, some faster."""
    count = sum(slots) - seed % 2
    tokens = drawn(seed, count, min(each, count))
    load = np.bincount(tokens.ravel(), minlength=count) + 0.5
    speed = np.array([pace, *[1.0] * (len(slots) - 1)])
    met = Meetings(load, tokens, np.array(slots), speed)
    reached = [
        (float(((load / on.sum(1)) @ on / speed).max() * speed.sum() / load.sum()), visited(on, tokens))
        for on in every(count, slots)
    ]
    joint_least = min(b + 0.3 * n for b, n in reached)

    for balance, nodes in reached:
        assert met.nodes_per_token(balance) <= nodes + 1e-9
        known = balance + 0.3 * nodes
        assert met.joint(min(b for b, _ in reached), 0.3, known) <= joint_least + 1e-9


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_a_bound_of_traffic_by_hand(scale: float):
    """All pairs of four experts on two nodes. Of the 4 u, which add up to sqrt(12), a node has 2 at a balance
    of 1 and 3 at 1.5, as many as its slots: 1 and 1.5 ordered meetings a token, and one node would have 2."""
    tokens = np.array(list(combinations(range(4), 2)))
    met = Meetings(np.full(4, 3.0), tokens, np.array([3, 3]), np.full(2, scale))

    assert met.nodes_per_token(1.0) == pytest.approx(1.5)
    assert met.nodes_per_token(1.5) == met.nodes_per_token(9.0) == pytest.approx(1.25)
    assert 1.598 < met.joint(1.0, 0.4, 1.6) < 1.6  # in 24 steps of the balance
    assert met.joint(1.0, 0.4, 9.0) < 1.598


@settings(max_examples=20, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.5]))
def test_a_move_is_priced_at_what_it_brings(seed: int, cap: float, weight: float):
    """To first order in the traffic, so exactly where no token holds both experts that move."""
    r = np.random.default_rng(seed)
    tokens = drawn(seed, 6, 2)
    gpu, node, speed = np.repeat(np.arange(4), 3), np.array([0, 0, 1, 1]), r.choice([1.0, 2.0], 4)
    load = np.bincount(tokens.ravel(), minlength=6) + 1.0
    expert = r.permutation([*range(6), *r.integers(0, 6, 6)])
    scale = 4 / load.sum()
    around = Surroundings(load, gpu, node[gpu], scale / speed, weight, cap, 0.6, scale)

    def value(held: np.ndarray) -> float:
        replica = load / np.bincount(held)
        time = np.bincount(gpu, replica[held]) * scale / speed
        on = np.zeros((6, 2))
        np.add.at(on, (held, node[gpu]), 1)
        bulky = np.maximum(replica * scale - 0.6, 0).sum()
        return float(weight * visited(on, tokens) + np.maximum(time - cap, 0).sum() + bulky)

    def apart(e: int, f: int) -> bool:
        return not any({e, f} <= set(t) for t in tokens.tolist())

    d = Descent(around, Traffic(tokens, 6, 2), expert)
    before = value(expert)
    assert d.value(d.traffic.value) == pytest.approx(before)
    prices = d._exchanges()
    for p, q in combinations(range(12), 2):
        moved = expert.copy()
        moved[[p, q]] = expert[[q, p]]
        if expert[p] == expert[q] or gpu[p] == gpu[q]:
            assert prices[p, q] == np.inf
        elif not weight or apart(expert[p], expert[q]):
            assert before + prices[p, q] == pytest.approx(value(moved))
    slots, prices = d._changes()
    assert slots.tolist() == [p for p in range(12) if (expert == expert[p]).sum() > 1]
    for at, f in product(range(len(slots)), range(6)):
        p, e = slots[at], expert[slots[at]]
        moved = expert.copy()
        moved[p] = f
        both = {*gpu[expert == e]} & {*gpu[expert == f]} - {gpu[p]}
        if e == f:
            assert prices[at, f] == np.inf
        elif (not weight or apart(e, f)) and (not cap or not both):
            assert before + prices[at, f] == pytest.approx(value(moved))


def on_four_gpus(seed: int) -> ExpertsProblem:
    """Four pairs of experts that add up to the same load; tokens take the experts of two pairs."""
    r = np.random.default_rng(seed)
    pairs = r.permutation(4)
    tokens = [
        r.choice([*(2 * pairs[i : i + 2]), *(2 * pairs[i : i + 2] + 1)], 2, replace=False) for i in (0, 2) * 9
    ]
    load = np.array([[1.0, 49, 8, 42, 17, 33, 23, 27]])
    return ExpertsProblem(load, np.full(4, 2), np.array([0, 0, 1, 1]), tokens=[np.array(tokens)])


@pytest.mark.parametrize("seed", range(4))
def test_gpus_change_nodes_where_that_saves_traffic(seed: int):
    p = on_four_gpus(seed)
    assert p.tokens is not None
    layer = Layer(p, 0, Aim("traffic", balance_cap=1.0))
    layer.offer(np.arange(8))
    layer.regroup()

    ways = [np.repeat(node, 2) for node in set(permutations([0, 0, 1, 1]))]
    assert layer.balance == pytest.approx(1.0)
    assert layer.nodes_per_token == min(visited(np.eye(2)[node], p.tokens[0]) for node in ways) == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_no_exchange_of_two_groups_is_a_better_beginning(seed: int):
    r = np.random.default_rng(seed)
    group, slots, speed = np.repeat(np.arange(6), [1, 2, 1, 2, 1, 2]), np.array([6, 4]), np.array([2.0, 1.0])
    tokens = drawn(seed, 9, 3)
    load = r.lognormal(0, 1, 9)

    def cost(node: np.ndarray) -> float:
        if (np.bincount(node[group], minlength=2) > slots).any():
            return np.inf
        visits = np.mean([len({node[group[e]] for e in token}) for token in tokens])
        beyond = np.maximum(np.bincount(node[group], load, 2) / load.sum() - speed / speed.sum(), 0).sum()
        return float(visits + 3 * beyond)

    home = joint._dealt(load, tokens, group, slots, speed)
    assert home is not None
    node = np.array([home[group == h][0] for h in range(6)])
    assert (node[group] == home).all()
    for a, b in combinations(range(6), 2):
        other = node.copy()
        other[[a, b]] = node[[b, a]]
        assert cost(node) <= cost(other) + 1e-9


@settings(max_examples=15, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 1.2, 1.6]))
def test_a_cap_is_said_to_be_out_of_reach_only_where_it_is(seed: int, cap: float):
    tokens = drawn(seed, 4, 2)
    load = np.bincount(tokens.ravel(), minlength=4) + 0.5
    p = ExpertsProblem(load[None], np.array([3, 2]), np.array([0, 1]), tokens=[tokens])
    kept = [
        visited(on, tokens)
        for on in every(4, (3, 2))
        if ((load / on.sum(1)) @ on).max() * 2 / load.sum() <= cap * (1 + 1e-9)
    ]

    s = experts.solve(p, Aim("traffic", balance_cap=cap), Limits(work=6))

    assert (s.status == "infeasible") == (not kept)
    if kept:
        assert s.balance[0] <= cap * (1 + 1e-9)
        assert s.bound <= min(kept) * (1 + 1e-9)
        assert min(kept) * (1 - 1e-9) <= s.objective


def test_with_no_time_at_all_the_balanced_placement_stands():
    p = on_four_gpus(0)
    balanced, both = (experts.solve(p, Aim(goal), Limits(seconds=0.0)) for goal in ("balance", "combined"))

    assert both.place == balanced.place
    assert both.nodes_per_token is not None
    assert both.objective == pytest.approx(balanced.objective + 0.1 * both.nodes_per_token[0])

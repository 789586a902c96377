"""Placement of experts: by hand, by trying all, by what must hold of any answer, and on the peers' cases."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import experts
from solvers.experts import exact as experts_exact
from solvers.experts.balance import apportion, counted, times
from solvers.experts.bound import balance_bound
from solvers.experts.traffic import Descent, Surroundings, Traffic
from solvers.experts.traffic_bound import Meetings
from solvers.experts.types import Aim, ExpertsProblem, ExpertsSolution
from solvers.linear import Limits

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "eplb"
QUICK = Limits(seconds=20.0, work=2)
SMALL = ExpertsProblem(
    load_tok=np.array([[90.0, 40.0, 10.0, 20.0]]), slots=np.array([3, 3]), node=np.array([0, 0])
)


def numbers(*values: float) -> np.ndarray:
    return np.array(values)


def counts(slots: int, experts: int) -> Iterator[tuple[int, ...]]:
    """Replicas of each expert that fill the slots."""
    if experts == 1:
        yield (slots,)
        return
    for first in range(1, slots - experts + 2):
        for rest in counts(slots - first, experts - 1):
            yield (first, *rest)


def coolest(load: np.ndarray, slots: np.ndarray, speed: np.ndarray) -> float:
    """Least time of the hottest GPU over all replicas and placements, GPU by GPU."""
    best = np.inf

    def fill(gpu: int, left: tuple[int, ...], each: np.ndarray, worst: float) -> None:
        nonlocal best
        if worst >= best * (1 - 1e-12):
            return
        if gpu == len(slots):
            best = worst
            return
        for held in product(*(range(min(k, int(slots[gpu])) + 1) for k in left)):
            if sum(held) == slots[gpu]:
                rest = tuple(k - h for k, h in zip(left, held, strict=True))
                fill(gpu + 1, rest, each, max(worst, float(each @ held) / speed[gpu]))

    for r in counts(int(slots.sum()), len(load)):
        fill(0, r, load / np.array(r), 0.0)
    return float(best)


def feasible(p: ExpertsProblem, s: ExpertsSolution) -> bool:
    every = set(range(p.load_tok.shape[1]))
    return all(
        [len(gpu) for gpu in layer] == p.slots.tolist() and {e for gpu in layer for e in gpu} == every
        for layer in s.place
    )


def value(p: ExpertsProblem, place: list[list[int]], at: int) -> tuple[float, float]:
    """Balance and nodes per token of one layer, from the definitions."""
    flat = [e for gpu in place for e in gpu]
    each = [sum(p.load_tok[at][e] / flat.count(e) for e in gpu) for gpu in place]
    balance = max(np.array(each) / p.speeds) / (p.load_tok[at].sum() / p.speeds.sum())
    if p.tokens is None:
        return balance, 1.0
    visits = 0.0
    for token in p.tokens[at]:
        for n in range(p.nodes):
            here = [e for g, gpu in enumerate(place) if p.node[g] == n for e in gpu]
            visits += 1 - np.prod([1 - here.count(e) / flat.count(e) for e in token])
    return balance, visits / len(p.tokens[at])


def test_three_replicas_and_a_fair_deal_by_hand() -> None:
    """90/3 twice and 20 on one GPU; 30, 40 and 10 on the other."""
    s = experts.solve(SMALL)

    assert s.objective == pytest.approx(1.0)
    assert s.status == "optimal"
    assert feasible(SMALL, s)
    assert s.replicas.tolist() == [[3, 1, 1, 1]]


def test_a_gpu_of_half_the_speed_gets_half_the_load() -> None:
    p = replace(SMALL, load_tok=np.array([[60.0, 10.0, 20.0]]), slots=np.array([2, 1]), speed=numbers(2, 1))
    s = experts.solve(p)

    assert s.place == [[[0, 1], [2]]] or s.place == [[[1, 0], [2]]]
    assert s.balance[0] == pytest.approx(70 / 2 / 30)
    assert s.bound == pytest.approx(s.objective)


@st.composite
def small(draw: st.DrawFn) -> ExpertsProblem:
    gpus = draw(st.integers(2, 3))
    equal = draw(st.booleans())
    slots = np.array([draw(st.integers(1, 3))] * gpus if equal else draw(lists(st.integers(1, 3), gpus)))
    most = min(int(slots.sum()), 4)
    experts_ = draw(st.integers(max(2, most - 2), max(2, most)))
    slots[0] += max(0, experts_ - int(slots.sum()))
    load = draw(lists(st.integers(0, 60), experts_))
    load[0] += 1
    speed = None if equal else np.array(draw(lists(st.sampled_from([1.0, 0.7, 0.5]), gpus)))
    return ExpertsProblem(np.array([load], dtype=float), slots, np.zeros(gpus, np.int64), speed)


def lists(of: st.SearchStrategy, length: int) -> st.SearchStrategy:
    return st.lists(of, min_size=length, max_size=length)


@settings(max_examples=150)
@given(small())
def test_agrees_with_trying_every_replica_and_place(p: ExpertsProblem) -> None:
    s = experts.solve(p)
    mean = p.load_tok.sum() / p.speeds.sum()

    assert feasible(p, s)
    assert s.objective == pytest.approx(coolest(p.load_tok[0], p.slots, p.speeds) / mean)
    assert s.bound == pytest.approx(s.objective)
    assert s.status == "optimal"


@settings(max_examples=75)
@given(small(), st.sampled_from([1.02, 1.3, 3.0]))
def test_exactly_is_the_best_however_bad_what_is_known(p: ExpertsProblem, worse: float) -> None:
    load, best = p.load_tok[0], coolest(p.load_tok[0], p.slots, p.speeds)
    if best == 0:
        return
    below = float(balance_bound(load[None], p.slots, p.speeds)[0])
    placed, bound = experts_exact.balance(load, p.slots, p.speeds, best * worse, below, Limits())

    assert placed is not None
    assert times(load[None], placed[None], p.speeds).max() == pytest.approx(best, rel=1e-6)
    assert bound == pytest.approx(best, rel=1e-6)


@settings(max_examples=100)
@given(small())
def test_the_quick_bound_holds(p: ExpertsProblem) -> None:
    bound = balance_bound(p.load_tok, p.slots, p.speeds)[0]

    assert bound <= coolest(p.load_tok[0], p.slots, p.speeds) * (1 + 1e-9)


@settings(max_examples=100)
@given(st.data())
def test_whole_groups_agree_with_trying_every_deal(data: st.DataObject) -> None:
    """Groups of one or two experts on two nodes of two GPUs, of other speed and size on the second."""
    groups = data.draw(st.integers(2, 4))
    group = np.repeat(np.arange(groups), data.draw(lists(st.integers(1, 2), groups)))
    load = np.array([data.draw(lists(st.integers(1, 50), len(group)))], dtype=float)
    slots = np.array([2, 2, *data.draw(lists(st.integers(1, 2), 2))])
    speed = np.array([1.0, 1.0, *data.draw(lists(st.sampled_from([1.0, 0.5]), 2))])
    node = np.array([0, 0, 1, 1])
    best = np.inf
    for deal in product(range(2), repeat=groups):
        on = np.array(deal)[group]
        if all(0 < (on == n).sum() <= slots[node == n].sum() for n in range(2)):
            parts = [coolest(load[0][on == n], slots[node == n], speed[node == n]) for n in range(2)]
            best = min(best, max(parts))
    p = ExpertsProblem(load, slots, node, speed, group)
    if not np.isfinite(best):
        with pytest.raises(ValueError, match=r"groups on nodes|slots"):
            experts.solve(p, Aim(grouped=True))
        return
    s = experts.solve(p, Aim(grouped=True))

    assert feasible(p, s)
    assert s.objective == pytest.approx(best / (load.sum() / speed.sum()))
    assert s.bound == pytest.approx(s.objective)
    for h in range(groups):
        own = np.flatnonzero(group == h)
        assert len({int(node[g]) for g, gpu in enumerate(s.place[0]) for e in gpu if e in own}) == 1


@given(st.lists(st.integers(0, 99), min_size=1, max_size=5), st.integers(0, 6))
def test_no_other_replicas_have_a_smaller_largest_load(loads: list[int], spare: int) -> None:
    load = np.array([loads], dtype=float) + 1
    r = apportion(load, len(loads) + spare)[0]
    largest = min(max(load[0] / np.array(other)) for other in counts(len(loads) + spare, len(loads)))

    assert r.sum() == len(loads) + spare
    assert (load[0] / r).max() == pytest.approx(largest)


def sampled(seed: int, layers: int = 2, gpus: int = 8, per_node: int = 4, slots: int = 3) -> ExpertsProblem:
    """16 experts in 4 groups; a token uses two groups."""
    rng = np.random.default_rng(seed)
    load, tokens = [], []
    for _ in range(layers):
        likes = rng.lognormal(0, 0.8, 16)
        rows = []
        for _ in range(400):
            own = np.concatenate([4 * g + np.arange(4) for g in rng.permutation(4)[:2]])
            rows.append(rng.choice(own, 4, replace=False, p=likes[own] / likes[own].sum()))
        load.append(np.bincount(np.concatenate(rows), minlength=16) + 1.0)
        tokens.append(np.array(rows[:60]))
    return ExpertsProblem(
        np.array(load), np.full(gpus, slots), np.arange(gpus) // per_node, None, np.arange(16) // 4, tokens
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("grouped", [True, False])
def test_together_is_no_worse_than_either_alone_and_above_its_bound(seed: int, grouped: bool) -> None:
    p = sampled(seed) if grouped else replace(sampled(seed), group=None)
    alone, both = experts.solve(p, Aim(), QUICK), experts.solve(p, Aim("combined"), QUICK)
    again = [value(p, place, at) for at, place in enumerate(both.place)]

    assert feasible(p, both)
    assert both.objective == pytest.approx(np.mean([b + 0.1 * n for b, n in again]))
    assert alone.nodes_per_token is not None
    assert both.objective <= np.mean(alone.balance + 0.1 * alone.nodes_per_token) + 1e-9
    assert 1.1 - 1e-9 <= both.bound <= both.objective
    assert alone.objective == pytest.approx(np.mean([value(p, x, at)[0] for at, x in enumerate(alone.place)]))


def test_a_cap_on_balance_is_kept_and_traffic_no_more_than_without_search() -> None:
    p = sampled(5)
    s, free = experts.solve(p, Aim("traffic", balance_cap=1.05), QUICK), experts.solve(p, Aim(), QUICK)

    assert (s.balance <= 1.05 + 1e-9).all()
    assert free.nodes_per_token is not None
    assert s.bound <= s.objective <= free.nodes_per_token.mean()


def test_unequal_nodes_and_gpus_share_traffic_and_time() -> None:
    p = replace(
        sampled(6),
        slots=np.array([4, 4, 4, 4, 2, 2, 2, 2]),
        speed=numbers(1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5),
        node=np.array([0, 0, 0, 0, 1, 1, 2, 2]),
    )
    s = experts.solve(p, Aim("combined"), QUICK)
    again = [value(p, place, at) for at, place in enumerate(s.place)]

    assert feasible(p, s)
    assert s.objective == pytest.approx(np.mean([b + 0.1 * n for b, n in again]))
    assert s.bound <= s.objective


def test_the_same_seed_gives_the_same_places() -> None:
    p = sampled(7)

    assert experts.solve(p, Aim("combined"), QUICK).place == experts.solve(p, Aim("combined"), QUICK).place


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_no_random_placement_is_below_the_bound_of_traffic(seed: int) -> None:
    p, rng = sampled(seed, layers=1, gpus=4, per_node=2, slots=6), np.random.default_rng(seed)
    assert p.tokens is not None
    expert = np.concatenate([np.arange(16), rng.integers(0, 16, 8)])
    if seed % 2:  # groups together: near what is least
        expert = np.sort(expert)
    else:
        rng.shuffle(expert)
    place = expert.reshape(4, 6)
    balance, nodes = value(p, place.tolist(), 0)
    met = Meetings(p.load_tok[0], p.tokens[0], np.array([12, 12]), np.ones(2))

    assert met.nodes_per_token(balance) <= nodes + 1e-9
    least = balance_bound(p.load_tok, p.slots, p.speeds)[0] / p.load_tok.sum() * 4
    assert met.joint(float(least), 0.1, balance + 0.1 * nodes) <= balance + 0.1 * nodes + 1e-9


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_moves_keep_their_books(seed: int) -> None:
    """Nodes per token, shares and slopes after moves are those counted anew."""
    p = sampled(seed, layers=1)
    assert p.tokens is not None
    gpu = np.repeat(np.arange(8), 3)
    around = Surroundings(
        p.load_tok[0], gpu, p.node[gpu], np.full(8, 8 / p.load_tok.sum()), 0.1, 1.0, 9.0, 1.0
    )
    start = np.random.default_rng(seed).permutation(np.concatenate([np.arange(16), np.arange(8)]))
    d = Descent(around, Traffic(p.tokens[0], 16, 2), start)
    before = d.value(d.traffic.value)
    d.run(5)
    anew = Descent(around, Traffic(p.tokens[0], 16, 2), d.expert)

    assert d.value(d.traffic.value) <= before
    assert d.value(d.traffic.value) == pytest.approx(anew.value(anew.traffic.value))
    np.testing.assert_allclose(d.traffic.slopes, anew.traffic.slopes, atol=1e-12)
    assert set(d.expert) == set(range(16))


def test_the_largest_use_is_balanced_within_two_percent() -> None:
    """8 of 58 layers of 256 experts on 64 GPUs."""
    load = np.random.default_rng(1).lognormal(0, 0.8, (8, 256))
    s = experts.solve(ExpertsProblem(load, np.full(64, 5), np.arange(64) // 8))

    assert (s.balance <= 1.02 * s.balance_bound).all()


def test_a_bound_that_is_met_by_pairs_is_found_exactly() -> None:
    """Without spare slots 50 needs company: 50 + 10, and 30 + 20."""
    load, slots, speed = numbers(50, 30, 20, 10), np.array([2, 2]), np.ones(2)
    placed, bound = experts_exact.balance(load, slots, speed, 70.0, 55.0, Limits())

    assert placed is not None
    assert times(load[None], placed[None], speed).max() == pytest.approx(60.0) == pytest.approx(bound)
    assert counted(placed[None], 4).tolist() == [[1, 1, 1, 1]]


BAD = {
    "layer 0: a load is negative": replace(SMALL, load_tok=np.array([[1.0, -2.0, 3.0]])),
    "layer 1: a load is negative or no": replace(SMALL, load_tok=np.array([[1.0, 2.0], [1.0, np.nan]])),
    "layer 0: no expert has any load": replace(SMALL, load_tok=np.zeros((1, 4))),
    "4 experts want 4 slots, and there are 3": replace(SMALL, slots=np.array([2, 1])),
    "at least one slot": replace(SMALL, slots=np.array([6, 0])),
    "a speed is not above zero": replace(SMALL, speed=numbers(1, 0)),
    "numbered from 0": replace(SMALL, node=np.array([0, 2])),
    "groups: 2 numbers for 4": replace(SMALL, group=np.array([0, 1])),
    "sampled tokens: 2 layers of 1": replace(SMALL, tokens=[np.array([[0, 1]])] * 2),
    "layer 0: sampled tokens must be": replace(SMALL, tokens=[np.array([[0, 4]])]),
    "one row a layer": replace(SMALL, load_tok=np.zeros((0, 4))),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        experts.solve(BAD[message])


def test_traffic_without_tokens_and_groups_without_groups_are_errors() -> None:
    with pytest.raises(ValueError, match="wants sampled tokens"):
        experts.solve(SMALL, Aim("traffic"))
    with pytest.raises(ValueError, match="wants groups"):
        experts.solve(SMALL, Aim(grouped=True))


def case(name: str) -> tuple[ExpertsProblem, dict]:
    from benchmarks.peers import eplb

    if not (CASES / f"{name}.json").exists():
        pytest.skip("the peers' cases are not here")
    data = json.loads((CASES / f"{name}.json").read_text())
    return eplb.problem(data["problem"]), data["known"]


def test_the_peers_own_example_is_solved_and_proven_free_and_grouped() -> None:
    p, known = case("readme_example")
    free, grouped = experts.solve(p), experts.solve(p, Aim(grouped=True))

    assert (
        free.objective == pytest.approx(known["best_known"], abs=1e-6) == pytest.approx(free.bound, abs=1e-6)
    )
    assert grouped.objective == pytest.approx(known["grouped"]["bound"], abs=1e-6)
    assert grouped.bound == pytest.approx(grouped.objective)


@pytest.mark.parametrize("name", ["dsv2_16gpu_zipf", "dsv3_32gpu_zipf", "moe64_8gpu_lognormal"])
def test_peers_cases_reach_the_best_known(name: str) -> None:
    p, known = case(name)
    balanced, both = experts.solve(p), experts.solve(p, Aim("combined"), QUICK)

    assert balanced.objective <= known["best_known"] * 1.001
    assert both.objective <= known["combined"]["best_known"]
    assert known["combined"]["bound"] <= both.bound <= both.objective


def test_no_layer_is_searched_exactly_after_the_time(monkeypatch):
    """What was placed stands, with the bound that it had: 300 layers must not take 300 last tries."""
    searched = []

    def noted(load_tok, *rest):
        searched.append(load_tok)
        return None, rest[3]

    monkeypatch.setattr(experts_exact, "balance", noted)
    load = np.array([[0.0, 9, 0, 1, 5, 4, 8, 6]] * 5)
    layers = ExpertsProblem(load, slots=np.array([3] * 4), node=np.zeros(4, dtype=int))

    late = experts.solve(layers, limits=Limits(gap=0.0, seconds=0.0))
    assert not searched
    assert feasible(layers, late)
    assert (late.balance_bound <= late.balance).all()

    experts.solve(layers, limits=Limits(gap=0.0, seconds=20.0))
    assert len(searched) == 5

"""Dropping dominated candidates never changes the best fleet; each condition of dominance is needed."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.candidates import dominance
from planner.candidates.candidate import Candidate, Design
from planner.candidates.dominance import undominated
from planner.candidates.needs import Counts, moved
from planner.cost.transfer import Overlap
from planner.designs.shape import Stage
from solvers import fleet
from solvers.fleet.types import Column, FleetProblem
from solvers.linear import Limits
from tests.solvers.fleets import random_fleet

BOTH = Counts(latency=True, watts=True)
NEITHER = Counts(latency=False, watts=False)
NODES = {"g": 8}


def candidate(name, gpus=1, use=1.0, role="mixed", **more) -> Candidate:
    rows = use if isinstance(use, dict) else {"busy": {"w": use}}
    defaults = {
        "watts": 1.0,
        "ttft_s": dict.fromkeys(rows["busy"], 0.0),
        "handoff_s": dict.fromkeys(rows["busy"], 0.0),
    }
    return Candidate(name, role, "g", "vllm", Design(tp=gpus), gpus, rows, **{**defaults, **more})


def kept(*candidates, counts=NEITHER, nodes=NODES, partners=None):
    return [c.id for c in undominated(candidates, nodes, counts, partners)]


def test_the_one_that_needs_less_stays():
    assert kept(candidate("slow", use=2.0), candidate("fast", use=1.0)) == ["fast"]


def test_of_equals_the_first_stays():
    assert kept(candidate("a"), candidate("b")) == ["a"]


def test_two_halves_replace_a_whole_that_is_no_faster_than_both():
    assert kept(candidate("half", 1, 1.0), candidate("whole", 2, 0.5)) == ["half"]
    assert kept(candidate("half", 1, 1.0), candidate("whole", 2, 0.49)) == ["half", "whole"]


def test_a_smaller_one_that_does_not_fit_in_the_place_stays_beside_the_larger():
    """Nodes of 8: two of 6 take two nodes, and 12 GPUs take two whole nodes, but three of 4 leave nothing."""
    assert kept(candidate("six", 6, 1.0), candidate("twelve", 12, 0.5)) == ["six"]
    assert kept(candidate("five", 5, 1.0), candidate("fifteen", 15, 1 / 3)) == ["five", "fifteen"]


def test_the_same_pool_is_compared_once_and_anew_where_something_else_counts(monkeypatch):
    pools = []
    spared = dominance.spared
    monkeypatch.setattr(dominance, "spared", lambda *asked: pools.append(asked) or spared(*asked))
    pool = [candidate("five", 5, 1.0), candidate("fifteen", 15, 1 / 3)]

    assert [kept(*pool), kept(*pool)] == 2 * [["five", "fifteen"]]
    assert len(pools) == 1
    assert kept(*pool, nodes={"g": 16}) == ["five"]
    hot = [candidate("hot", watts=2.0), candidate("cool", use=1.1)]
    assert [kept(*hot, counts=counts) for counts in (NEITHER, BOTH)] == [["hot"], ["hot", "cool"]]
    assert len(pools) == 4


def test_crossing_resources_drop_nothing():
    a = candidate("a", use={"busy": {"w": 1.0}, "kv": {"w": 2.0}})
    b = candidate("b", use={"busy": {"w": 2.0}, "kv": {"w": 1.0}})

    assert kept(a, b) == ["a"]  # all of a's are within b's time, and the first of equals stays
    c = {"busy": {"w": 1.0, "v": 2.0}, "kv": {"w": 2.0, "v": 1.0}}
    d = {"busy": {"w": 2.0, "v": 1.0}, "kv": {"w": 1.0, "v": 2.0}}
    assert kept(candidate("c", use=c), candidate("d", use=d)) == ["c", "d"]


def test_whoever_serves_more_buckets_stays():
    both = candidate("both", use={"busy": {"v": 1.5, "w": 1.5}})

    assert kept(candidate("w only", use=1.0), both) == ["w only", "both"]
    assert kept(candidate("w only", use=1.5), both) == ["both"]


@pytest.mark.parametrize(
    ("counts", "left"),
    [(NEITHER, ["quick"]), (Counts(False, True), ["quick", "frugal"]), (BOTH, ["quick", "frugal"])],
)
def test_watts_count_where_they_are_limited(counts, left):
    assert kept(candidate("quick", use=1.0, watts=9.0), candidate("frugal", use=2.0), counts=counts) == left


def test_latency_counts_where_it_is_the_goal():
    slow, fast = candidate("slow", tpot_s=0.5), candidate("fast", use=2.0, tpot_s=0.1)

    assert kept(slow, fast) == ["slow"]
    assert kept(slow, fast, counts=Counts(True, False)) == ["slow", "fast"]


def grows(name, gpus, light, **more) -> Candidate:
    """Two halves of 1 GPU carry just what a whole of 2 does; `light`: what it costs at a light load."""
    return candidate(name, gpus, {"busy": {"0": 1.0 / gpus}}, lighter=((light,),), **more)


def test_whoever_is_faster_at_a_light_load_stays():
    half, latency = grows("half", 1, 0.2), Counts(True, False)

    assert kept(half, grows("whole", 2, 0.1), counts=latency) == ["half", "whole"]
    assert kept(half, grows("whole", 2, 0.2), counts=latency) == ["half"]
    assert kept(half, grows("whole", 2, 0.1)) == ["half"]


def test_whoever_draws_less_at_a_light_load_stays():
    half, watts = grows("half", 1, 100.0), Counts(False, True)

    assert kept(half, grows("whole", 2, 199.0, watts=2.0), counts=watts) == ["half", "whole"]
    assert kept(half, grows("whole", 2, 200.0, watts=2.0), counts=watts) == ["half"]


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6))
def test_whoever_is_no_slower_with_and_without_its_transfer_is_so_with_any_partner(seed):
    r = np.random.default_rng(seed)
    slow, sent, hidden = (
        r.integers(0, 6, (2, 1, 1)) / 4,
        r.integers(0, 6, (2, 1)) / 4,
        r.integers(0, 6, (2, 1)) / 4,
    )
    rows = moved(slow, sent, hidden)
    assume((rows[0] <= rows[1]).all())
    for partner_s, factor, last in r.random((20, 3)) * [2.0, 1.0, 1.0]:
        waits = [
            slow[i, 0, 0] + Overlap(last, hidden[i, 0]).seen_s(max(factor * sent[i, 0], partner_s))
            for i in (0, 1)
        ]
        assert waits[0] <= waits[1] + 1e-12


def test_a_late_prefill_replaces_no_punctual_one_unless_they_pair_alike():
    late = candidate("late", use=1.0, role="prefill", late_s=2.0)
    punctual = candidate("punctual", use=2.0, role="prefill", late_s=1.0)

    assert kept(late, punctual) == ["late", "punctual"]
    assert kept(late, punctual, partners={"late": "p", "punctual": "p"}) == ["late"]
    assert kept(late, punctual, partners={"late": "p", "punctual": "q"}) == ["late", "punctual"]


@pytest.mark.parametrize("gpus", [4, 8])
def test_one_whose_cache_takes_longer_to_send_replaces_no_other_that_is_as_punctual(gpus):
    """Attention-dp ranks send whole caches, tensor-parallel ones their heads: as many GPUs, other times."""
    slow = candidate("slow", 4, 1.0, role="prefill", late_s=1.0, handoff_s={"w": 0.4})
    quick = candidate("quick", gpus, 1.1, role="prefill", late_s=1.0, handoff_s={"w": 0.1})

    assert kept(slow, quick) == ["slow", "quick"]
    assert kept(slow, replace(quick, late_s=1.5)) == ["slow"]
    assert kept(slow, replace(quick, handoff_s={"w": 0.4})) == ["slow"]


def test_one_that_sends_more_of_a_cache_last_replaces_no_other():
    """In larger chunks more of it comes after the prompt, however much compute the rest hides behind."""
    more = candidate("more", 4, 1.0, role="prefill", late_s=1.0, overlap={"w": Overlap(0.5, 9.0)})
    less = candidate("less", 4, 1.1, role="prefill", late_s=1.0, overlap={"w": Overlap(0.2, 9.0)})

    assert kept(more, less) == ["more", "less"]
    assert kept(more, replace(less, overlap=more.overlap)) == ["more"]


def test_a_replica_over_nodes_of_one_domain_replaces_no_free_one():
    near = candidate("near", 16, 1.0, joined=True)
    wide = candidate("wide", 32, 0.5)

    assert kept(near, wide) == ["near", "wide"]
    assert kept(near, replace(wide, joined=True)) == ["near"]


@settings(max_examples=60)
@given(seed=st.integers(0, 100_000))
def test_dropping_dominated_candidates_never_changes_the_best_fleet(seed):
    problem = crowded(seed)
    assume(problem.objective.name != "spare")
    watts = problem.objective.name == "energy" or "watts" in problem.budget
    counts = Counts(latency=problem.objective.name == "latency", watts=watts)

    ids = undominated(
        [as_candidate(c, column) for c, column in problem.columns.items()],
        {g: stock.gpus_per_node for g, stock in problem.stocks.items()},
        counts,
        {c: column.group for c, column in problem.columns.items() if column.group},
    )

    assume(len(ids) < len(problem.columns))
    fewer = replace(problem, columns={c.id: problem.columns[c.id] for c in ids})
    with_all, with_few = (fleet.solve(p, Limits()) for p in (problem, fewer))
    assert (with_all.objective is None) == (with_few.objective is None)
    if with_all.objective is not None:
        assert with_few.objective == pytest.approx(with_all.objective, rel=1e-6)


def crowded(seed: int) -> FleetProblem:
    """A random fleet with larger, mostly worse twins of its columns; dollars are paid for nodes alone."""
    r, problem = random.Random(seed), random_fleet(seed)
    columns = {name: replace(column, price=0.0) for name, column in problem.columns.items()}
    for name, column in list(columns.items()):
        times = 1 if column.blocks else r.choice([1, 2, 3, 4])
        node = problem.stocks[column.stock].gpus_per_node
        if column.gpus * times > 2 * node or (column.gpus * times > node and column.gpus * times % node):
            continue
        factor = r.uniform(0.9, 1.3) / times
        use = {j: {w: u * factor for w, u in row.items()} for j, row in column.use.items()}
        twin = replace(
            column, gpus=column.gpus * times, use=use, watts=column.watts * times * r.uniform(0.9, 1.2)
        )
        columns[f"{name} x {times}"] = twin
    return replace(problem, columns=columns)


def as_candidate(name: str, column: Column) -> Candidate:
    """What the planner would have made the column of."""
    role = "mixed" if column.group is None else "decode" if column.group.startswith("d") else "prefill"
    late = {w: column.latency.get(w, 0.0) for w in column.buckets}
    return Candidate(
        name,
        role,
        " + ".join(map(str, sorted(column.blocks))) or column.stock,
        "vllm",
        Design(stages=tuple(Stage(g, gpus, (0, 1)) for g, gpus in column.blocks)),
        column.gpus,
        column.use,
        column.watts,
        ttft_s=late,
        handoff_s=dict.fromkeys(late, 0.0),
        joined=column.joined,
    )

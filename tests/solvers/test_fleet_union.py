"""Several fleets on the same nodes: by hand, and taken apart again."""

import random
from dataclasses import replace
from itertools import product

import pytest

from solvers import fleet
from solvers.fleet import union as fleet_union
from solvers.fleet.goals import COST, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock, Transfer
from solvers.linear import Limits
from tests.solvers import fleets


def part(gpus, rate):
    """A model whose only replica takes so many GPUs and serves so many requests/s."""
    column = Column("h", gpus, {"busy": {"0": 1 / rate}})
    return FleetProblem({"c": column}, {"h": Stock(2, 4, 8.0)}, {"0": 1.0}, THROUGHPUT)


def test_two_models_share_a_node_and_it_is_paid_once():
    """By hand: two GPUs each for 10 requests/s of one and 5 of the other are one node of $8."""
    parts = [replace(part(2, rate), objective=COST, demand=rate) for rate in (10.0, 5.0)]
    s = fleet.solve(fleet_union.union(parts, [2 / 3, 1 / 3], 15.0), Limits(gap=0.0))

    assert s.objective == pytest.approx(8.0) == s.bound
    assert [own.replicas for own in fleet_union.parts_of(s, [2 / 3, 1 / 3])] == [{"c": 1}, {"c": 1}]


def test_throughput_is_the_largest_common_scale():
    """By hand: of 8 GPUs, 4 each; 20 and 10 requests/s, of which the parts ask for two to one."""
    p = fleet_union.union([part(2, 10.0), part(2, 5.0)], [2 / 3, 1 / 3], None)
    s = fleet.solve(p, Limits(gap=0.0))
    own = fleet_union.parts_of(s, [2 / 3, 1 / 3])

    assert s.objective == pytest.approx(30.0) == s.bound
    assert [x.rate for x in own] == pytest.approx([20.0, 10.0])
    assert fleet_union.with_flows(s, own).flows == pytest.approx(s.flows)
    assert fleet_union.part_of(p, s, 1, 1 / 3).columns["c"].use == {"busy": {"0": 0.2}}


def test_what_both_send_over_one_link_fits_it_together():
    """By hand: 5 bytes a request of either over a link of 40 bytes/s let 8 requests/s through in all, where
    each alone has GPUs for 10."""
    columns = {
        "p": Column("h", 1, {"pre": {"0": 0.1}}, group="P"),
        "d": Column("h", 1, {"dec": {"0": 0.1}}, group="D"),
    }
    moved = {("P", "D", "0"): Transfer(5.0, links=("k",), on_nic=False)}
    stocks, links = {"h": Stock(1, 4)}, {"k": 40.0}
    one = FleetProblem(columns, stocks, {"0": 1.0}, THROUGHPUT, pairs=moved, links=links)
    s = fleet.solve(fleet_union.union([one, one], [0.75, 0.25], None), Limits(gap=0.0))

    assert s.objective == pytest.approx(8.0) == s.bound
    own = fleet_union.parts_of(s, [0.75, 0.25])
    assert [sum(x.pair_flows.values()) for x in own] == pytest.approx([6.0, 2.0])


def test_parts_that_do_not_share_their_nodes_are_refused():
    other = replace(part(2, 5.0), stocks={"h": Stock(3, 4, 8.0)})
    with pytest.raises(ValueError, match="stocks"):
        fleet_union.union([part(2, 10.0), other], [0.5, 0.5], None)


def test_one_more_request_is_as_dear_as_the_gpus_that_it_takes():
    """By hand: a request/s of the first takes 0.2 GPUs of $2, of the second 0.4; of throughput, one of the
    mix takes 0.8 / 3."""
    priced = [replace(part(2, rate), objective=COST, demand=rate) for rate in (10.0, 5.0)]
    cost = fleet_union.dearness(fleet_union.union(priced, [2 / 3, 1 / 3], 15.0), Limits())
    most = fleet_union.dearness(
        fleet_union.union([part(2, 10.0), part(2, 5.0)], [2 / 3, 1 / 3], None), Limits()
    )

    assert cost == pytest.approx({"0 0": 0.4, "1 0": 0.8})
    assert most == pytest.approx({"0 0": 0.75, "1 0": 1.5})


def two(seed):
    """Two random models on the same nodes, without shared links: the second is the first at other speeds."""
    r, objective = random.Random(seed), ("throughput", "cost", "gpus")[seed % 3]
    p = fleets.random_fleet(seed, objective)
    columns = {c: replace(k, sent={}) for c, k in p.columns.items()}
    pairs = {key: replace(t, links=()) for key, t in p.pairs.items()}
    budget = {b: x for b, x in p.budget.items() if b in ("usd_per_hour", "gpus")}
    first = replace(p, columns=columns, pairs=pairs, budget=budget)
    slower = {c: r.uniform(0.5, 2.0) for c in columns}
    second = {
        c: replace(k, use={j: {w: slower[c] * u for w, u in row.items()} for j, row in k.use.items()})
        for c, k in columns.items()
    }
    part = r.uniform(0.2, 0.8)
    return [first, replace(first, columns=second)], [part, 1 - part]


def best_of_two(parts, weights):
    """By trying every pair of fleets; knows nothing of `union`."""
    p = parts[0]
    both = {f"{m}{c}": k for m, own in enumerate(parts) for c, k in own.columns.items()}
    whole, found = replace(p, columns=both, pairs={}, nic={}, kinds={}), []
    each = [
        replace(q, demand=None if p.demand is None else w * p.demand)
        for q, w in zip(parts, weights, strict=True)
    ]
    rates = [
        [(counts, fleets.by_flows(replace(q, budget={}), counts)) for counts in fleets._all_counts(q)]
        for q in each
    ]
    able = [[(counts, rate) for counts, rate in own if rate is not None] for own in rates]
    for (one, fast), (other, also) in product(*able):
        value = min(fast / weights[0], also / weights[1])
        if p.objective.more and found and value <= max(found):
            continue
        counts = {f"{m}{c}": k for m, own in enumerate((one, other)) for c, k in own.items()}
        nodes = fleets._affordable(whole, counts)
        if nodes is not None:
            found.append(value if p.objective.more else fleets._price(whole, counts, nodes))
    return (max(found) if p.objective.more else min(found)) if found else None


@pytest.mark.parametrize("seed", range(80))
def test_the_union_agrees_with_trying_every_pair_of_fleets(seed):
    parts, weights = two(seed)
    s = fleet.solve(fleet_union.union(parts, weights, parts[0].demand), Limits(gap=0.0, seconds=20.0))
    best = best_of_two(parts, weights)

    if best is None or best == 0:
        assert not s.objective
    else:
        assert s.objective == pytest.approx(best, rel=1e-5)
        assert s.bound == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_a_part_that_is_taken_out_of_the_union_is_what_was_put_in(seed):
    parts, weights = two(seed)
    whole = fleet_union.union(parts, weights, 7.0)
    every = FleetSolution("optimal", None, None, "", dict.fromkeys(whole.columns, 1))
    one = FleetSolution("optimal", None, None, "", dict.fromkeys(list(whole.columns)[:1], 1))

    for m, (put, weight) in enumerate(zip(parts, weights, strict=True)):
        own = fleet_union.part_of(whole, every, m, weight)
        assert own.columns == {c: replace(column, tangents=[]) for c, column in put.columns.items()}
        assert (own.pairs, own.nic, own.stocks, own.budget) == (put.pairs, put.nic, put.stocks, put.budget)
        assert own.share == pytest.approx(put.share)
        assert own.demand == pytest.approx(weight * 7.0)
    alone = fleet_union.part_of(whole, one, 0, weights[0])
    assert list(alone.columns) == list(alone.kinds) == list(parts[0].columns)[:1]
    assert not alone.pairs

"""Losing nodes: by hand, against every way to place every fleet, by what must hold, by the docstring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solvers import fleet
from solvers.fleet import nodes as fleet_nodes
from solvers.fleet import prices as fleet_prices
from solvers.fleet import survive as fleet_survive
from solvers.fleet.goals import COST, GPUS, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock, Survive, Transfer
from solvers.linear import Limits, Linear
from tests.solvers.fleets import by_flows, most, random_fleet

SMALL = FleetProblem(
    columns={"tp4": Column("g", 4, {"busy": {"chat": 1.0}})},
    stocks={"g": Stock(5, 8, 1.0)},
    share={"chat": 1.0},
    objective=COST,
    demand=4.0,
)
TOLD = {"throughput": 1.0, "cost": -1.0, "gpus": -1.0}


def solved(p: FleetProblem, nodes: int = 1, share: float = 1.0) -> FleetSolution:
    """The same in the mean over losses, where hardly anything stands by itself, and node by node."""
    asked = replace(p, survive=Survive(nodes, share))
    with patch.object(fleet_nodes, "LOSSES", 0):
        mean = fleet.solve(asked, Limits())
    apart = fleet.solve(asked, Limits())
    assert apart.objective == pytest.approx(mean.objective)
    return mean


def test_two_full_nodes_are_insured_by_a_third():
    """Four replicas fill two nodes; of three nodes any two have four."""
    s = solved(SMALL)

    assert (s.objective, s.status) == (3.0, "optimal")
    assert solved(SMALL, nodes=2).objective == 4.0
    assert solved(SMALL, share=0.5).objective == 2.0
    assert solved(SMALL, nodes=3).objective == 5.0
    for lost in (4, 5, 6):
        assert solved(SMALL, nodes=lost).status == "infeasible"


def test_replicas_of_their_own_nodes_need_one_more_not_twice_as_many():
    """Fewest GPUs: five replicas, each on a node of its own, and one is lost."""
    s = solved(replace(SMALL, objective=GPUS))

    assert (s.objective, s.nodes) == (20.0, {"g": 5})


def test_the_rate_that_survives_is_that_of_four_of_five_nodes():
    assert solved(replace(SMALL, objective=THROUGHPUT, demand=None)).rate == pytest.approx(8.0)
    half = solved(replace(SMALL, objective=THROUGHPUT, demand=None), share=0.5)
    assert half.rate == pytest.approx(10.0)


def test_a_replica_over_two_nodes_is_lost_with_either():
    wide = replace(SMALL, columns={"tp16": Column("g", 16, {"busy": {"chat": 1.0}})}, demand=1.0)

    assert solved(wide).objective == 4.0
    assert solved(replace(wide, demand=2.0)).status == "infeasible"


def test_a_replica_that_loses_both_of_its_nodes_is_lost_once():
    """One over two nodes carries 4 a second, one on each of the other two 1: whichever two nodes are lost,
    one of the three is left, so that 6 a second must stand below the bound."""
    columns = {
        "tp16": Column("g", 16, {"busy": {"chat": 0.25}}),
        "tp8": Column("g", 8, {"busy": {"chat": 1.0}}),
    }
    p = replace(SMALL, columns=columns, stocks={"g": Stock(4, 8, 1.0)}, objective=THROUGHPUT, demand=None)
    p = replace(p, survive=Survive(2, 1 / 6))

    assert fleet_nodes.apart(p)
    assert (fleet.solve(p, Limits()).bound or 0.0) >= 6.0


def test_of_a_pair_both_sides_are_left():
    """One prefills, one decodes, each on its class: both classes need a second node."""
    pair = FleetProblem(
        columns={
            "p": Column("a", 8, {"busy": {"chat": 1.0}}, group="P"),
            "d": Column("b", 8, {"busy": {"chat": 1.0}}, group="D"),
        },
        stocks={"a": Stock(3, 8, 2.0), "b": Stock(3, 8, 1.0)},
        share={"chat": 1.0},
        objective=COST,
        demand=1.0,
        pairs={("P", "D", "chat"): Transfer(0.0, on_nic=False)},
    )

    assert solved(pair).objective == 6.0
    assert solved(pair).replicas == {"p": 2, "d": 2}


def test_a_design_may_run_at_another_load_where_a_node_is_lost():
    """With h gone, which served all short prompts, the two designs on g serve both at a load that they do not
    run at before; where another load is another design, one of them has to run so all the time."""
    columns = {
        "long": Column("g", 8, {"busy": {"long": 0.5}}),
        "both": Column("g", 8, {"busy": {"long": 0.9, "short": 0.9}}),
        "short": Column("h", 8, {"busy": {"short": 0.1}}),
    }
    stocks, share = {"g": Stock(2, 8, 1.0), "h": Stock(1, 8, 1.0)}, {"long": 0.5, "short": 0.5}
    p = FleetProblem(columns, stocks, share, THROUGHPUT, kinds={"long": "k", "both": "k", "short": "s"})

    assert solved(p, share=0.25).rate == pytest.approx(8.0)
    assert solved(replace(p, kinds={}), share=0.25).rate < 7.0


def test_what_fixed_replicas_carry():
    own, s = fleet.carried(replace(SMALL, survive=Survive(1, 1.0)), {"tp4": 3}, Limits())

    assert (s.rate, s.replicas, own.survive) == (pytest.approx(3.0), {"tp4": 3}, None)
    assert fleet.carried(SMALL, {}, Limits())[1].rate == 0


# against every way to place every fleet


def drawn(seed: int, objective: str) -> FleetProblem:
    """A random fleet of columns on one class each and no budgets, whose fleets and their places are few."""
    for i in range(1000):
        p = replace(random_fleet(7919 * seed + i, objective), budget={})
        domains = {g: replace(stock, domain_nodes=1) for g, stock in p.stocks.items()}
        columns = {c: replace(k, joined=False) for c, k in p.columns.items()}
        p = replace(p, stocks=domains, columns=columns, demand=p.demand and p.demand / 2)
        if not any(k.blocks for k in columns.values()) and 1 < sum(most(p, c) for c in columns) <= 9:
            return p
    raise AssertionError("no fleet small enough was drawn")


Places = tuple[tuple[str, tuple[int, ...]], ...]
"""Of each replica its column and its nodes."""


def placings(p: FleetProblem, counts: Mapping[str, int]) -> Iterator[Places]:
    """Every way to put replicas on nodes, nodes of a class being alike."""
    each = [c for c, k in counts.items() for _ in range(k)]

    def put(i: int, room: dict[tuple[str, int], int], done: Places) -> Iterator[Places]:
        if i == len(each):
            yield done
            return
        column = p.columns[each[i]]
        stock = p.stocks[column.stock]
        span, size = max(stock.span(column.gpus), 1), stock.gpus_per_node
        need = size if stock.span(column.gpus) else column.gpus
        for nodes in combinations(range(stock.nodes), span):
            if all(room.get((column.stock, k), size) >= need for k in nodes):
                less = {(column.stock, k): room.get((column.stock, k), size) - need for k in nodes}
                yield from put(i + 1, room | less, (*done, (each[i], nodes)))

    seen = set()
    for places in put(0, {}, ()):
        alike = tuple(sorted(places))
        if alike not in seen:
            seen.add(alike)
            yield alike


@dataclass
class Tried:
    """A problem whose fleets are tried one by one; what sets of replicas serve is asked once each."""

    p: FleetProblem
    survive: Survive
    known: dict[tuple[str, ...], float] = field(default_factory=dict)

    @property
    def nodes(self) -> list[tuple[str, int]]:
        return [(g, k) for g, stock in self.p.stocks.items() for k in range(stock.nodes)]

    def serves(self, replicas: list[str]) -> float:
        """The most, by a linear program of its own, whatever nodes there are."""
        key = tuple(sorted(replicas))
        if key not in self.known:
            own = replace(self.p, objective=THROUGHPUT, demand=None)
            self.known[key] = (key and by_flows(own, {c: key.count(c) for c in self.p.columns})) or 0.0
        return self.known[key]

    def least_left(self, places: Places) -> float:
        """What the rest serves after the worst loss."""
        stock = {c: column.stock for c, column in self.p.columns.items()}
        return min(
            self.serves([c for c, on in places if not {(stock[c], k) for k in on} & set(gone)])
            for gone in combinations(self.nodes, self.survive.nodes)
        )

    def value(self, places: Places) -> float:
        """GPUs or money."""
        columns = [self.p.columns[c] for c, _ in places]
        if self.p.objective is GPUS:
            return float(sum(column.gpus for column in columns))
        used = {(self.p.columns[c].stock, k) for c, on in places for k in on}
        own = sum(column.price for column in columns)
        return own + sum(self.p.stocks[g].price or 0.0 for g, _ in used)

    def best(self) -> float | None:
        """The best objective of all fleets in all places; None: none survives."""
        found, share, demand = list[float](), self.survive.share, self.p.demand or 0.0
        for ks in product(*(range(most(self.p, c) + 1) for c in self.p.columns)):
            counts = dict(zip(self.p.columns, ks, strict=True))
            full = self.serves([c for c, k in counts.items() for _ in range(k)])
            if full < demand * (1 - 1e-9):
                continue
            for places in placings(self.p, counts):
                rate = min(full, self.least_left(places) / share)
                if self.p.objective.more:
                    found.append(rate)
                elif rate >= demand * (1 - 1e-9):
                    found.append(self.value(places))
        if not found:
            return None
        return max(found) if self.p.objective.more else min(found)


GOALS = st.sampled_from(["throughput", "cost", "gpus"])
LOST = st.sampled_from([Survive(1, 1.0), Survive(1, 0.6), Survive(2, 0.5)])


@settings(max_examples=25)
@given(st.integers(0, 10_000), GOALS, LOST)
def test_no_fleet_that_survives_is_better_than_the_bound(seed: int, objective: str, survive: Survive):
    p = drawn(seed, objective)
    assume(sum(stock.nodes for stock in p.stocks.values()) > survive.nodes)
    best = Tried(p, survive).best()
    assume(best)
    with patch.object(fleet_nodes, "LOSSES", 0):
        s = fleet.solve(replace(p, survive=survive), Limits())

    assert s.bound is not None
    assert best is not None
    assert TOLD[objective] * (s.bound - best) >= -1e-6 * best


@settings(max_examples=25)
@given(st.integers(0, 10_000), GOALS, LOST)
def test_node_by_node_the_best_fleet_that_survives_is_found(seed: int, objective: str, survive: Survive):
    """Of several lost nodes two may take the same replica, which the program leaves open."""
    p = drawn(seed, objective)
    assume(sum(stock.nodes for stock in p.stocks.values()) > survive.nodes)
    best, p = Tried(p, survive).best(), replace(p, survive=survive)
    assume(best and fleet_nodes.apart(p))
    s = fleet.solve(p, Limits())

    assert s.objective is not None
    assert best is not None
    if survive.nodes == 1 or all(k.gpus <= p.stocks[k.stock].gpus_per_node for k in p.columns.values()):
        assert s.objective == pytest.approx(best)
    assert TOLD[objective] * ((s.bound or 0.0) - best) >= -1e-6 * best


@settings(max_examples=25)
@given(st.integers(0, 10_000), GOALS, LOST)
def test_a_fleet_that_surely_survives_does_where_it_stands_evenly(
    seed: int, objective: str, survive: Survive
):
    p = drawn(seed, objective)
    assume(sum(stock.nodes for stock in p.stocks.values()) > survive.nodes)
    with patch.object(fleet_nodes, "LOSSES", 0):
        s = fleet.solve(replace(p, survive=replace(survive, sure=True)), Limits())
    assume(s.objective is not None and s.rate > 1e-6)
    tried = Tried(p, survive)
    left = [tried.least_left(places) for places in placings(p, s.replicas) if even(p, places, s.nodes)]

    assert all(rate >= survive.share * s.rate * (1 - 1e-6) for rate in left)


def even(p: FleetProblem, places: Places, nodes: Mapping[str, int]) -> bool:
    """Whether a node of those that are on has at most one replica of a column more than the mean."""
    for c, column in p.columns.items():
        held = Counter(k for own, on in places if own == c for k in on)
        mean = sum(held.values()) / max(nodes.get(column.stock, 0), 1)
        if any(many >= mean + 1 for many in held.values()):
            return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_leaving_kinds_out_by_their_prices_changes_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch):
    p = replace(drawn(seed, "throughput"), survive=Survive(1, 0.5))
    p = replace(p, kinds={c: f"{k.stock} {k.gpus} {k.group}" for c, k in p.columns.items()})
    plain = fleet.solve(p, Limits())
    monkeypatch.setattr(fleet_prices, "MANY", 1)

    assert fleet.solve(p, Limits()).objective == pytest.approx(plain.objective)


def test_every_row_and_variable_of_the_docstring_is_in_the_model():
    doc = fleet_survive.__doc__ or ""
    fleets = map(random_fleet, range(200))
    with_pairs = next(p for p in fleets if p.pairs and min(s.nodes for s in p.stocks.values()) > 1)
    p = replace(with_pairs, survive=Survive(1, 1.0))
    before = fleet.build(replace(p, survive=None)).model
    apart = fleet.build(p).model
    with patch.object(fleet_nodes, "LOSSES", 0):
        mean = fleet.build(p).model
        sure = fleet.build(replace(p, survive=Survive(2, 1.0, sure=True))).model

    def new(model: Linear) -> set[str]:
        more = {family for family, _ in model.rows} - {family for family, _ in before.rows}
        assert {family for family in more if family.startswith("rest ")} >= {"rest busy", "rest serve"}
        assert all(family in doc for family in more if family.startswith("rest "))
        return {family for family in more if not family.startswith("rest ")}

    assert new(mean) == {"left", "thin", "few", "held"}
    assert new(sure) == new(mean) | {"each", "sure", "gone"}
    assert all(f"\n{family}[" in doc for family in new(sure))
    assert new(apart) == {"left", "at", "room", "on", "first"}
    assert all(f"\n{family}[" in (fleet_nodes.__doc__ or "") for family in new(apart))
    assert mean.families - before.families == {"left", "rest f", "rest x", "few"}
    assert sure.families - mean.families == {"each", "gone"}
    assert apart.families - before.families == {"left", "rest f", "rest x", "at", "on"}

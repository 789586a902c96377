"""What assumed rates, prices and loads of experts decide; the truth is a plan made at the moved figure."""

import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.beside import assumptions as module
from planner.beside.assumptions import LESS, MORE, Uneven, assumptions, of_kinds, trials
from planner.beside.planned import Planned
from planner.cost.popularity import Popularity
from solvers.linear import Limits
from tests.beside.solved import ended, on, solved

LIMITS = Limits(gap=0.01, work=1000)


def planned(*given, **asked) -> Planned:
    return Planned(*solved(*given, **asked), LIMITS)


def named(case: Planned) -> list[str]:
    return [trial.name.removeprefix("cluster.nodes.") for trial in trials(case)]


def boxes(**told) -> Planned:
    forms = [Node(name="h", device="l40s", count=1, gpus_per_node=4, price_usd_per_hour=1.0, **told)]
    return Planned(
        *on(resolve(Cluster(name="c", nodes=forms)), "llama-3.1-70b", tpot_ms=200, ttft_ms=10_000), LIMITS
    )


def test_slower_links_lose_what_a_plan_on_such_links_would():
    """Four L40S on PCIe share every layer of 70B: half the rate is told, and planned anew."""
    (told,) = assumptions(boxes(nic_gb_per_s=1.0))
    again = boxes(nic_gb_per_s=1.0, intra_gb_per_s=LESS * 32)

    assert (told.name, told.what) == ("cluster.nodes.intra_gb_per_s", "links inside nodes at half their rate")
    assert told.objective == pytest.approx(again.fleet.objective, rel=0.02)
    assert told.loss == pytest.approx(1 - told.objective / boxes(nic_gb_per_s=1.0).fleet.objective)
    assert told.loss > 0.05


def test_unlike_stages_may_change_their_order_and_layers():
    """Two boxes of two desktop cards in a row, whose split follows the links inside them."""
    load = {"isl": 2000, "osl": 50, "tpot_ms": 200, "ttft_ms": 8000}
    (told,) = assumptions(planned("2xrtx-3090,2xrtx-4090", "qwen3-32b", **load))

    assert told.name == "cluster.nodes.intra_gb_per_s"
    assert 0.05 <= told.loss <= 0.2


def test_what_was_told_is_no_assumption():
    assert named(boxes()) == ["intra_gb_per_s"]
    assert named(boxes(intra_gb_per_s=32.0)) == []


def test_what_cannot_matter_is_not_tried():
    assert named(planned("1xH100", "llama-3.1-8b")) == []
    assert named(planned("8xH100", "llama-3.1-8b", rate=2.0)) == []


def test_links_between_nodes_matter_to_what_stands_on_several_and_experts_to_those_that_share_them():
    case = planned("16xH100", "deepseek-v3", tpot_ms=100)
    wide = any(g.candidate.design.ep > 1 for g in case.made)

    assert named(case) == ["intra_gb_per_s", "nic_gb_per_s", *["expert loads"] * wide]


def test_a_dearer_class_of_two_costs_its_part_more():
    """By hand: an H200 at $3.39 and L40S at $1.55: a quarter of what the class costs is lost at most."""
    case = planned("2xH200,8xL40S", "llama-3.1-8b", rate=60.0)
    paid = {g.candidate.node_class for g in case.made}
    told = {a.what.split()[0]: a.loss for a in assumptions(case) if a.name == module.PRICES}

    assert len(paid) == 2
    assert {*told} <= paid
    assert 0.05 <= sum(told.values()) <= 0.25 + 1e-6


def test_prices_matter_only_where_they_are_asked_for():
    case = planned("2xH200,8xL40S", "llama-3.1-8b")

    assert not any(t.name == module.PRICES for t in trials(case))
    assert "cluster.nodes.price_usd_per_hour" in from_gpus("2xH200,8xL40S").defaulted


def test_kinds_that_serve_nothing_then_are_told_so(monkeypatch):
    monkeypatch.setattr(module, "LESS", 1e-4)
    (told,) = assumptions(boxes(nic_gb_per_s=1.0))

    assert (told.objective, told.loss) == (None, None)


def test_a_solve_that_ends_far_from_its_bound_says_nothing(monkeypatch):
    case = boxes(nic_gb_per_s=1.0)
    own = case.found.solution
    worse = ended(case.found, objective=0.5 * own.objective, bound=own.objective)
    monkeypatch.setattr(module, "find", lambda *given: worse)

    assert list(assumptions(case)) == []


def test_only_the_plans_own_kinds_are_tried():
    case = boxes()
    left = of_kinds([g.candidate for g in case.made], case.found.pool)

    assert {c.design for c in left.candidates} == {g.candidate.design for g in case.made}
    assert len(left.candidates) < len(case.found.pool.candidates)


def test_uneven_loads_are_twice_as_far_from_even():
    law = Popularity().in_order(256, 8)

    assert Uneven().hottest(256, 8, 0) == pytest.approx(1 + MORE * (law - 1))
    assert Uneven().hottest(256, 1, 0) == 1

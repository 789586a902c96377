"""What one more of a limit is worth: nothing is said where the time for it was over."""

from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.beside import prices as module
from planner.beside.prices import priced
from planner.inputs.options import Budget
from planner.search.find import find
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits
from tests.beside.solved import ended, on, solved

LIMITS = Limits(gap=0.01, seconds=10)
NO_BUDGET = Budget()


def stopped(monkeypatch, share, status, **asked):
    """Prices where one node more is solved to `share` of the objective."""
    found = ended(solved("1xH100", "llama-3.1-8b", tpot_ms=50, **asked)[2], status="optimal")
    objective = None if share is None else share * found.solution.objective
    again = FleetSolution(status, objective, None, "none")
    monkeypatch.setattr(module.fleet, "solve", lambda *given: again)
    return found.solution.objective, priced(found, LIMITS, NO_BUDGET)


@pytest.mark.parametrize("share", [None, 0.8, 1.0])
def test_out_of_time_without_a_gain_is_not_worth_nothing(monkeypatch, share):
    assert stopped(monkeypatch, share, "time_limit")[1] == []


def test_what_no_relaxation_said_in_time_is_not_worth_nothing(monkeypatch):
    found = ended(solved("1xH100", "llama-3.1-8b", tpot_ms=50)[2], status="within_gap")
    assert priced(found, LIMITS, NO_BUDGET)

    monkeypatch.setattr(module.fleet, "relaxed", lambda *given: None)
    assert priced(found, LIMITS, NO_BUDGET) == []


def test_what_was_gained_in_time_is_told(monkeypatch):
    ours, (price,) = stopped(monkeypatch, 1.5, "time_limit")

    assert price.worth == pytest.approx(0.5 * ours)


def test_a_proof_that_nothing_is_gained_is_told(monkeypatch):
    assert stopped(monkeypatch, 1.0, "optimal")[1][0].worth == 0


def test_another_node_doubles_what_one_serves():
    found = solved("1xH100", "llama-3.1-8b", engine="sglang", tpot_ms=50)[2]
    (price,) = priced(found, LIMITS, NO_BUDGET)

    assert (price.limit, price.unit) == ("nodes h100-sxm", "req/s")
    assert price.worth == pytest.approx(found.solution.objective, rel=0.1)


def test_what_is_minimised_gets_better_by_what_is_saved(monkeypatch):
    """Dollars: one node more brings a fleet that costs a quarter less, and one that costs more is no gain."""
    ours, (price,) = stopped(monkeypatch, 0.75, "optimal", rate=2.0, objective="cost")
    assert price.worth in (0.0, pytest.approx(0.25 * ours))

    _, (none,) = stopped(monkeypatch, 1.5, "optimal", rate=2.0, objective="cost")
    assert none.worth == 0


def test_a_cheaper_class_is_worth_what_it_saves():
    """By hand: one and a half times what a node of $1 serves: two of them would do, for $2."""
    forms = [
        Node(name="dear", device="h100-sxm", count=1, gpus_per_node=1, price_usd_per_hour=4.0),
        Node(name="cheap", device="l40s", count=1, gpus_per_node=1, price_usd_per_hour=1.0),
    ]
    cluster = resolve(Cluster(nodes=forms))
    alone = on(resolve(Cluster(nodes=forms[1:])), "llama-3.1-8b", tpot_ms=50)[2].solution.rate
    found = on(cluster, "llama-3.1-8b", tpot_ms=50, rate=1.5 * alone, objective="cost")[2]
    worth = {p.limit: p.worth for p in priced(found, LIMITS, NO_BUDGET)}

    assert found.solution.nodes.get("dear") == 1
    assert worth["nodes cheap"] == pytest.approx(max(worth.values()))
    assert worth["nodes cheap"] == pytest.approx(found.solution.objective - 2.0)
    assert worth["nodes dear"] == 0


def test_a_tenth_more_of_a_budget_buys_a_tenth_more():
    """By hand: ten of twelve nodes of $1 are paid; the eleventh serves a tenth more, a thirteenth nothing."""
    form = Node(name="n", device="h100-sxm", count=12, gpus_per_node=1, price_usd_per_hour=1.0)
    cluster = resolve(Cluster(nodes=[form]))
    found = on(cluster, "llama-3.1-8b", tpot_ms=50, budget="usd_per_hour=10")[2]
    dear, node = priced(found, LIMITS, Budget(usd_per_hour=10.0))

    assert (dear.limit, dear.one_more) == ("budget usd_per_hour", "$1.00/h")
    assert dear.worth == pytest.approx(0.1 * found.solution.objective, rel=0.2)  # both within 1 %
    assert (node.limit, node.worth) == ("nodes n", pytest.approx(0, abs=1e-6))


def test_a_budget_that_only_cuts_the_search_short_is_no_limit():
    """Fleets of fewer kinds are looked for within what is of use: nobody asked for that."""
    found = solved("2xH100", "llama-3.1-8b", rate=2.0, objective="cost")[2]
    cut = replace(found.problem, budget={"usd_per_hour": 2 * found.solution.objective})

    assert [p.limit for p in priced(replace(found, bounding=cut), LIMITS, NO_BUDGET)] == ["nodes h100-sxm"]


PEERS = {"peer_to_peer": True, "nic": "roce"}
"""So that L4 send caches at their links' rates."""


def nodes(*entries):
    """Nodes of (device, GPUs, count, dollars an hour)."""
    forms = [
        Node(name=name, device=name, gpus_per_node=gpus, count=count, price_usd_per_hour=usd, **PEERS)
        for name, gpus, count, usd in entries
    ]
    return resolve(Cluster(nodes=forms))


def test_nodes_that_no_budget_pays_whole_do_not_hide_what_others_are_worth():
    """$11 pay no node of H100 for $12, but 11/12 of one in the relaxation, where three of L4 for $1 are
    worth nothing. Truly the fourth serves what four of them serve more than three."""
    three, four = (nodes(("h100-sxm", 4, 3, 12.0), ("l4", 2, n, 1.0)) for n in (3, 4))
    found = on(three, "llama-3.1-8b", budget="usd_per_hour=11")[2]
    more = on(four, "llama-3.1-8b", budget="usd_per_hour=11")[2].solution.objective
    near = ended(found, status="within_gap")
    prices = {p.limit: p for p in priced(near, LIMITS, Budget(usd_per_hour=11.0))}

    assert found.solution.nodes == {"l4": 3}
    assert more > 1.2 * found.solution.objective
    assert prices["nodes l4"].worth == pytest.approx(more - found.solution.objective, rel=0.01)
    assert prices["nodes h100-sxm"].worth == pytest.approx(0, abs=1e-6)


def test_a_tenth_more_of_a_budget_that_pays_no_further_node_is_worth_nothing():
    """$16 pay all four nodes of $1 and one of $12; $18 no more than that."""
    cluster = nodes(("a100-sxm", 4, 2, 12.0), ("l40s", 1, 4, 1.0))
    found = on(cluster, "llama-3.1-8b", budget="usd_per_hour=16.5", isl=8000, osl=200)[2]
    near = ended(found, status="within_gap")
    prices = {p.limit: p.worth for p in priced(near, LIMITS, Budget(usd_per_hour=16.5))}

    assert prices["budget usd_per_hour"] < LIMITS.gap * found.solution.objective


def test_what_a_fleet_of_few_kinds_gives_up_is_not_what_a_node_is_worth():
    """The best fleet of one kind costs $9.20, with another node of L40S, too. Of one that stands on a node of
    $1 more, that dollar is what it gives up, and no node brings it back."""
    cluster = nodes(("h100-sxm", 1, 32, 1.0), ("l40s", 8, 1, 1.2))
    _, question, best = on(cluster, "llama-3.1-8b", tpot_ms=100, rate=172.0, objective="cost")
    found = find(replace(question, most_kinds=1), best.pool, LIMITS)
    chosen = ended(found, objective=found.solution.objective + 1.0, status="within_gap")
    worth = {p.limit: p.worth for p in priced(chosen, LIMITS, NO_BUDGET)}

    assert found.solution.objective == found.solution.bound == pytest.approx(9.2)
    assert worth == {"nodes l40s": 0.0, "nodes h100-sxm": pytest.approx(0, abs=0.01)}

"""Objectives are entries of one tuple; a toy one needs no other place."""

from dataclasses import replace

import pytest

from planner.beside.reasons import Fleet, why
from planner.inputs.options import Options
from planner.objectives import COST, OBJECTIVES, THROUGHPUT, Objective, Term
from planner.search.find import find
from solvers.fleet.types import Goal
from solvers.linear import Limits
from tests.beside.solved import Figures, solved

NODES = Objective(
    Goal("nodes", lambda p, b: [y * 1.0 for y in b.y.values()], lambda p, s: float(sum(s.nodes.values()))),
    "nodes",
    (Term("{:.3g} against {:.3g} req/s a node", "rate_per_spent", more=True),),
)
"""The fewest nodes in use."""


def test_a_toy_objective_finds_the_fewest_nodes():
    """A node of H100s serves what it takes more than two of L4s to serve."""
    _, question, found = solved("16xH100,64xL4", "llama-3.1-8b", rate=60.0, objective="gpus")
    best = find(replace(question, objective=NODES), found.pool, Limits(work=1000))

    assert best.solution.objective == sum(best.solution.nodes.values())
    assert best.solution.bound == pytest.approx(best.solution.objective)
    assert best.solution.nodes == {"h100-sxm": 1}


def test_a_toy_objective_says_why_a_fleet_is_worse():
    plan, rival = Figures("gpus", 4.0, 20.0), Figures("gpus", 5.0, 20.0)
    for fleet in (plan, rival):
        fleet.found.objective = NODES

    assert why(plan, rival) == "4 against 5 req/s a node"
    assert plan.gain(5.0) == pytest.approx(-0.25)


@pytest.mark.parametrize("one", OBJECTIVES, ids=lambda one: one.name)
def test_options_know_every_objective(one):
    assert Options(objective=one.name).objective == one.name


def test_a_loss_is_positive_where_a_value_is_worse():
    assert THROUGHPUT.loss(10.0, 9.0) == pytest.approx(0.1)
    assert COST.loss(10.0, 9.0) == pytest.approx(-0.1)
    assert THROUGHPUT.loss(0.0, 9.0) == 0.0


def test_fleets_gain_what_their_objective_says():
    best = Fleet(solved("1xH100", "llama-3.1-8b", tpot_ms=50)[2])

    assert best.gain(1.1 * best.objective) == pytest.approx(0.1)

"""What one more of a limit is worth: nothing is said where the time for it was over."""

import pytest

from planner.beside import prices as module
from planner.beside.prices import priced
from solvers.fleet_types import FleetSolution
from solvers.linear import Limits
from tests.beside.solved import solved

LIMITS = Limits(gap=0.01, seconds=10)


def stopped(monkeypatch, share, status, **asked):
    """Prices where one node more is solved to `share` of the objective."""
    found = solved("1xH100", "llama-3.1-8b", tpot_ms=50, **asked)[2]
    objective = None if share is None else share * found.solution.objective
    again = FleetSolution(status, objective, None, "none")
    monkeypatch.setattr(module.fleet, "solve", lambda *given: again)
    return found.solution.objective, priced(found, LIMITS)


@pytest.mark.parametrize("share", [None, 0.8, 1.0])
def test_out_of_time_without_a_gain_is_not_worth_nothing(monkeypatch, share):
    assert stopped(monkeypatch, share, "time_limit")[1] == []


def test_what_was_gained_in_time_is_told(monkeypatch):
    ours, (price,) = stopped(monkeypatch, 1.5, "time_limit")

    assert price.worth == pytest.approx(0.5 * ours)


def test_a_proof_that_nothing_is_gained_is_told(monkeypatch):
    assert stopped(monkeypatch, 1.0, "optimal")[1][0].worth == 0


def test_another_node_doubles_what_one_serves():
    found = solved("1xH100", "llama-3.1-8b", tpot_ms=50)[2]
    (price,) = priced(found, LIMITS)

    assert (price.limit, price.unit) == ("nodes h100-sxm", "req/s")
    assert price.worth == pytest.approx(found.solution.objective, rel=0.05)

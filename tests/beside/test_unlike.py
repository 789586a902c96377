"""Ways that no engine starts are shown where they gain over all that the plan's space has, and not else."""

import pytest

from planner.beside import unlike as module
from planner.beside.planned import Planned
from planner.beside.unlike import unlike
from solvers.linear import Limits
from tests.beside.solved import ended, solved


@pytest.fixture
def shown(monkeypatch):
    """The ways shown beside a plan of two classes, where fleets with them serve `share` of its rate."""
    asked, question, found = solved("1xH100,1xL40S", "llama-3.1-8b", tpot_ms=50)
    monkeypatch.setattr(module, "pooled", lambda asked, given: (found.pool, question))

    def of(share, bound=1.0, using=True):
        rival = ended(found, objective=share * found.solution.objective, status="optimal")
        monkeypatch.setattr(module, "find", lambda *given: rival)
        ours = {c.id for c in found.pool.candidates if c.id in found.solution.replicas}
        monkeypatch.setattr(
            module, "FORMS", [("a way", "no engine starts it", lambda c: using or c.id not in ours)]
        )
        plan = ended(found, bound=bound * found.solution.objective)
        return list(unlike(Planned(asked, question, plan, Limits(work=100))))

    return of


def test_what_gains_is_shown_with_why_it_is_not_the_plan(shown):
    (line,) = shown(1.2)

    assert line.what == "a way"
    assert line.why.endswith("no engine starts it")
    assert line.objective > 0


@pytest.mark.parametrize("share", [0.8, 1.0, 1.01])
def test_what_loses_or_hardly_gains_is_not_spoken_of(shown, share):
    assert shown(share) == []


def test_what_the_plans_own_space_may_give_too_is_no_gain(shown):
    assert shown(1.2, bound=1.19) == []


def test_a_better_fleet_without_the_way_says_nothing_of_it(shown):
    assert shown(1.2, using=False) == []

"""Ctrl-C ends a search: what was found stays and says so, and where nothing was the interrupt is heard."""

from dataclasses import replace

import pytest

from planner.search import find as module
from planner.search import sound, traffic
from planner.search.sound import sound_fleet
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits
from tests.beside.solved import ended, solved

EXACTLY = Limits(gap=0.0, work=1000)
NOTHING = FleetSolution("interrupted", None, None, "none")


def broken_off(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture
def asked(monkeypatch):
    """A question whose first fleet is not good enough, and which has edges of pairs to split, so that a
    search goes on and on."""
    _, question, best = solved("4xA100", "qwen3-32b", gap=0.0)
    monkeypatch.setattr(module, "_enough", lambda *_: False)
    monkeypatch.setattr(module, "edges_between", lambda *_: best.pool.edges)
    return replace(question, finer=lambda pool, edges: pool), best


def check_kept(found, best):
    """The fleet of the first round, under its bound."""
    assert found.solution.status == "interrupted"
    assert found.solution.objective == pytest.approx(best.solution.objective, rel=1e-3)
    assert found.solution.bound == pytest.approx(best.solution.bound)
    assert found.space.columns


@pytest.mark.parametrize("where", ["_may_do", "sound_fleet", "edges_between", "_sharper"])
def test_what_was_found_stays(asked, monkeypatch, where):
    question, best = asked
    monkeypatch.setattr(module, where, broken_off)

    check_kept(module.find(question, best.pool, EXACTLY), best)


def test_what_was_found_stays_where_a_relaxation_is_broken_off(asked, monkeypatch):
    question, best = asked
    monkeypatch.setattr(module.fleet, "relaxed", broken_off)

    check_kept(module.find(question, best.pool, EXACTLY), best)


@pytest.mark.parametrize("nothing", [True, False])
def test_what_was_found_stays_where_the_next_round_is_broken_off(asked, monkeypatch, nothing):
    """Whether that has found a worse fleet or none."""
    question, best = asked
    rounds, solve = list[int](), module.fleet.solve

    def second(problem, *more):
        rounds.append(len(rounds))
        if len(rounds) > 1:
            return NOTHING if nothing else replace(solve(problem, *more), status="interrupted")
        return solve(problem, *more)

    monkeypatch.setattr(module, "sound_fleet", lambda *_: None)
    monkeypatch.setattr(module.fleet, "solve", second)
    monkeypatch.setattr(traffic, "tidied", lambda problem, s, limits: s)

    check_kept(module.find(question, best.pool, EXACTLY), best)
    assert len(rounds) == 2


@pytest.mark.parametrize("where", ["realised", "sound_fleet"])
def test_a_part_that_was_broken_off_is_the_last(asked, monkeypatch, where):
    question, best = asked
    others = {"realised", "sound_fleet"} - {where}
    calls = list[str]()
    monkeypatch.setattr(module, where, lambda *_: calls.append(where) or ended(best, status="interrupted"))
    for other in others:
        monkeypatch.setattr(module, other, lambda *_: None)

    check_kept(module.find(question, best.pool, EXACTLY), best)
    assert calls == [where]


def test_where_nothing_was_found_the_interrupt_is_heard(asked, monkeypatch):
    question, best = asked
    monkeypatch.setattr(module, "realised", broken_off)

    with pytest.raises(KeyboardInterrupt):
        module.find(question, best.pool, EXACTLY)


def test_a_sound_problem_that_was_broken_off_is_not_one_without_a_fleet(asked, monkeypatch):
    question, best = asked
    problem = question.state(best.pool)
    monkeypatch.setattr(sound.fleet, "solve", lambda *_: NOTHING)

    with pytest.raises(KeyboardInterrupt):
        sound_fleet(question, best.pool, problem, EXACTLY, 0.1)


def test_a_sound_fleet_that_was_broken_off_is_not_solved_again(asked, monkeypatch):
    """One that keeps its limits with some of its traffic is told with that, one that does not is not."""
    question, best = asked
    problem, solve, solved_ = question.state(best.pool), sound.fleet.solve, list[int]()

    def pressed(given, limits):
        solved_.append(1)
        return replace(solve(given, limits), status="interrupted")

    monkeypatch.setattr(sound.fleet, "solve", pressed)
    own = sound_fleet(question, best.pool, problem, EXACTLY, 0.1)
    monkeypatch.setattr(sound, "carrying", lambda *_: None)

    assert own.solution.status == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        sound_fleet(question, best.pool, problem, EXACTLY, 0.1)
    assert len(solved_) == 2


@pytest.mark.parametrize("objective", [None, 1.0])
def test_a_plainer_fleet_that_was_broken_off_is_not_told_as_out_of_time(asked, monkeypatch, objective):
    question, best = asked
    late = FleetSolution("time_limit", None, None, "none")
    calls = [late, replace(NOTHING, objective=objective)]
    monkeypatch.setattr(sound.fleet, "solve", lambda *_: calls.pop(0))

    with pytest.raises(KeyboardInterrupt):
        sound_fleet(question, best.pool, question.state(best.pool), EXACTLY, 0.1)


def test_the_plan_s_own_program_is_solved_until_there_is_a_fleet_however_small_the_gap(asked, monkeypatch):
    """Where its relaxation alone is farther from the bound than was asked for, and splitting goes on for more
    than `ROUNDS`: a fleet that exists is found, and not lost."""
    question, best = asked
    tried = list[int]()

    def late(*_):
        tried.append(1)
        return best if len(tried) > module.ROUNDS + 2 else None

    monkeypatch.setattr(module, "_may_do", lambda *_: False)
    monkeypatch.setattr(module, "realised", lambda *_: None)
    monkeypatch.setattr(module, "sound_fleet", late)
    found = module.find(question, best.pool, EXACTLY)

    assert found.solution.replicas == best.solution.replicas

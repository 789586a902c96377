"""From a posed question to fleets: what is chosen, what gives way where a plan is refused, what explains."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import pytest

from planner.errors import Infeasible, OutOfTime
from planner.fleet import solve
from planner.fleet.solve import (
    EXTRA_NODES,
    EXTRA_S,
    TRIES,
    Posed,
    Solved,
    solved,
    sound,
    without,
)
from planner.plans.verified import Unsound
from planner.question.asked import read
from planner.question.posed import pose
from solvers.linear import Limits


@cache
def posed() -> Posed:
    given = read(None, "qwen3-8b", "4xL4", "chat", {}, {"engine": "vllm"})
    return Posed(*pose(given))


@cache
def best() -> Solved:
    return solved(posed(), Limits(gap=0.01, seconds=20.0), time.perf_counter())


def refused(times: int):
    """Makes the objective of a fleet, after so many refusals."""
    seen: list[Solved] = []

    def made_of(fleets: Solved) -> float:
        seen.append(fleets)
        if len(seen) <= times:
            raise Unsound("too full", where="replicas[0]")
        value = fleets.simple.chosen.solution.objective
        assert value is not None
        return value

    return seen, made_of


def test_a_fleet_is_chosen_within_the_share_that_simplicity_may_cost():
    simple = best().simple
    chosen, top = simple.chosen.solution, simple.best.solution

    assert chosen.objective is not None
    assert top.objective is not None
    together = simple.unsplit or top.objective  # the best without a split, where it does without one
    assert together * (1 - posed().asked.options.simple) <= chosen.objective <= together <= top.objective
    assert top.bound is not None
    assert top.objective <= top.bound * (1 + 1e-9)


def test_explanations_have_as_long_however_busy_the_machine_is_and_a_part_of_the_searches_work():
    assert best().extra.seconds == EXTRA_S / 2
    assert best().extra.work is None
    worked = solved(posed(), Limits(gap=0.05, work=200), time.perf_counter())
    assert worked.extra.work == 200 // EXTRA_NODES


def test_a_fleet_that_is_refused_gives_way_to_one_without_its_designs():
    seen, made_of = refused(1)
    value = sound(posed(), Limits(gap=0.01, seconds=20.0), time.perf_counter(), made_of)
    first, second = seen

    assert not set(first.simple.chosen.solution.replicas) & set(second.simple.chosen.solution.replicas)
    assert value <= (first.simple.best.solution.objective or 0.0)
    assert second.simple.best.solution.bound == first.simple.best.solution.bound
    assert [w.code for w in second.posed.asked.warnings].count("unsound") == 1


def test_after_so_many_refusals_it_is_a_mistake():
    seen, made_of = refused(TRIES)
    with pytest.raises(Unsound, match="too full"):
        sound(posed(), Limits(gap=0.05, seconds=20.0), time.perf_counter(), made_of)
    assert len(seen) <= TRIES


def test_what_is_left_of_the_pool_has_none_of_the_refused_designs():
    simple = best().simple
    rest = without(posed(), simple, Unsound("too full", where="replicas[0]"))
    used = {*simple.chosen.solution.replicas, *simple.best.solution.replicas}

    assert {c.id for c in rest.pool.candidates} == {c.id for c in posed().pool.candidates} - used
    assert "too full (at replicas[0])" in rest.asked.warnings[-1].message
    assert rest.question is posed().question


def test_where_no_fleet_is_left_after_a_refusal_that_refusal_is_told(monkeypatch: pytest.MonkeyPatch):
    """And where there never was one, why there is none."""
    seen, made_of = refused(9)
    real = solve.solved

    def none_left(given: Posed, *rest: object) -> Solved:
        if seen:
            raise Infeasible("no fleet")
        return real(given, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(solve, "solved", none_left)
    with pytest.raises(Unsound):
        sound(posed(), Limits(gap=0.05, seconds=20.0), time.perf_counter(), made_of)
    with pytest.raises(Infeasible, match="no fleet"):
        sound(posed(), Limits(gap=0.05, seconds=20.0), time.perf_counter(), made_of)


@pytest.mark.parametrize("hints", [False, True])
def test_a_rate_that_nothing_serves_is_infeasible_with_hints_or_without(hints: bool):
    given = read(None, "qwen3-8b", "1xL4", "chat", {"rate": 1e4}, {"engine": "vllm", "objective": "gpus"})
    question = Posed(*pose(given))
    with pytest.raises(Infeasible) as error:
        solved(question, Limits(gap=0.05, seconds=20.0), time.perf_counter(), hints=hints)
    assert bool(error.value.hint) is hints


def test_a_bound_of_a_larger_pool_stays():
    top = best().simple.best.solution
    assert top.bound is not None
    again = solved(posed(), Limits(gap=0.01, seconds=20.0), time.perf_counter(), bound=2 * top.bound)

    assert again.simple.best.solution.bound == 2 * top.bound
    assert again.simple.best.solution.status != "optimal"


def test_what_was_broken_off_says_so():
    found = best().simple.best
    assert found.interrupted().solution == replace(found.solution, status="interrupted")


def test_without_any_time_there_is_none():
    with pytest.raises((OutOfTime, Infeasible)):
        solved(posed(), Limits(gap=0.0, seconds=-100.0), time.perf_counter())

"""Candidates that fleets near the best may have, and buckets that none serves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.replicas.pool import Pool
from planner.search.shortlists import FOREMOST, LITTLE, ROUNDED, close_to, foremost, nearby, unserved
from solvers.fleet.goals import THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Stock, Transfer
from tests.beside.solved import solved
from tests.problems.test_fleet import candidate

ABC = Pool(tuple(candidate(x, "mixed", "n") for x in "abc"), {})


def names(pool):
    return [c.id for c in pool.candidates]


def question(goal="throughput"):
    more = {} if goal == "throughput" else {"rate": 2.0}
    return solved("1xH100", "llama-3.1-8b", tpot_ms=50, objective=goal, **more)[1]


@pytest.mark.parametrize(
    ("goal", "least", "kept"),
    [
        ("throughput", {"a": 9.0, "b": 10.0, "c": 11.0}, ["b", "c"]),
        ("cost", {"a": 9.0, "b": 10.0, "c": 11.0}, ["a", "b"]),
        ("cost", {"c": 11.0}, ["a", "b"]),  # of what nothing is known stays
        ("cost", {"a": 9.0, "c": 10.0 * (1 + ROUNDED / 2)}, ["a", "b", "c"]),
    ],
)
def test_candidates_stay_that_a_fleet_no_worse_may_have(goal, least, kept):
    assert names(nearby(question(goal), ABC, least, 10.0)) == kept


def test_all_stay_where_nothing_is_known():
    assert nearby(question(), ABC, {}, 10.0) is nearby(question(), ABC, {"a": 1.0}, None) is ABC


@pytest.mark.parametrize(("goal", "sign"), [("throughput", -1), ("cost", 1)])
def test_close_to_the_best_are_those_that_lose_a_tenth_at_most(goal, sign):
    asked, found = solved(
        "1xH100", "llama-3.1-8b", tpot_ms=50, objective=goal, **({} if sign < 0 else {"rate": 2.0})
    )[1:]
    best = found.solution.objective
    least = {"a": best * (1 + sign * 0.9 * LITTLE), "b": best * (1 + sign * 1.1 * LITTLE)}
    near = replace(found, pool=ABC, solution=replace(found.solution, least=least))

    assert names(close_to(asked, near)) == ["a", "c"]
    assert names(close_to(replace(asked, worst=best), near)) == ["a", "b", "c"]


def test_the_foremost_are_the_best_of_those_known():
    many = Pool(tuple(candidate(str(i), "mixed", "n") for i in range(FOREMOST + 5)), {})
    rising = {str(i): float(i) for i in range(FOREMOST + 5)}

    assert names(foremost(many, rising, 1.0)) == [str(i) for i in range(FOREMOST)]
    assert names(foremost(many, rising, -1.0))[0] == str(FOREMOST + 4)
    assert names(foremost(ABC, {"b": 1.0}, 1.0)) == ["b"]
    assert foremost(ABC, {}, 1.0) is ABC


def test_a_bucket_is_served_by_a_column_that_fits_or_by_both_ends_of_a_pair():
    one = {"busy": {"0": 1.0}}
    columns = {
        "mixed": Column("s", 1, one, 1.0),
        "large": Column("s", 9, {"busy": {"3": 1.0}}, 1.0),
        "p": Column("s", 1, {"busy": {"1": 1.0, "2": 1.0}}, 1.0, group="p"),
        "d": Column("s", 1, {"busy": {"1": 1.0}}, 1.0, group="d"),
    }
    pairs = {("p", "d", w): Transfer(1.0, 0.0, (), False) for w in "12"}
    problem = FleetProblem(
        columns, {"s": Stock(1, 4, None)}, dict.fromkeys("0123", 0.25), THROUGHPUT, pairs=pairs
    )

    assert unserved(problem) == [2, 3]

"""With made-up searches: what fails its check is left out, the bound is kept, explanations have limits."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from planner.errors import Infeasible, OutOfTime
from planner.fleet import solve
from planner.fleet.solve import TRIES, Posed, Solved, solved, sound, without
from planner.plans.found import Found
from planner.plans.verified import Unsound
from planner.question.asked import Asked
from planner.replicas.pool import Pool
from planner.search.simple import Simple
from solvers.fleet.types import FleetSolution
from solvers.linear import ENDLESS_S, Limits

LIMITS = Limits(gap=0.01, seconds=60.0)


def pool(*names: str) -> Pool:
    return Pool(tuple(SimpleNamespace(id=name, kind=name) for name in names), {})


def posed(*names: str) -> Posed:
    options = SimpleNamespace(simple=0.03)
    return Posed(Asked(None, None, None, options, None, [], [], None), pool(*names), "question")


def fleet(of: Pool, *names: str, objective=10.0, bound=9.0, status="time_limit") -> Found:
    solution = FleetSolution(status, objective, bound, "none", replicas=dict.fromkeys(names, 1))
    return Found(None, None, None, of, None, solution)


def names(of: Posed) -> list[str]:
    return [c.id for c in of.pool.candidates]


class Search:
    """Finds a fleet of the first candidate that is left; remembers what it was asked."""

    def __init__(self, stop: Exception | None = None, after: int = 99) -> None:
        self.stop, self.after, self.asked, self.bounds = stop, after, [], []

    def __call__(self, of, limits, began, bound, hints):
        self.asked.append(names(of))
        self.bounds.append(bound)
        if self.stop is not None and len(self.asked) > self.after:
            raise self.stop
        found = fleet(of.pool, names(of)[0], bound=8.0 + len(self.asked))
        return Solved(of, Simple(found, found, ()), LIMITS)


def failing(*bad: str):
    """A maker of plans of which those with `bad` fail their check."""

    def made(of: Solved) -> str:
        (own,) = of.simple.chosen.solution.replicas
        if own in bad:
            raise Unsound(f"{own} is wrong", where="replicas")
        return own

    return made


def test_a_plan_that_fails_its_check_is_left_out_and_the_next_one_shown(monkeypatch):
    search = Search()
    monkeypatch.setattr(solve, "solved", search)

    assert sound(posed("a", "b", "c"), LIMITS, 0.0, failing("a", "b")) == "c"
    assert search.asked == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert search.bounds == [None, 9.0, 10.0]  # a plan of fewer designs still has the bound of more


def test_after_several_plans_that_fail_it_is_an_error(monkeypatch):
    search = Search()
    monkeypatch.setattr(solve, "solved", search)
    every = [f"c{i}" for i in range(TRIES + 2)]

    with pytest.raises(Unsound, match=f"c{TRIES - 1} is wrong"):
        sound(posed(*every), LIMITS, 0.0, failing(*every))
    assert len(search.asked) == TRIES


def test_while_there_is_time_further_plans_are_tried(monkeypatch):
    monkeypatch.setattr(solve, "solved", Search())
    every = [f"c{i}" for i in range(TRIES + 3)]

    assert sound(posed(*every), LIMITS, now(), failing(*every[:-1])) == every[-1]


def test_the_second_plan_to_fail_takes_all_columns_of_its_kinds_with_it(monkeypatch):
    """Else twenty columns of one faulty design would each be tried."""
    search, question = Search(), posed(*(f"bad{i}" for i in range(20)), "good")
    for c in question.pool.candidates:
        c.kind = c.id.rstrip("0123456789")
    monkeypatch.setattr(solve, "solved", search)

    assert sound(question, LIMITS, now(), failing(*(f"bad{i}" for i in range(20)))) == "good"
    assert [len(asked) for asked in search.asked] == [21, 20, 1]


@pytest.mark.parametrize("stop", [Infeasible("none"), OutOfTime("late")])
def test_where_nothing_else_is_left_the_failure_is_told_and_not_that(monkeypatch, stop):
    monkeypatch.setattr(solve, "solved", Search(stop, after=1))

    with pytest.raises(Unsound, match="a is wrong"):
        sound(posed("a"), LIMITS, 0.0, failing("a"))


@pytest.mark.parametrize("stop", [Infeasible("none"), OutOfTime("late")])
def test_where_there_was_no_fleet_at_all_that_is_told(monkeypatch, stop):
    monkeypatch.setattr(solve, "solved", Search(stop, after=0))

    with pytest.raises(type(stop)):
        sound(posed("a"), LIMITS, 0.0, failing())


def test_designs_of_both_fleets_are_left_out_and_a_warning_says_so():
    asked = posed("a", "b", "c")
    simple = Simple(fleet(asked.pool, "a"), fleet(asked.pool, "b"), ())
    rest = without(asked, simple, Unsound("too hot", where="replicas[0]"))

    assert names(rest) == ["c"]
    (warning,) = rest.asked.warnings
    assert warning.code == "unsound"
    assert "too hot (at replicas[0])" in warning.message
    assert asked.asked.warnings == []
    assert without(rest, simple, Unsound("too cold", where="replicas[1]")).asked.warnings == [warning]


@pytest.fixture
def search(monkeypatch):
    """A search that finds a fleet at once, which is as simple as can be: what it finds may be changed."""
    own = SimpleNamespace(found=fleet(pool("a"), "a"), simplest=None)

    def simplest(question, found, share, limits):
        if own.simplest is not None:
            raise own.simplest
        return Simple(replace(found, cluster="chosen"), found, ())

    monkeypatch.setattr(solve, "find", lambda question, pool, limits: own.found)
    monkeypatch.setattr(solve, "simplest", simplest)
    monkeypatch.setattr(solve, "surest", lambda asked, question, simple, limits: simple)
    monkeypatch.setattr(solve, "kinds", lambda found: 1)
    return own


def now() -> float:
    return time.perf_counter()


def test_the_simplest_fleet_is_chosen_and_the_best_kept_beside_it(search):
    found = solved(posed("a"), LIMITS, now())

    assert (found.simple.chosen.cluster, found.simple.best.cluster) == ("chosen", None)


def test_out_of_time_for_simpler_fleets_the_best_is_chosen(search):
    search.simplest = OutOfTime("late")
    simple = solved(posed("a"), LIMITS, now()).simple

    assert simple.chosen is simple.best is search.found
    assert simple.by_kinds == ((1, 10.0),)


def test_broken_off_while_looking_for_simpler_ones_the_best_is_shown_as_it_is(search):
    search.simplest = KeyboardInterrupt()
    simple = solved(posed("a"), LIMITS, now()).simple

    assert {simple.chosen.solution.status, simple.best.solution.status} == {"interrupted"}
    assert simple.best.solution.objective == 10.0


@pytest.mark.parametrize(("bound", "status"), [(9.95, "within_gap"), (10.0, "optimal"), (5.0, "time_limit")])
def test_a_bound_of_more_designs_is_what_the_fleet_is_judged_by(search, bound, status):
    best = solved(posed("a"), LIMITS, now(), bound).simple.best.solution

    assert (best.bound, best.status) == (bound, status)


@pytest.mark.parametrize(
    ("started_s", "work", "seconds", "nodes"),
    [
        (+100.0, None, 1.0, None),  # however long the search took, for two halves
        (-1000.0, None, 0.1, None),  # none left: a little all the same
        (+100.0, 200, ENDLESS_S, 10),  # a twentieth of the nodes, and no clock
        (+100.0, 5, ENDLESS_S, 1),
    ],
)
def test_explanations_have_a_part_of_time_and_nodes(search, started_s, work, seconds, nodes):
    extra = solved(posed("a"), replace(LIMITS, work=work), now() + started_s).extra

    assert extra.seconds == pytest.approx(seconds)
    assert (extra.work, extra.gap) == (nodes, LIMITS.gap)


@pytest.mark.parametrize(
    ("hints", "status", "said"),
    [
        (False, "infeasible", "no fleet serves that much"),
        (True, "infeasible", "why"),
        (False, "time_limit", "why"),
    ],
)
def test_without_a_fleet_what_would_help_is_looked_for_unless_nobody_asks(
    search, monkeypatch, hints, status, said
):
    search.found = fleet(pool("a"), objective=None, status=status)
    monkeypatch.setattr(solve.shortage, "explain", lambda *_: Infeasible("why"))

    with pytest.raises(Infeasible, match=said):
        solved(posed("a"), LIMITS, now(), hints=hints)

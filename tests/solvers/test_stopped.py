"""A program that a limit or Ctrl-C stopped proves nothing: neither that there is no room, nor a bound."""

import math
from dataclasses import replace

import numpy as np
import pytest

from solvers import fleet, idle_cache, pipeline, schedule, tiers
from solvers.fleet import union
from solvers.linear import Limits, Linear, Outcome, Undecided, highs, total
from solvers.placement import served_bound
from solvers.schedule import Kind, Problem, Stated, solve
from solvers.schedule.race import Race
from solvers.tiers import rounding
from tests.solvers.pipelines import random_problem
from tests.solvers.test_fleet import SMALL as FLEET
from tests.solvers.test_idle_cache import problem
from tests.solvers.test_placement_served import SERVICE
from tests.solvers.tier_cases import SMALL

AT_ONCE = Limits(seconds=0.0)


def stopping(monkeypatch, status="time_limit"):
    """Relaxations stop before anything is found; those, too, that HiGHS solves whatever its clock says."""
    broken = Outcome(status, None, None, None, "none")
    monkeypatch.setattr(Linear, "relax", lambda self, limits: broken)


def small(most: float) -> Linear:
    """x + y >= 1, both at most `most`."""
    m = Linear("small")
    x = m.reals("x", range(2), most)
    m.minimise([1.0 * v for v in x.values()])
    m.add("some", "", total(x.values()) >= 1.0)
    return m


def test_only_a_search_that_ended_refutes():
    assert not small(1.0).relax(Limits()).refuted
    assert small(0.1).relax(Limits()).refuted
    with pytest.raises(Undecided):
        assert small(1.0).relax(AT_ONCE).refuted
    with pytest.raises(KeyboardInterrupt):
        assert Outcome("interrupted", None, None, None, "any").refuted
    assert not Outcome("interrupted", 1.0, None, np.ones(1), "any").refuted


def broken(status, value=None):
    """An outcome that says so, with duals of every row where it has a value."""
    return lambda model, *_, **__: Outcome(
        status,
        value,
        None,
        None if value is None else np.zeros(len(model.lower)),
        "none",
        {} if value is None else dict.fromkeys(model.rows, -1.0),
    )


@pytest.mark.parametrize("value", [None, 1.0])
def test_ctrl_c_in_a_relaxation_is_heard_whatever_it_has(monkeypatch, value):
    """A long one has a thread of its own, and tells that it was interrupted."""
    monkeypatch.setattr(highs, "solve", broken("interrupted", value))
    counts = dict.fromkeys(FLEET.columns, 1)

    for asks in (fleet.relaxed, fleet.marginals, union.dearness):
        with pytest.raises(KeyboardInterrupt):
            asks(FLEET, Limits())
    with pytest.raises(KeyboardInterrupt):
        small(1.0).relax(Limits())
    with pytest.raises(KeyboardInterrupt):
        fleet.carried(FLEET, counts, Limits())


def test_ctrl_c_while_traffic_is_spread_is_heard(monkeypatch):
    found = fleet.solve(FLEET, Limits())
    monkeypatch.setattr(highs, "solve", broken("interrupted", 1.0))

    with pytest.raises(KeyboardInterrupt):
        fleet.balance(FLEET, found, Limits())


def test_duals_of_a_relaxation_that_was_stopped_are_no_prices(monkeypatch):
    full = replace(FLEET, demand=42.0)
    assert fleet.marginals(full, Limits())
    assert union.dearness(full, Limits())
    monkeypatch.setattr(highs, "solve", broken("time_limit", 1.0))

    assert fleet.marginals(full, Limits()) == {}
    assert union.dearness(full, Limits()) == {}
    assert fleet.relaxed(full, Limits()) is None


def test_a_point_whose_program_was_stopped_keeps_what_it_may_bring(monkeypatch):
    """Two thirds of a token a second there are; none were found, and none are denied."""
    stopping(monkeypatch)

    s = tiers.solve(SMALL, Limits())
    assert (s.status, s.tokens_per_s) == ("time_limit", None)
    assert s.bound >= 2 / 3
    pieces = rounding.rounded(SMALL, Limits())
    assert (pieces.status, pieces.tokens_per_s) == ("time_limit", None)
    assert pieces.bound >= 2 / 3


def test_pieces_that_were_broken_off_are_the_last(monkeypatch):
    tried, in_pieces = [], rounding.in_pieces

    def pressed(*given):
        tried.append(1)
        return replace(in_pieces(*given), status="interrupted", tokens_per_s=1e-3)

    monkeypatch.setattr(rounding, "in_pieces", pressed)
    s = rounding.rounded(SMALL, Limits())

    assert (s.status, s.tokens_per_s, len(tried)) == ("interrupted", 1e-3, 1)


def test_a_point_that_does_not_say_how_much_room_it_lacks_is_not_denied_any(monkeypatch):
    """The program of its shares says that there is no room; the one that would prove it is stopped."""
    said = {"tiers": "infeasible", "overflow": "time_limit"}
    monkeypatch.setattr(
        Linear, "relax", lambda self, limits: Outcome(said[self.name], None, None, None, "none")
    )

    assert tiers.solve(SMALL, Limits()).bound >= 2 / 3


def test_ctrl_c_in_a_point_is_heard(monkeypatch):
    stopping(monkeypatch, "interrupted")

    with pytest.raises(KeyboardInterrupt):
        tiers.solve(SMALL, Limits())


@pytest.mark.parametrize("objective", ["cost", "throughput"])
def test_a_shortlist_whose_ranking_was_stopped_has_the_most_by_each_gpu(monkeypatch, objective):
    p = replace(random_problem(np.random.default_rng(4)), objective=objective, demand=0.1)
    every, many = pipeline.shortlist(p, 1000)
    stopping(monkeypatch)

    found, ranked = pipeline.shortlist(p, 1000)
    each = [f.rate / sum(n * p.kinds[k].gpus for k, n in f.stages) for f in found]
    assert ranked == many > 1
    assert len(found) == len(every)
    assert each == sorted(each, reverse=True)


def test_ctrl_c_in_a_shortlist_is_heard(monkeypatch):
    p = replace(random_problem(np.random.default_rng(4)), objective="cost", demand=0.1)
    stopping(monkeypatch, "interrupted")

    with pytest.raises(KeyboardInterrupt):
        pipeline.shortlist(p, 4)


def test_what_was_stopped_has_no_bound(monkeypatch):
    stopping(monkeypatch)

    assert idle_cache.solve(problem(), Limits()).bound == math.inf


@pytest.mark.parametrize("value", [None, 1.0])
def test_values_of_a_relaxation_that_was_stopped_are_no_bound(monkeypatch, value):
    """Solutions may be there already, of which the best is not known."""
    known = served_bound.bound(SERVICE, 0.0)
    half = Outcome("time_limit", value, None, None if value is None else np.ones(9), "none")
    monkeypatch.setattr(Linear, "relax", lambda self, limits: half)

    assert known <= served_bound.bound(SERVICE, 0.0) < math.inf


def test_a_schedule_whose_relaxation_was_stopped_is_under_no_bound_of_it(monkeypatch):
    """1 and 3 servers at $2; a stopped relaxation has values that cost $12."""
    p = Problem((Kind("a", 1.0, 2.0, 9),), (1.0, 3.0), hours=1.0)
    whole = Stated(p, range(p.slots)).cut(math.inf)
    dear = replace(whole, status="time_limit", value=12.0, bound=None)
    monkeypatch.setattr(Stated, "cut", lambda self, until: dear)
    bounds, bounded = [], Race.bounded
    monkeypatch.setattr(Race, "bounded", lambda self, x: (bounds.append(x), bounded(self, x))[1])

    assert solve(p, Limits()).value == pytest.approx(8.0)
    assert bounds
    assert max(x for x in bounds if x is not None) <= 8.0 + 1e-6


DAY = Problem((Kind("a", 1.0, 2.0, 9), Kind("b", 3.0, 5.0, 9, cold_hours=0.5)), (1.0, 3.0, 7.0, 2.0) * 6, 1.0)
"""A day of two kinds of server."""
KEPT = replace(DAY, kinds=tuple(replace(kind, reserved=0.6) for kind in DAY.kinds))
"""The same with machines that may be reserved."""


@pytest.mark.parametrize(
    ("part", "p", "found"),
    [("_alone", DAY, True), ("_begin", DAY, False), ("_reserving", KEPT, True), ("_first", DAY, True)],
)
def test_a_part_of_a_schedule_that_was_broken_off_is_the_last(monkeypatch, part, p, found):
    """What it has found stays."""
    inside, own, solve_ = list[str](), getattr(schedule, part), highs.solve

    def pressed(*given, **more):
        inside.append(part)
        done = own(*given, **more)
        inside.append("on")
        return done

    def told(*given, **more):
        done = solve_(*given, **more)
        return replace(done, status="interrupted") if inside else done

    for name in ("_alone", "_begin", "_reserving", "_first"):
        if name != part:
            monkeypatch.setattr(schedule, name, lambda *_: 0.0)
    monkeypatch.setattr(schedule, "_rounded", lambda *_: None)
    monkeypatch.setattr(schedule, "_static", lambda _: None)
    monkeypatch.setattr(schedule, "_bounds", lambda *_: None)
    monkeypatch.setattr(schedule, part, pressed)
    monkeypatch.setattr(highs, "solve", told)
    s = solve(p, Limits(seconds=5.0))

    assert inside == [part]
    assert (s.value is not None) == found
    assert s.status in (("interrupted", "optimal", "within_gap") if found else ("interrupted",))

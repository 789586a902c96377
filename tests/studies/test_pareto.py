"""Curves: no point that another beats, none missed against trying every limit, and what they refuse."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import plan
from planner.cli.app import run
from planner.errors import Infeasible, InputError, OutOfTime
from planner.studies.curves import CURVES, Point, asked, curve
from planner.studies.flat import curve_rows as rows
from planner.studies.pareto import pareto, undominated

SMALL = {"gpus": "2xL40S,2xL4", "engine": "vllm", "isl": 500, "osl": 100, "explain": False, "work_limit": 200}


def quiet(n):
    pass


def planned(**more):
    return plan(
        None, "llama-3.1-8b", simple=0.0, **{k: v for k, v in {**SMALL, **more}.items() if v is not None}
    )


class Shop:
    """Fleets of given cost and latency instead of plans: `plan` with a budget takes the best that it may."""

    def __init__(self, fleets):
        self.fleets, self.asked = sorted(fleets), []

    def __call__(self, objective, budget=None, **_):
        most = float(budget.split("=")[1]) + 1e-9 if budget else float("inf")
        self.asked.append(most)
        may = [f for f in self.fleets if f[0] <= most]
        if not may:
            raise Infeasible("nothing for so little")
        key = (lambda f: (f[0], f[1])) if objective == "cost" else (lambda f: (f[1], f[0]))
        usd, seconds = min(may, key=key)
        proof = SimpleNamespace(own=seconds, bound=seconds, status="optimal")
        told = SimpleNamespace(usd_per_hour=SimpleNamespace(value=usd))
        return SimpleNamespace(predicted=told, proof=proof)


FLEETS = st.lists(
    st.tuples(st.integers(100, 5000).map(lambda c: c / 100), st.integers(1, 400).map(lambda s: s / 100)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=200)
@given(FLEETS)
def test_no_step_of_cost_and_latency_is_missed(fleets):
    found = pareto(curve("cost"), Shop(fleets), 40, quiet).points
    best = {f for f in fleets if not any(g != f and g[0] <= f[0] and g[1] <= f[1] for g in fleets)}

    assert {(p.x, p.y) for p in found} == best


@given(FLEETS)
def test_with_few_points_the_ends_are_there(fleets):
    found = pareto(curve("cost"), Shop(fleets), 3, quiet).points
    best = [f for f in fleets if not any(g != f and g[0] <= f[0] and g[1] <= f[1] for g in fleets)]

    assert len(found) <= 3
    assert {min(best), max(best)} <= {(p.x, p.y) for p in found}


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=10))
def test_what_another_beats_is_left_out_and_nothing_else(pairs):
    of = curve("speed")
    kept = undominated([Point(float(x), float(y), 1.0, 1.0, None) for x, y in pairs], of)
    best = {p for p in pairs if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in pairs)}

    assert {(p.x, p.y) for p in kept} == best
    assert len(kept) == len(best)


@pytest.fixture(scope="module")
def fast():
    return pareto(curve("speed"), planned, 6, quiet).points


def test_faster_users_mean_less_throughput_and_no_point_beats_another(fast):
    for a, b in itertools.pairwise(fast):
        assert a.x < b.x
        assert a.y > b.y


def test_no_limit_on_tpot_gives_more_than_the_curve(fast):
    """Tried one by one: at each limit no plan is better than the curve's next faster point, or its bound."""
    for limit_ms in (15.0, 25.0, 40.0, 80.0):
        try:
            other = planned(tpot_ms=limit_ms, objective="throughput")
        except Infeasible:
            assert max(p.x for p in fast) <= 1e3 / limit_ms * 1.001
            continue
        y = other.proof.own * 100 / 4
        slower = [p for p in fast if p.x <= 1e3 / limit_ms * 1.001]
        assert y <= max(p.bound for p in slower) * 1.001


def test_every_point_is_a_plan_within_its_limit_and_bound(fast):
    for p in fast:
        assert p.x >= p.limit * (1 - 1e-6)
        assert p.bound >= p.y * (1 - 1e-9)
        assert p.plan.predicted.tpot_ms.value == pytest.approx(1e3 / p.x)


class Open:
    """36 requests/s in a closed loop; in an open one up to `carried`, and beyond it `error`."""

    def __init__(self, carried, error):
        self.carried, self.error, self.asked = carried, error, []

    def __call__(self, rate, objective):
        if rate is not None:
            self.asked.append(rate)
        if rate is not None and rate > self.carried:
            raise self.error("too many")
        rps = SimpleNamespace(value=36.0 if rate is None else self.carried)
        proof = SimpleNamespace(own=rate, bound=rate, status="optimal")
        return SimpleNamespace(predicted=SimpleNamespace(rps=rps), proof=proof)


@pytest.mark.parametrize(("carried", "solves"), [(36.0, 4), (35.0, 6), (0.7, 6)])
@pytest.mark.parametrize("error", [Infeasible, OutOfTime])
def test_the_last_rate_is_the_highest_that_is_carried(carried, solves, error):
    """It was nearly a closed loop's, which an open one did not carry: a point was lost."""
    solve = Open(carried, error)
    found = pareto(curve("energy"), solve, 4, quiet)

    assert [p.x for p in found.points] == pytest.approx([0.999 * carried * i / 4 for i in (1, 2, 3, 4)])
    assert len(solve.asked) == solves
    assert found.undecided == (error is OutOfTime and carried < 36)


def test_where_no_rate_is_carried_that_is_said_and_not_of_one_that_nobody_asked_for():
    with pytest.raises(Infeasible, match="no fleet keeps the other limits"):
        pareto(curve("energy"), Open(0.0, Infeasible), 4, quiet)


def test_where_the_highest_rate_is_left_undecided_lower_ones_are_tried():
    solve = Open(20.0, OutOfTime)

    def no_most(rate, objective):
        if rate is not None and objective == "throughput":
            raise OutOfTime("late")
        return solve(rate, objective)

    found = pareto(curve("energy"), no_most, 4, quiet)

    assert [p.x for p in found.points] == pytest.approx([0.999 * 9, 0.999 * 18])
    assert found.undecided == 3


def test_rates_that_are_there_are_told_where_the_search_is_broken_off():
    solve = Open(36.0, Infeasible)

    def broken(rate, objective):
        if len(solve.asked) == 2:
            raise KeyboardInterrupt
        return solve(rate, objective)

    assert [p.x for p in pareto(curve("energy"), broken, 4, quiet).points] == pytest.approx([8.991, 35.964])


def test_more_requests_take_more_watts():
    """The highest rate is of routes that keep the limits together; for energy each keeps them by itself, and
    there may be no fleet for that rate."""
    found = pareto(curve("energy"), planned, 3, quiet).points

    assert len(found) >= 2
    for a, b in itertools.pairwise(found):
        assert a.x < b.x
        assert a.y < b.y
    assert all(p.bound <= p.y for p in found)


@pytest.mark.parametrize(
    ("name", "question"),
    [("cost", {}), ("speed", {"rate": 3.0}), ("energy", {"rate": 3.0}), ("speed", {"tpot_ms": 30})],
)
def test_what_a_curve_cannot_take_is_refused(name, question):
    with pytest.raises(InputError, match="curve of"):
        asked(name, question)


def test_answers_of_one_token_have_no_speed(capsys):
    assert (
        run(["pareto", "--gpus", "1xL40S", "--model", "llama-3.1-8b", "--engine", "vllm", "--osl", "1"]) == 2
    )
    assert "answers of a single token" in capsys.readouterr().err


def test_where_nothing_can_be_that_is_said():
    def nothing(**_):
        raise Infeasible("no")

    with pytest.raises(Infeasible):
        pareto(curve("speed"), nothing, 5, quiet)


class Stopping(Shop):
    """Of so many plans that follow each other some are out of time, and one is broken off."""

    def __init__(self, fleets, late=(), broken=None):
        super().__init__(fleets)
        self.late, self.broken = late, broken

    def __call__(self, **question):
        plan, n = super().__call__(**question), len(self.asked)
        if n in self.late:
            raise OutOfTime("late")
        plan.proof.status = "interrupted" if n == self.broken else "optimal"
        return plan


THREE = [(1.0, 9.0), (5.0, 4.0), (20.0, 1.0)]


def test_limits_that_were_left_undecided_are_told():
    """The first three plans are the least money, and both ends."""
    whole, some = (pareto(curve("cost"), Stopping(THREE, late), 40, quiet) for late in ((), (4,)))

    assert (whole.undecided, [p.x for p in whole.points]) == (0, [1.0, 5.0, 20.0])
    assert some.undecided == 1
    assert not some.interrupted


def test_where_no_point_was_decided_none_is_denied():
    """And why is told as the plan tells it: not always was it time that was short."""
    with pytest.raises(OutOfTime, match="late"):
        pareto(curve("cost"), Stopping(THREE, (2, 3)), 40, quiet)


def test_broken_off_the_points_that_are_there_are_told():
    found = pareto(curve("cost"), Stopping(THREE, broken=4), 40, quiet)

    assert found.interrupted
    assert [p.x for p in found.points] == [1.0, 20.0]
    with pytest.raises(KeyboardInterrupt):
        pareto(curve("cost"), Stopping(THREE, broken=1), 40, quiet)


def test_rows_have_a_column_for_each_of_the_header(fast):
    table = rows(curve("speed"), fast)

    assert {len(row) for row in table} == {9}
    assert len(table) == len(fast) + 1


def test_names_of_curves_are_what_the_command_takes(capsys):
    assert run(["pareto", "--gpus", "2xL40S", "--model", "llama-3.1-8b", "--curve", "spede"]) == 2
    told = capsys.readouterr().err
    assert all(c.name in told for c in CURVES)


def test_the_command_prints_the_points_and_writes_them(capsys, tmp_path):
    out = tmp_path / "curve.csv"
    args = ["pareto", "--gpus", "1xL40S", "--engine", "vllm", "--model", "llama-3.1-8b", "--points", "3"]

    assert run([*args, "-o", str(out)]) == 0
    told = capsys.readouterr().out
    assert "from the best possible" in told
    assert max(len(line) for line in told.splitlines()) <= 80
    assert len(out.read_text().splitlines()) >= 3

"""What OR-tools does for large programs: as HiGHS and brute force have it, and never more than is proven."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solvers import fleet, linear
from solvers.fleet.goals import COST, SPARE
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.linear import INF, Limits, Linear, Outcome, cpsat, deciding, flows, glop, highs, large, total
from solvers.linear.program import Program
from tests.solvers.fleets import best_by_trying_all, random_fleet
from tests.solvers.test_bounds_hold import medium
from tests.solvers.test_linear import SMALL

REPO = Path(__file__).resolve().parents[2]
EXACTLY = Limits(gap=0.0, work=10_000)


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every program had thousands of columns, few of them flows."""
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(flows, "NEARLY_ALL", 0.0)
    monkeypatch.setattr(large, "MOST_REALS", INF)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("seed", range(60))
def test_fleets_agree_with_trying_all(seed: int) -> None:
    p = random_fleet(seed)
    s, best = fleet.solve(p, EXACTLY), best_by_trying_all(p)

    if best is None:
        assert (s.status, s.objective) == ("infeasible", None)
    else:
        assert s.status == "optimal"
        assert s.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("seed", range(60))
def test_within_a_gap_the_plan_is_a_plan_and_the_bound_holds(seed: int) -> None:
    """Where CP-SAT's first plan and GLOP's bound may be the answer."""
    p = random_fleet(seed)
    s, best = fleet.solve(p, Limits(gap=0.3, work=10_000)), best_by_trying_all(p)

    if best is not None:
        sign = p.objective.sign
        assert s.status in ("optimal", "within_gap")
        assert s.objective is not None
        assert s.bound is not None
        assert sign * s.bound <= sign * best * (1 + sign * 1e-6) + 1e-9
        assert sign * s.objective >= sign * best * (1 - sign * 1e-6) - 1e-9
        assert linear.gap(s.objective, s.bound) <= 0.3


@pytest.mark.parametrize("seed", range(4))
def test_glop_has_the_relaxation_that_highs_has(seed: int) -> None:
    model = fleet.build(medium(seed)).model
    ours, theirs = glop.relax(model, Limits()), highs.solve(model, Limits(), None, relaxed=True)

    assert ours is not None
    assert ours.value == pytest.approx(theirs.value, rel=1e-7)
    assert ours.bound == pytest.approx(theirs.value, rel=1e-6)
    assert ours.bound <= theirs.value + 1e-9
    assert ours.duals.keys() == theirs.duals.keys()


def test_duals_are_worth_of_a_unit_more_of_a_limit_by_hand() -> None:
    """-10 a unit of room of item 0 takes 5, then 5/3 a unit of item 2's: 8 units hold 15 and 0 of the 1.5."""
    relaxed = glop.relax(SMALL, Limits())

    assert relaxed is not None
    assert relaxed.value == pytest.approx(-15.0)
    assert -5 / 3 - 1e-9 <= relaxed.duals["room", 0] <= -1.5 + 1e-9


def test_any_duals_prove_a_bound_and_those_of_an_endless_column_none() -> None:
    a = glop.Arrays.of(SMALL)
    endless = Linear("endless")
    x = endless.reals("x", "x")["x"]
    endless.minimise([x * 1.0])
    endless.add("row", 0, total([x]) >= 3.0)
    b = glop.Arrays.of(endless)

    assert a.proven(np.array([-1.6])) == pytest.approx(-1.6 * 8 - 2.0 - 0.2)
    assert a.proven(np.array([0.0])) == pytest.approx(-21.0)
    assert b.proven(np.array([0.5])) == pytest.approx(1.5)
    assert b.proven(np.array([2.0])) is None
    assert b.proven(np.array([-1.0])) == pytest.approx(0.0)


def test_a_relaxation_without_an_answer_is_left_to_highs() -> None:
    impossible = Linear("impossible")
    x = impossible.reals("x", "x", 5)["x"]
    impossible.add("row", 0, x * 2.0 >= 11.0)

    assert glop.relax(impossible, Limits()) is None


def test_a_solution_keeps_rows_limits_and_integers() -> None:
    """5 + 3 in 8; 5 + 4 is too much, 3/2 of an item none, and fewer than none are not to be had."""
    a = glop.Arrays.of(SMALL)

    assert a.solution(np.array([1.0, 0.0, 1.0]))
    assert not a.solution(np.array([1.0, 1.0, 0.0]))
    assert not a.solution(np.array([0.5, 0.0, 1.0]))
    assert not a.solution(np.array([1.0, -1.0, 1.0]))
    assert not a.solution(np.array([0.0, 0.0, 2.0]))


@pytest.mark.parametrize("seed", range(20))
def test_cp_sats_plans_keep_the_program_and_are_never_better_than_the_best(seed: int) -> None:
    model = fleet.build(random_fleet(seed)).model
    a, best = glop.Arrays.of(model), highs.solve(model, Limits(), None)
    found = cpsat.whole(a, Limits())

    assert found is None or a.solution(found)
    assert found is None or float(a.cost @ found) >= (best.value or 0.0) - 1e-6


def test_cp_sat_finds_fleets() -> None:
    """Of twenty random ones more than half can serve a bucket by one column as a whole."""
    models = [fleet.build(random_fleet(seed)).model for seed in range(20)]

    assert sum(cpsat.whole(glop.Arrays.of(m), Limits()) is not None for m in models) > 10


def test_without_its_flows_a_program_still_says_which_integers_decide() -> None:
    """Columns are numbered anew there, and the one whose room counts is among the last."""
    columns = {f"c{i}": Column("gh"[i % 2], 1 + i % 4, {"busy": {"w": 1 / (1 + i % 7)}}) for i in range(30)}
    stocks = {"g": Stock(9, 8, 3.0), "h": Stock(9, 4, 1.0)}
    model = fleet.build(FleetProblem(columns, stocks, {"w": 1.0}, COST, 150.0)).model
    small = flows.without(model)
    assert small is not None
    assert small.model.room is not None

    assert [small.kept[i] for i in small.model.first] == list(model.first)
    assert small.kept[small.model.room] == model.room
    found = deciding.solve(small.model, Limits(), Outcome("time_limit", None, None, None, "HiGHS"))
    assert found.status == "optimal"
    assert found.value == pytest.approx(highs.solve(model, Limits(), None).value)


def test_real_columns_are_solved_for_again_with_the_integers_found() -> None:
    """As whole numbers x is 1; then the 0.4 that are asked for."""
    m = Linear("mixed")
    n, x = m.integers("n", "n", 3)["n"], m.reals("x", "x")["x"]
    m.minimise([n * 1.0, x * 1.0])
    m.add("enough", 0, total([x]) >= 0.4)
    m.add("room", 0, total([x]) <= n)

    assert cpsat.whole(glop.Arrays.of(m), Limits()) == pytest.approx([1.0, 0.4])


def one_bucket(seed: int) -> FleetProblem:
    p = medium(seed)
    columns = {
        c: replace(k, use={j: {"long": u["long"]} for j, u in k.use.items()}) for c, k in p.columns.items()
    }
    pairs = {key: pair for key, pair in p.pairs.items() if key[2] == "long"}
    return replace(p, columns=columns, share={"long": 1.0}, pairs=pairs)


@pytest.mark.parametrize("seed", range(4))
def test_without_flows_a_fleet_of_one_bucket_is_the_same_problem(seed: int) -> None:
    model = fleet.build(one_bucket(seed)).model
    small = flows.without(model)

    assert small is not None
    assert len(small.model.lower) == len(model.lower) - 72
    assert {name for name, _ in small.model.rows} & {"busy", "run"} == set()
    assert small.model.solve(Limits()).value == pytest.approx(model.solve(Limits()).value, rel=1e-6)


def test_flows_of_several_buckets_or_with_a_cost_stay() -> None:
    dear = fleet.build(replace(one_bucket(0), objective=SPARE, demand=1.0)).model

    assert flows.without(fleet.build(medium(0)).model) is None
    assert flows.without(dear) is None


@pytest.mark.usefixtures("all_are_large")
def test_an_answer_without_flows_is_the_answer_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    searched, model, plain = list[int](), fleet.build(one_bucket(1)).model, large.searched

    def counted(m: Program, limits: Limits, start: linear.Floats | None = None) -> Outcome:
        searched.append(len(m.lower))
        return plain(m, limits, start)

    monkeypatch.setattr(large, "searched", counted)
    outcome = model.solve(Limits())

    assert searched == [len(model.lower) - 72]
    assert outcome.status == "optimal"
    assert outcome.values is not None
    assert glop.Arrays.of(model).solution(outcome.values)


@pytest.mark.parametrize("also", ["another integer", "a link", "a link alone"])
def test_a_flow_that_something_else_limits_stays(also: str) -> None:
    m = Linear("limited")
    n, k = m.integers("n", "nk", 9).values()
    f, g = m.reals("f", "fg").values()
    m.minimise([n * 1.0, k * 1.0])
    m.add("busy", 0, f * 2.0 <= n * 3.0)
    m.add("busy", 1, g * 2.0 <= n * 3.0)
    m.add("serve", 0, total([f, g]).equals(6.0))
    left = flows.without(m)
    if also == "a link":
        m.add("link", 0, total([f, g * 2.0]) <= 5.0)
    elif also == "a link alone":
        h = m.reals("h", "h")["h"]
        m.add("busy", 2, h * 2.0 <= n * 3.0)
        m.add("link", 0, total([h, k]) <= 5.0)
    else:
        m.add("kv", 0, f * 1.0 <= k * 4.0)
        m.add("kv", 1, g * 1.0 <= k * 4.0)

    assert left is not None
    assert left.kept == (0, 1)
    assert flows.without(m) is None


def test_what_is_left_without_flows_by_hand() -> None:
    """f <= min(3 / 2, 4 / 1) n, so 1.5 n of it must reach 6: four n."""
    m = Linear("hand")
    n = m.integers("n", "n", 9)["n"]
    f = m.reals("f", "f")["f"]
    m.minimise([n * 1.0])
    m.add("busy", 0, f * 2.0 <= n * 3.0)
    m.add("kv", 0, f * 1.0 <= n * 4.0)
    m.add("serve", 0, total([f]).equals(6.0))
    small = flows.without(m)

    assert small is not None
    assert small.kept == (0,)
    assert {name: (row.terms, row.lower, row.upper) for name, row in small.model.rows.items()} == {
        ("serve", 0): ([(0, 1.5)], 6.0, INF)
    }
    assert small.model.solve(Limits()).value == pytest.approx(4.0)


def too_loose() -> Linear:
    """7 g is enough for 6 without any n, but too much: exactly 6 takes f of two n."""
    m = Linear("too loose")
    n = m.integers("n", "n", 9)["n"]
    g = m.integers("g", "g", 1)["g"]
    f = m.reals("f", "f")["f"]
    m.minimise([n * 1.0])
    m.add("busy", 0, f * 1.0 <= n * 3.0)
    m.add("serve", 0, total([f * 1.0, g * 7.0]).equals(6.0))
    return m


@pytest.mark.usefixtures("all_are_large")
def test_a_relaxation_whose_plan_the_program_does_not_have_is_not_the_answer() -> None:
    small = flows.without(too_loose())

    assert small is not None
    assert small.model.solve(Limits()).value == pytest.approx(0.0)
    assert too_loose().solve(Limits()).value == pytest.approx(2.0)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("word", ["optimal", "infeasible"])
def test_what_is_said_without_flows_is_not_said_with_them_where_time_is_over(
    word: linear.Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optimal there, with no plan here; or infeasible, against the plan that is known."""
    optimal = Outcome("optimal", 0.0, 0.0, np.array([0.0, 1.0]), "HiGHS")
    infeasible = Outcome("infeasible", None, None, None, "HiGHS")
    monkeypatch.setattr(large, "searched", lambda *_: optimal if word == "optimal" else infeasible)
    known = None if word == "optimal" else np.array([3.0, 0.0, 6.0])
    found = too_loose().solve(Limits(seconds=-1.0), known)

    assert (found.status, found.value) == ("time_limit", None if known is None else 3.0)


def known(value: float) -> large.Known:
    """Of an item that costs 1 apiece, `value` of it."""
    m = Linear("one")
    m.minimise([m.integers("n", "n", 99)["n"] * 1.0])
    return large.Known(glop.Arrays.of(m), Limits(gap=0.1)).told("first", np.array([value]), None)


def test_bounds_that_a_plan_refutes_are_dropped() -> None:
    outcome = known(10.0).told("second", None, 8.0).told("third", None, 10.5).outcome()

    assert (outcome.value, outcome.bound, outcome.status) == (10.0, 8.0, "time_limit")


def test_the_better_plan_and_the_better_bound_stay() -> None:
    told = known(10.0).told("second", np.array([11.0]), 9.5).told("third", np.array([9.9]), 9.0)

    assert (told.outcome().value, told.outcome().bound) == (9.9, 9.5)
    assert (told.outcome().status, told.outcome().solver, told.proven) == ("within_gap", "third", True)


@pytest.mark.usefixtures("all_are_large")
def test_infeasible_is_not_believed_where_a_plan_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Outcome("infeasible", None, None, None, "HiGHS")
    monkeypatch.setattr(highs, "solve", lambda *_, **__: said)
    monkeypatch.setattr(cpsat, "whole", lambda *_: None)
    plan = np.array([0.0, 1.0, 1.0])

    assert SMALL.solve(Limits()).status == "infeasible"
    assert SMALL.solve(Limits(), plan).status == "time_limit"
    assert SMALL.solve(Limits(), plan).value == pytest.approx(-11.0)
    assert SMALL.solve(Limits(), np.array([1.0, 1.0, 1.0])).status == "infeasible"


@pytest.mark.usefixtures("all_are_large")
def test_ctrl_c_keeps_the_plan_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(glop, "run", interrupted)
    outcome = SMALL.solve(Limits(), np.array([0.0, 1.0, 1.0]))

    assert (outcome.status, outcome.value) == ("interrupted", pytest.approx(-11.0))
    with pytest.raises(KeyboardInterrupt):
        SMALL.relax(Limits())


def test_small_programs_do_not_load_or_tools() -> None:
    code = (
        "import sys; from tests.solvers.test_linear import SMALL; from solvers.linear import Limits;"
        "SMALL.solve(Limits()); SMALL.relax(Limits()); print('ortools' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO)

    assert done.stdout.strip() == "False", done.stderr


def test_large_programs_load_no_pandas_and_print_nothing() -> None:
    code = (
        "import sys; from tests.solvers.test_linear import SMALL; from solvers import linear;"
        "linear.LARGE = 0; SMALL.solve(linear.Limits(gap=0.5));"
        "assert 'ortools' in sys.modules and 'pandas' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("all_are_large")
def test_a_start_of_another_size_is_passed_over() -> None:
    alone, started = SMALL.solve(EXACTLY), SMALL.solve(EXACTLY, np.ones(1))

    assert (started.status, started.value) == (alone.status, alone.value) == ("optimal", alone.value)

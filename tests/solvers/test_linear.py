"""What a model says and what a solve may claim, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from solvers.linear import Limits, Linear, Outcome, cbc, highs, judge, total


def knapsack(values: list[float], weights: list[float], room: float) -> Linear:
    m = Linear("knapsack")
    take = m.integers("take", range(len(values)), 1)
    m.minimise(take[i] * -v for i, v in enumerate(values))
    m.add("room", 0, total(take[i] * w for i, w in enumerate(weights)) <= room)
    return m


SMALL = knapsack([10.0, 6.0, 5.0], [5.0, 4.0, 3.0], 8.0)
"""By hand: 10 + 5 in 8, nothing better."""


def test_a_small_knapsack_is_proven():
    outcome = SMALL.solve(Limits())

    assert (outcome.status, outcome.value) == ("optimal", pytest.approx(-15.0))
    assert outcome.bound == pytest.approx(-15.0)
    assert outcome.solver.startswith("HiGHS")


@pytest.mark.parametrize("nodes", [1, 10**10])
def test_a_search_may_have_any_number_of_nodes(nodes):
    """HiGHS takes no more than 2^31 - 1."""

    assert highs.solve(SMALL, Limits(work=nodes), None).value == pytest.approx(-15.0)
    assert highs.solve(SMALL, Limits(), None, nodes=nodes).value == pytest.approx(-15.0)


def test_comparisons_bring_both_sides_to_the_left():
    m = Linear("sides")
    a, b, c = m.reals("v", "abc").values()
    m.add("ge", 0, total([a]) >= b)
    m.add("eq", 0, total([b]).equals(c * 2.0))
    m.add("le", 0, a * 1.0 <= total([c * 4.0]))
    m.add("floor", 0, c * 1.0 >= 3.0)
    m.minimise([a * 1.0])

    assert m.solve(Limits()).value == pytest.approx(6.0)


def test_a_row_named_twice_is_refused():
    m = Linear("twice")
    m.add("row", 1, total(m.reals("v", "a").values()) <= 1)

    with pytest.raises(ValueError, match=r"row\[1\] stated twice"):
        m.add("row", 1, total([]) <= 1)


def test_infeasible_unbounded_and_out_of_time_are_three_words():
    impossible, endless = Linear("impossible"), Linear("endless")
    x = impossible.integers("x", "x", 5)["x"]
    impossible.add("row", 0, x * 2.0 >= 11.0)
    y = endless.integers("y", "y")["y"]
    endless.minimise([y * -1.0])
    stopped = hard().solve(Limits(seconds=1e-6, work=1))

    assert impossible.solve(Limits()).status == "infeasible"
    assert endless.solve(Limits()).status == "unbounded"
    assert stopped.status == "time_limit"


def test_a_number_that_is_none_is_refused():
    m = knapsack([float("nan"), 1.0], [1.0, 1.0], 1.0)

    with pytest.raises(ValueError, match="not a number"):
        m.solve(Limits())


@pytest.mark.parametrize(
    ("value", "bound", "status"),
    [
        (-10.0, -10.0, "optimal"),
        (-10.0, -10.05, "within_gap"),
        (-10.0, -12.0, "interrupted"),
        (0.0, 0.0, "optimal"),
    ],
)
def test_a_status_is_what_bound_and_value_prove(value, bound, status):
    assert judge(value, bound, Limits(gap=0.01), "interrupted") == status


def test_duals_of_the_relaxation_are_per_unit_of_the_limit():
    """By hand: relaxed, the best value per weight fills the room; one unit more takes 6/4 of the next."""
    outcome = SMALL.relax(Limits())

    assert outcome.value == pytest.approx(-15.0)
    assert knapsack([10.0, 6.0], [5.0, 4.0], 8.0).relax(Limits()).duals["room", 0] == pytest.approx(-1.5)


def test_a_start_of_another_size_is_passed_over():
    first = SMALL.solve(Limits())

    assert SMALL.solve(Limits(), first.values).value == pytest.approx(-15.0)
    assert SMALL.solve(Limits(), first.values[:1]).value == pytest.approx(-15.0)


def test_a_work_limit_gives_the_same_answer_each_time():
    found = [hard().solve(Limits(work=3)) for _ in range(2)]

    assert found[0].value == found[1].value is not None
    assert found[0].bound == found[1].bound


def hard(items: int = 40) -> Linear:
    """Equal-looking market-split rows: no solver proves these at once."""
    m = Linear("market split")
    take = m.integers("take", range(items), 1)
    over = m.reals("over", range(4))
    under = m.reals("under", range(4))
    for r in range(4):
        weights = [(i * 7919 + r * 104729 + (i * i * 31 + r) % 97 * 13) % 100 for i in range(items)]
        gap = [over[r] * -1.0, under[r] * 1.0]
        m.add("split", r, total([take[i] * w for i, w in enumerate(weights)] + gap).equals(sum(weights) // 2))
    m.minimise([*(v * 1.0 for v in over.values()), *(v * 1.0 for v in under.values())])
    return m


def test_cbc_proves_what_highs_left_open():
    first = Outcome("time_limit", -11.0, -16.0, None, "HiGHS")

    outcome = cbc.second_opinion(SMALL, 10.0, first)

    assert (outcome.status, outcome.solver) == ("optimal", "CBC (PuLP)")
    assert outcome.value == outcome.bound == pytest.approx(-15.0)


@pytest.mark.parametrize("first", [(-16.0, -17.0), (-11.0, -12.0)], ids=["a better plan", "a tighter bound"])
def test_cbc_is_not_believed_against_what_highs_knows(first):
    known = Outcome("time_limit", *first, None, "HiGHS")

    assert cbc.second_opinion(SMALL, 10.0, known) is known


def test_cbc_without_a_proof_changes_nothing():
    first = replace(hard().solve(Limits(work=1)), status="time_limit")

    assert cbc.second_opinion(hard(), 1.0, first) is first


def test_cbc_states_every_kind_of_row_and_columns_in_none():
    m = Linear("rows")
    a, b, _ = m.integers("v", "abc", 9).values()
    m.add("le", 0, total([a, b]) <= 7.0)
    m.add("ge", 0, total([a]) >= 2.0)
    m.add("eq", 0, total([b]).equals(3.0))
    m.minimise([a * 1.0, b * -1.0])

    outcome = cbc.second_opinion(m, 10.0, Outcome("time_limit", None, None, None, "HiGHS"))

    assert outcome.value == pytest.approx(-1.0)


def test_a_work_limit_never_asks_cbc(monkeypatch):
    monkeypatch.setattr(cbc, "second_opinion", lambda *_: pytest.fail("asked"))

    assert hard().solve(Limits(work=1)).solver.startswith("HiGHS")


def test_the_clock_asks_cbc_for_the_second_half(monkeypatch):
    asked: list[float] = []
    monkeypatch.setattr(cbc, "second_opinion", lambda model, seconds, first: asked.append(seconds) or first)
    monkeypatch.setattr(
        highs,
        "solve",
        lambda model, limits, start: Outcome("time_limit", None, None, None, f"{limits.seconds}"),
    )

    assert hard().solve(Limits(seconds=8.0)).solver == "4.0"
    assert 7.0 < asked[0] <= 8.0


@pytest.mark.parametrize("word", ["interrupted", "time_limit", "infeasible"])
def test_what_highs_has_not_solved_with_the_integers_of_cbc_is_no_proof(word, monkeypatch):
    half = Outcome(word, -14.0, -15.0, np.zeros(2), "HiGHS")
    monkeypatch.setattr(highs, "solve", lambda model, limits, start: half)
    first = Outcome("time_limit", -11.0, -16.0, None, "HiGHS")

    assert cbc.second_opinion(SMALL, 10.0, first) is first


def test_ctrl_c_while_cbc_runs_leaves_the_plan_of_highs(monkeypatch):
    def pressed(model: Linear, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cbc, "_optimal_integers", pressed)
    first = Outcome("time_limit", -11.0, -16.0, None, "HiGHS")

    assert cbc.second_opinion(SMALL, 10.0, first) == replace(first, status="interrupted")

"""Lines about rivals say what their solves proved, and no more."""

import time
from math import inf

import pytest

from planner.beside.planned import Planned
from planner.beside.reasons import Fleet, kind
from planner.beside.rivals import Rival, Rivals, estimated, gains, lost, told, told_once
from planner.plans.found import groups
from solvers.linear import Limits
from tests.beside.solved import Figures, ended, solved


@pytest.fixture(scope="module")
def best():
    return Fleet(solved()[2])


def rival(best, status, share=None, bound=None):
    """A solve of the same fleet that ended so; objective and bound as shares of the plan's."""
    values = [None if x is None else x * best.objective for x in (share, bound)]
    return Rival.of(lambda: ended(best.found, status=status, objective=values[0], bound=values[1]))


@pytest.mark.parametrize(
    ("status", "share", "said"),
    [
        ("infeasible", None, "infeasible"),
        ("optimal", None, "none_found"),  # there may be one, that was found keeps no promise
        ("time_limit", None, "none_found"),
        ("optimal", 0.9, "proven"),
        ("within_gap", 0.9, "within_gap"),
        ("time_limit", 0.9, "stopped"),
    ],
)
def test_a_solve_ends_as_its_status_and_its_answer_say(best, status, share, said):
    assert rival(best, status, share).ended == said
    assert told(best, rival(best, status, share), "x").status == said


def test_the_best_that_serves_nothing_is_a_proof(best):
    nothing = ended(best.found, status="optimal", objective=None, rate=0.0)

    assert Rival.of(lambda: nothing).ended == "infeasible"
    late = ended(best.found, status="time_limit", objective=None, rate=0.0)
    assert Rival.of(lambda: late).ended == "none_found"


def test_no_candidates_are_a_proof():
    assert Rival.of(lambda: None).ended == "infeasible"


def test_ctrl_c_in_a_solve_ends_the_explanations(best):
    with pytest.raises(KeyboardInterrupt):
        rival(best, "interrupted", 0.9)


def test_out_of_time_is_never_told_as_impossible(best):
    late, never = (told(best, rival(best, s), "x", "cannot be") for s in ("time_limit", "infeasible"))

    assert late.seconds is not None
    assert late.why == "a longer --time-limit looks further"
    assert never.seconds is None
    assert never.why == "cannot be"


def test_of_a_solved_rival_the_loss_is_its_own_against_the_plans(best):
    a = told(best, rival(best, "within_gap", 0.9, 0.905))

    assert a.loss == pytest.approx(0.1)
    assert a.objective == pytest.approx(0.9 * best.objective)
    assert a.bound == pytest.approx(0.905 * best.objective)


def test_of_a_rival_out_of_time_only_what_its_bound_proves_is_lost(best):
    a = told(best, rival(best, "time_limit", 0.6, 0.95))

    assert a.status == "stopped"
    assert a.loss == pytest.approx(0.05)
    assert f"not settled, {0.95 * best.objective:,.4g} req/s at best" in a.why


def test_figures_of_a_fleet_that_was_not_searched_to_the_end_are_no_reasons():
    half = Figures(objective=6.0, rate=6.0, bound=9.5)

    assert "against" in told(Figures(), Rival("proven", half)).why
    assert "against" not in told(Figures(), Rival("stopped", half)).why


@pytest.mark.parametrize("bound", [None, inf, 1.0, 1.2])
def test_a_rival_that_could_still_be_as_good_has_no_loss(best, bound):
    stopped = rival(best, "time_limit", 0.6, bound)

    assert lost(best, stopped) is None
    assert told(best, stopped).loss == 0
    assert told(best, stopped).why.endswith("not settled") == (bound in (None, inf))


def test_a_better_rival_loses_nothing_even_out_of_time(best):
    stopped = rival(best, "time_limit", 1.1, 1.3)

    assert lost(best, stopped) == pytest.approx(-0.1)
    assert told(best, stopped).loss == 0


def test_for_minimised_goals_less_is_better():
    plan, dear = Figures("cost", 10.0), Figures("cost", 12.0)

    assert plan.gain(8.0) == pytest.approx(0.2)
    assert lost(plan, Rival("proven", dear)) == pytest.approx(0.2)
    assert lost(plan, Rival("stopped", Figures("cost", 12.0, bound=11.0))) == pytest.approx(0.1)
    assert lost(plan, Rival("stopped", Figures("cost", 12.0, bound=9.0))) is None


def test_the_plan_it_is_measured_against_is_the_one_chosen(best):
    """A plan taken for its simplicity, below the best there is."""
    plain = Fleet(ended(best.found, objective=0.9 * best.objective))
    a = told(plain, rival(best, "optimal", 0.81, 0.81))

    assert a.loss == pytest.approx(0.1)


def test_what_a_plan_of_few_kinds_gives_up_is_no_gain_of_another_way(best):
    """It is proven to 1 % among fleets of as few kinds, and those of any kinds may serve 4 % more."""
    asked, question, found = solved()
    chosen, ours = ended(found, bound=1.01 * best.objective), best.objective
    plain, few = (Planned(asked, question, chosen, Limits(), b).fleet for b in (None, 1.04 * ours))

    assert gains(plain, 1.05 * ours)
    assert not gains(few, 1.05 * ours)
    assert gains(few, 1.07 * ours)


def test_why_a_better_fleet_is_not_the_plan_is_said(best):
    one, two = ({("mixed", "c", "vllm", f"tp{i}"): 4 for i in range(n)} for n in (1, 2))
    plan, same = Figures(kinds=two), Figures(objective=10.1, kinds=two)
    many = Figures(objective=10.1, kinds={**two, ("decode", "c", "vllm", "tp4"): 4})

    assert told(plan, Rival("proven", many)).why.endswith("3 kinds of replica where the plan has 2")
    assert told(plan, Rival("proven", same)).why.endswith("the plan is as near to the best as was asked for")
    assert "the plan" not in told(plan, Rival("proven", Figures(objective=9.0, kinds=one))).why
    assert told(plan, Rival("proven", same), remark="no engine").why.endswith("no engine")


def test_a_machine_that_does_something_else_makes_no_rival_late(best, monkeypatch):
    """Which rivals are shown would depend on it."""
    rivals = Rivals.within(solved()[1], best, Limits(seconds=60.0))
    for clock in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, clock, lambda: 1e9)

    assert not rivals.late
    monkeypatch.setattr(time, "process_time", lambda: rivals.until + 1.0)
    assert rivals.late


def test_a_fleet_is_named_once(best):
    rivals = Rivals(solved()[1], best, Limits(), inf)
    rivals.show(rival(best, "optimal", 0.9, 0.9), "no split")
    rivals.show(rival(best, "optimal", 0.9, 0.9), "plain")
    rivals.show(rival(best, "optimal", 0.9, 0.9))

    assert [a.what for a in rivals.shown] == ["no split, plain"]


def test_lines_stand_in_order_and_those_without_a_fleet_last(best):
    rivals = Rivals(solved()[1], best, Limits(), inf)
    rivals.lines = {
        i: told(best, r, f"{i}")
        for i, r in enumerate(
            [rival(best, "infeasible"), rival(best, "optimal", 0.7), rival(best, "time_limit", 0.8, 0.9)]
        )
    }

    assert [a.what for a in rivals.shown] == ["2", "1", "0"]


def test_a_way_outside_the_plans_space_must_beat_all_that_is_in_it():
    proven, loose = Figures(bound=10.0), Figures(bound=11.0)

    assert gains(proven, 10.3)
    assert not gains(proven, 10.1)
    assert not gains(loose, 10.3)
    assert gains(Figures("cost", bound=9.5), 9.2)
    assert not gains(Figures("cost", bound=9.5), 9.4)


def test_a_formula_is_no_proof():
    assert estimated("x", Figures(), 12.0, "by a formula").status == "estimate"
    assert estimated("x", Figures(), 8.0, "by a formula").loss == pytest.approx(0.2)


def test_with_a_limit_on_work_the_clock_decides_nothing(best):
    _, question, found = solved()

    assert Rivals.within(question, found, Limits(seconds=0.0, work=10)).late is False
    assert Rivals.within(question, found, Limits(seconds=0.0)).late is True


def test_the_same_fleet_is_described_by_its_groups(best):
    assert told(best, rival(best, "optimal", 0.9, 0.9)).what.startswith(f"{groups(best.found)[0].count} x ")


@pytest.mark.parametrize("gpus", ["8xH100,8xH200", "8xH100,8xL40S"])  # where the two are near each other
def test_no_fleet_of_some_candidates_loses_less_than_their_relaxation_says(gpus):
    _, question, found = solved(gpus, "llama-3.1-8b")
    rivals = Rivals.within(question, found, Limits(gap=0.01, work=1000))
    told = 0
    for banned in rivals.best.kinds:

        def keep(c, banned=banned):
            return kind(c) != banned

        least, rival = rivals.least_lost(keep), rivals.where(keep)
        told += least > 0
        assert rival.fleet is None or -rivals.best.gain(rival.fleet.objective) >= least - 1e-9

    assert told


def test_a_fleet_that_is_named_for_what_it_lacks_has_no_second_line(best):
    runner_up, second = told(best, rival(best, "optimal", 0.9)), told(best, rival(best, "optimal", 0.8))
    named = told(best, rival(best, "optimal", 0.9), "no drafts")
    other = second.model_copy(update={"what": "another fleet"})

    assert told_once([runner_up, other, named]) == [other, named]
    assert told_once([runner_up, other]) == [runner_up, other]
    assert told_once([runner_up, told(best, rival(best, "optimal", 0.8), "fp8")])[0] == runner_up

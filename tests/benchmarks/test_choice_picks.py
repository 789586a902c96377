"""Picks among runs by hand: two layouts, of which one is told too quick."""

from __future__ import annotations

import math

import pytest

from benchmarks.choice.picks import Run, limits_of, lines_of, run_of, scores_of
from planner.predict.predictions import Prediction


def run(layout: str, tpot: float, rate: float, told: float | None = None, promised: float = 0.0) -> Run:
    return Run(("g",), (layout,), (tpot, rate), (told or tpot, promised or rate), 0.1)


RIGHT = [run("tp", 10, 100), run("tp", 20, 150), run("ep", 40, 400)]


def test_who_predicts_what_is_measured_breaks_and_loses_nothing():
    assert scores_of(RIGHT, 0.5) == (0, 0, 0, 0, 1)


def test_a_layout_told_too_quick_breaks_its_limits_and_is_not_the_best():
    """Told 11 ms, `ep` is picked at 14.1 ms and at 28.3, and has 40: both broken, at neither the best."""
    hopeful = [*RIGHT[:2], run("ep", 40, 400, told=11)]

    broken, regret, *_, right = scores_of(hopeful, 0.5)

    assert (broken, right) == (1, 0)
    assert math.isnan(regret)


def test_a_layout_told_too_slow_costs_what_it_would_have_served():
    """Told 30 ms, `tp`'s second run is left out at 28.3: 100 tokens/s instead of 150."""
    fearful = [RIGHT[0], run("tp", 20, 150, told=30), RIGHT[2]]

    assert scores_of(fearful, 0.5) == (0, pytest.approx(1 / 6), 0, pytest.approx(1 / 6), 1)


def test_caution_may_leave_nothing_to_pick():
    """At risk 0.0002 10 ms counts as 14.25: nothing is left below 14.1 ms, and all of that limit is lost."""
    _, regret, missed, whole, _ = scores_of(RIGHT, 0.0002)

    assert missed == 0.5
    assert regret == pytest.approx(1 / 3)  # 20 ms count as 28.5, so 100 of 150 tokens/s
    assert whole == pytest.approx((1 / 3 + 1) / 2)


def test_where_no_tpot_was_published_the_rate_alone_decides():
    alone = [
        Run(("g",), (name,), (1.0, rate), (1.0, promised), 0.0, limited=False)
        for name, rate, promised in (("tp", 100.0, 90.0), ("ep", 120.0, 80.0))
    ]

    assert limits_of(alone) == [math.inf]
    assert scores_of(alone, 0.5) == (0, pytest.approx(1 / 6), 0, pytest.approx(1 / 6), 0)


def test_groups_of_one_layout_leave_no_choice():
    assert len(lines_of({"a": RIGHT[:2]}).splitlines()) == 1
    assert len(lines_of({"a": RIGHT}).splitlines()) == 3


def test_a_run_is_of_all_its_gpus_and_has_the_deviation_of_its_band():
    """A band of 8 to 12.5 ms is 1.28 deviations of 0.174 either way."""
    answer = Prediction(1.0, None, None, 10.0, 8.0, 12.5, 800.0, None, 0.0, True, None, "")

    found = run_of(["g"], {"tp": "4"}, 4, ("12", 400.0), answer)

    assert found is not None
    assert (found.measured, found.predicted) == ((12, 100), (10, 200))
    assert found.sigma == pytest.approx(0.1741, abs=1e-4)
    assert run_of(["g"], {"tp": "4"}, 4, ("12", 400.0), replace_fits(answer)) is None


def replace_fits(answer: Prediction) -> Prediction:
    return Prediction(**{**vars(answer), "fits": False})

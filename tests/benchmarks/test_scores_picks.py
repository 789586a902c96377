"""Picks among three measured configurations, by hand.

On 4 GPUs, with a TTFT of 1 s and 100 tokens out: 8 requests at 10 ms give 100 tokens/s per GPU, 16 at 14 ms
166.7, 32 at 30 ms 200.
"""

import numpy as np
import pytest

from benchmarks.scores.picks import LIMITS_MS, RISKS, cases, flattery, least_loss, pick, pick_table
from tests.benchmarks.test_scores import EP, held

ROWS = [{"concurrency": "8"}, {"concurrency": "16"}, {"concurrency": "32"}]
MEASURED = [10.0, 14.0, 30.0]
EXACT = held(ROWS, MEASURED, MEASURED)


def test_who_predicts_what_is_measured_breaks_and_loses_nothing():
    """Limits of 10, 15, 20, 30 and 50 ms have a pick, 8 ms has none and rightly so."""
    p = pick(EXACT, 0.5)

    assert p.row.tolist() == [0, 1, 1, 2, 2]
    assert (p.cases, p.missed, p.none) == (6, 0, 1)
    assert (p.share_broken, p.mean_loss, p.full_loss) == (0, 0, 0)


def test_a_hopeful_prediction_breaks_the_limit():
    """14 ms taken for 9: picked everywhere, it breaks 10 ms, is best to 20 ms, loses a sixth above."""
    p = pick(held(ROWS, MEASURED, [10.0, 9.0, 30.0]), 0.5)

    assert p.row.tolist() == [1] * 5
    assert p.share_broken == pytest.approx(1 / 5)
    assert p.mean_loss == pytest.approx((1 / 6 + 1 / 6) / 4)


def test_a_fearful_prediction_loses_throughput_or_misses_the_case():
    """14 ms taken for 25, 10 for 12: 10 ms is missed, 15 and 20 get 100 tokens/s instead of 166.7."""
    p = pick(held(ROWS, MEASURED, [12.0, 25.0, 30.0]), 0.5)

    assert p.row.tolist() == [0, 0, 2, 2]
    assert (p.missed, p.none) == (1, 1)
    assert p.mean_loss == pytest.approx((0.4 + 0.4) / 4)
    assert p.full_loss == pytest.approx((0.4 + 0.4 + 1) / 5)


def test_risk_asks_for_a_margin_of_as_many_standard_deviations():
    """At risk 0.1 and sigma 0.1 times 1.137: 10, 14 and 30 ms are feasible from 11.4, 15.9 and 34.1 ms on."""
    p = pick(EXACT, 0.1)

    assert p.row.tolist() == [0, 1, 1, 2]
    assert (p.missed, p.none) == (1, 1)


def test_rows_that_tie_share_the_pick():
    """Of two repeats predicted alike at 9 ms, one breaks 10 ms and the other is the best there is."""
    h = held([*ROWS[:1] * 2, {"concurrency": "4"}], [9.0, 11.0, 30.0], [9.0, 9.0, 30.0])
    p = pick(h, 0.5)

    assert p.weight.sum() == pytest.approx(len(LIMITS_MS) - 1)
    assert p.share_broken == pytest.approx(0.5 / 5)
    assert p.mean_loss > 0  # the slower repeat, where a limit lets both in


def test_a_problem_of_one_configuration_is_no_case():
    assert not list(cases(held([{}, {}], [10.0, 11.0], [10.0, 10.0])))
    assert len(list(cases(held([{}, EP], [10.0, 11.0], [10.0, 10.0])))) == len(LIMITS_MS)


def test_where_nothing_is_feasible_there_is_no_share():
    p = pick(held(ROWS, MEASURED, [90.0] * 3), 0.5)

    assert (p.missed, p.none) == (5, 1)
    assert np.isnan(p.share_broken)
    assert np.isnan(p.mean_loss)
    assert p.full_loss == 1


def test_the_least_loss_is_of_the_points_that_break_little_enough():
    curve = [pick(held(ROWS, MEASURED, said), 0.5) for said in ([10.0, 9.0, 30.0], [12.0, 25.0, 30.0])]

    assert least_loss(curve, 0.2) == pytest.approx(1 / 12)
    assert least_loss(curve, 0.18) == pytest.approx(0.2)
    assert np.isnan(least_loss(curve[:1], 0.18))


def test_what_is_picked_is_flattered_more_than_all_rows():
    """Errors of -10 %, +10 %, 0: the first is picked."""
    h = held([{}, EP, {"concurrency": "1"}], [10.0] * 3, [9.0, 11.0, 10.0])

    picked, every = flattery(h.rate(), h.measured_rate(), pick(h, 0.5))

    assert picked == pytest.approx(np.log(2.0 / 1.9))
    assert every == pytest.approx(np.log(2.0 / 1.9 * 2.0 / 2.1) / 3)


def test_the_table_has_a_line_a_risk():
    lines = pick_table(EXACT).splitlines()

    assert [line.split()[0] for line in lines[1 : 1 + len(RISKS)]] == [f"{risk:.2f}" for risk in RISKS]
    assert "0.0% with at most 18 % broken" in lines[1 + len(RISKS)]

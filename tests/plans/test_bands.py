"""80 % bands: by drawing log-normal errors, and by hand."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.bands import Z80
from planner.plans.bands import WATTS_SIGMA, Edges, Totals, Way, band, chance, each, mean_band

SIGMA = st.floats(0.01, 1.0)
NONE = band(0.0, 0.0)


def drawn(*sigmas: float) -> list[np.ndarray]:
    """Independent log-normal errors with median 1."""
    random = np.random.default_rng(0)
    return [np.exp(random.normal(0.0, s, 200_000)) for s in sigmas]


def test_a_band_holds_four_fifths_of_what_is_drawn():
    (errors,) = drawn(0.3)
    found = band(50.0, 0.3)
    inside = (errors * 50 > found.low) & (errors * 50 < found.high)

    assert inside.mean() == pytest.approx(0.8, abs=0.005)
    assert (errors * 50 > found.high).mean() == pytest.approx(0.1, abs=0.005)


def test_what_each_token_takes_is_uncertain_by_the_flow_and_by_the_rate():
    """Watts over tokens/s, both off by themselves."""
    watts, rate = drawn(0.2, 0.15)
    found = each(8.0, Edges.of(0.15), 0.2)
    takes = 8 * watts / rate

    assert np.quantile(takes, 0.1) == pytest.approx(found.low, rel=0.01)
    assert np.quantile(takes, 0.9) == pytest.approx(found.high, rel=0.01)


@given(sigma=SIGMA, by=st.floats(0.0, 2.0))
def test_a_flattered_figure_is_lower_and_stays_inside_its_band(sigma: float, by: float):
    was, now = Edges.of(sigma), Edges.of(sigma).flattered(by)

    assert now.low <= was.low
    assert now.low <= 1 <= now.high * (1 + 1e-12)
    assert now.high / now.low == pytest.approx(was.high / was.low)


def test_a_figure_is_moved_by_what_flattered_it():
    assert Edges.of(0.2).flattered(0.1).high == pytest.approx(exp(0.2 * Z80 - 0.1))
    assert Edges.of(0.2).flattered(9.0).high == pytest.approx(1.0)


def test_dollars_and_joules_are_of_output_tokens():
    """By hand: $36 an hour at 1,000 tokens/s is $10 a million; 2 kW is 2 J a token."""
    total = Totals(5.0, 1000.0, 5000.0, 36.0, 2000.0, Edges(0.5, 2.0))
    found = total.predicted(NONE, NONE, NONE)

    assert found.usd_per_mtok is not None
    assert (found.usd_per_mtok.value, found.usd_per_mtok.low, found.usd_per_mtok.high) == pytest.approx(
        (10, 5, 20)
    )
    assert found.usd_per_hour == band(36.0, 0.0)
    assert found.joules_per_tok.value == 2
    assert (found.rps.low, found.total_tok_per_s.high) == (2.5, 10_000)
    assert found.watts == band(2000.0, WATTS_SIGMA)


def test_without_prices_there_are_no_dollars_and_of_a_free_fleet_none_are_taken():
    unknown, free = (Totals(1.0, 10.0, 10.0, usd, 1.0).predicted(NONE, NONE, NONE) for usd in (None, 0.0))

    assert (unknown.usd_per_hour, unknown.usd_per_mtok) == (None, None)
    assert free.usd_per_hour is not None
    assert free.usd_per_hour.value == 0


def test_the_mean_over_requests_is_as_uncertain_as_its_ways_together():
    """Errors of all ways count as one: the mean of the edges."""
    ways = [Way(1.0, 10.0, 0.1), Way(3.0, 20.0, 0.3)]
    found = mean_band(ways)

    assert found.value == pytest.approx(17.5)
    for edge, sign in ((found.low, -1), (found.high, 1)):
        assert edge == pytest.approx((10 * exp(sign * Z80 * 0.1) + 60 * exp(sign * Z80 * 0.3)) / 4)
    assert mean_band([]) == NONE


@given(limit=st.floats(1.0, 1000.0), time=st.floats(1.0, 1000.0), sigma=SIGMA)
def test_chances_grow_with_the_limit_and_are_even_at_the_prediction(limit: float, time: float, sigma: float):
    odds = chance(limit, [Way(1.0, time, sigma)])

    assert odds is not None
    assert (odds > 0.5) == (limit > time) or limit == pytest.approx(time)
    assert (chance(1.1 * limit, [Way(1.0, time, sigma)]) or 0) >= odds


def test_the_way_that_keeps_a_limit_worst_decides_and_certainty_is_certain():
    assert chance(10.0, [Way(1.0, 9.0, 0.1), Way(9.0, 5.0, 0.1)]) == chance(10.0, [Way(1.0, 9.0, 0.1)])
    assert [chance(10.0, [Way(1.0, t, 0.0)]) for t in (9.0, 10.0, 11.0)] == [1.0, 1.0, 0.0]
    assert chance(10.0, [Way(1.0, 0.0, 0.5)]) == 1.0
    assert chance(None, [Way(1.0, 9.0, 0.1)]) is chance(10.0, []) is None


def test_chances_are_those_of_drawn_errors():
    """Of Student's t with four degrees of freedom, as wide in the middle 80 %."""
    t = np.random.default_rng(0).standard_t(4, 200_000)
    errors = np.exp(0.25 * Z80 / 1.5332 * t)

    odds = chance(12.0, [Way(1.0, 10.0, 0.25)])
    assert odds == pytest.approx((10 * errors <= 12).mean(), abs=0.005)
    assert log(Edges.of(0.25).high) == pytest.approx(0.25 * Z80)


def test_times_that_may_be_longer_by_more_than_shorter_have_their_upper_edge_and_chance_there():
    way = Way(1.0, 10.0, 0.1, longer=0.5)
    found = mean_band([way])

    assert (found.low, found.high) == pytest.approx((10 * exp(-0.1 * Z80), 10 * exp(0.5 * Z80)))
    assert chance(12.0, [way]) == chance(12.0, [Way(1.0, 10.0, 0.5)])
    assert chance(9.0, [way]) == chance(9.0, [Way(1.0, 10.0, 0.1)])

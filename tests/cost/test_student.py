"""How often errors are beyond so many deviations, against SciPy's Student's t."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from planner.check import chances
from planner.cost.bands import Z80
from planner.cost.student import chance_below, deviations

T = stats.t(4)
SCALE = T.ppf(0.9) / Z80
"""Of the law's own unit: bands hold the central 80 %."""


@given(st.floats(-50, 50))
def test_chances_are_those_of_four_degrees_of_freedom(z):
    assert chance_below(z) == pytest.approx(T.cdf(SCALE * z), abs=1e-9)


@given(st.floats(1e-6, 1 - 1e-6))
def test_deviations_are_where_a_chance_is_reached(chance):
    assert deviations(chance) == pytest.approx(T.ppf(chance) / SCALE, rel=1e-6, abs=1e-7)


def test_the_band_holds_four_of_five_and_a_risk_of_a_fifth_takes_less_than_by_the_normal_law():
    assert chance_below(Z80) - chance_below(-Z80) == pytest.approx(0.8)
    assert deviations(0.8) == pytest.approx(0.7865, abs=1e-4)  # 0.8416 by the normal law
    assert deviations(0.95) == pytest.approx(1.782, abs=1e-3)  # 1.645


@given(st.floats(-20, 20))
def test_the_verifier_has_the_same_chances_by_code_of_its_own(z):
    assert chances._below(z) == pytest.approx(chance_below(z), abs=1e-5)

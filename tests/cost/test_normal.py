"""The normal distribution without scipy: its tail and its density against the standard library's."""

from math import erfc, exp
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.normal import density, erfcx, tail

NORMAL = NormalDist()


@given(st.floats(-8, 8))
def test_density_and_tail_are_the_librarys(z):
    assert float(density(np.array(z))) == pytest.approx(NORMAL.pdf(z), rel=1e-12)
    assert float(tail(np.array(z))) == pytest.approx(erfc(z / 2**0.5) / 2, rel=3e-7)


@given(st.floats(0, 5))
def test_the_scaled_error_function_is_within_what_it_says(x):
    assert float(erfcx(np.array(x))) == pytest.approx(exp(x * x) * erfc(x), rel=1.3e-7)


@given(st.floats(-6, 6))
def test_both_tails_are_all(z):
    assert float(tail(np.array(z)) + tail(np.array(-z))) == pytest.approx(1.0, abs=3e-7)


def test_far_out_it_is_small_but_not_nothing():
    """Q(20) is some 2.75e-89: by the scaled function no digit is lost."""
    assert float(tail(np.array(20.0))) == pytest.approx(2.7536e-89, rel=1e-4)


def test_arrays_keep_their_shape():
    z = np.zeros((2, 3))

    assert tail(z).shape == density(z).shape == (2, 3)
    assert tail(z) == pytest.approx(np.full((2, 3), 0.5), abs=1e-7)

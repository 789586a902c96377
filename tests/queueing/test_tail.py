"""Quantiles that the percentiles are made of, against scipy and by definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from planner.queueing.places import Waiting
from planner.queueing.tail import GAMMA_QUANTILES, _mixture_quantile, gamma_of, gamma_quantile

NOBODY = Waiting(np.zeros((1, 1)), np.zeros((1, 1)))
"""Every request finds a place."""


@given(st.floats(1.0, 60.0))
def test_stirlings_series_is_the_gamma_function(x):
    assert float(gamma_of(np.array(x))) == pytest.approx(math.gamma(x), rel=1e-6)


@pytest.mark.parametrize("quantile", sorted(GAMMA_QUANTILES))
@pytest.mark.parametrize("shape", [0.3, 0.5, 1.0, 2.0, 3.9, 5.0, 20.0, 300.0])
def test_gamma_quantiles_are_those_of_the_distribution(quantile, shape):
    true = stats.gamma.ppf(quantile, shape, scale=1 / shape)

    assert float(gamma_quantile(np.array(shape), quantile)) == pytest.approx(true, rel=0.03)


@given(st.floats(0.15, 50.0))
def test_later_quantiles_are_later(shape):
    found = [float(gamma_quantile(np.array(shape), q)) for q in sorted(GAMMA_QUANTILES)]

    assert found == sorted(found)


@given(
    st.lists(
        st.tuples(st.floats(0.05, 1.0), st.floats(1e-3, 5.0), st.floats(0.6, 2.0)), min_size=1, max_size=3
    ),
    st.sampled_from([0.5, 0.1, 0.05, 0.01]),
)
@settings(max_examples=80)
def test_a_quantile_of_a_mixture_leaves_the_tail_beyond_it(terms, tail):
    """Chances that add to one: Σ chance exp(-(z / scale)^shape) is the chance to be later than z."""
    whole = sum(c for c, _, _ in terms)
    chance = np.array([[c / whole for c, _, _ in terms]])
    scale, shape = (np.array([[[t[k] for t in terms]]]) for k in (1, 2))
    none, gap = np.zeros((1, 1)), np.full((1, 1), 1e-6)
    z = float(_mixture_quantile(chance, scale, shape, none, gap, NOBODY, none, tail)[0, 0])

    beyond = float((chance * np.exp(-((z / scale[:, 0]) ** shape[:, 0]))).sum())
    assert beyond == pytest.approx(tail, rel=1e-3)


def test_where_most_find_nobody_the_quantile_lies_in_the_step_that_runs():
    """Nobody waits in line; 80 % come while a step of 10 s runs, evenly: a tail of 20 % is 7.5 s from it."""
    one = np.ones((1, 1, 1))
    none, step = np.zeros((1, 1)), np.full((1, 1), 10.0)
    z = _mixture_quantile(none, one, one, np.full((1, 1), 0.8), step, NOBODY, none, 0.2)

    assert float(z[0, 0]) == pytest.approx(7.5, rel=1e-4)

"""Percentiles of requests that take unlike ways."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.mixture import Part, quantile_of
from planner.queueing.tail import QUANTILE

NORMAL = NormalDist()


def lognormal(rate: float, median: float, sigma: float) -> Part:
    return Part(rate, np.array([median * np.exp(sigma * NORMAL.inv_cdf(q)) for q in QUANTILE.values()]))


@pytest.mark.parametrize("percentile", QUANTILE)
def test_of_log_normals_it_is_that_of_as_many_drawn(percentile: str):
    rng = np.random.default_rng(1)
    drawn = np.concatenate(
        [rng.lognormal(np.log(100), 0.3, 300_000), rng.lognormal(np.log(250), 0.5, 100_000)]
    )
    found = quantile_of([lognormal(3.0, 100.0, 0.3), lognormal(1.0, 250.0, 0.5)], percentile)

    assert found == pytest.approx(np.quantile(drawn, QUANTILE[percentile]), rel=0.01)


@given(
    rates=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)),
    medians=st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)),
    percentile=st.sampled_from(list(QUANTILE)),
)
def test_it_lies_between_those_of_the_parts_and_grows_with_the_slower_one(rates, medians, percentile):
    parts = [lognormal(r, m, 0.2) for r, m in zip(rates, medians, strict=True)]
    own = [quantile_of([part], percentile) for part in parts]
    found = quantile_of(parts, percentile)
    slower = max(parts, key=lambda part: part.times[0])
    more = [part if part is not slower else Part(2 * part.rate, part.times) for part in parts]

    assert min(own) * (1 - 1e-6) <= found <= max(own) * (1 + 1e-6)
    assert quantile_of(more, percentile) >= found * (1 - 1e-6)


def test_the_slow_tenth_decides_the_p95_and_not_the_p50():
    """By hand: of ten requests one takes a second; nine of ten tenths are within the quick ones' times."""
    quick, slow = (Part(rate, np.full(4, ms)) for rate, ms in ((9.0, 100.0), (1.0, 1000.0)))

    assert quantile_of([quick, slow], "p50") == pytest.approx(100.0, rel=1e-3)
    assert quantile_of([quick, slow], "p95") == pytest.approx(1000.0, rel=1e-3)

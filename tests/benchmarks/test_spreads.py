"""Spreads of factors by what rows say of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.fit import NOISE, SPREAD
from benchmarks.spreads import ASSUMED, again, by_rows
from planner.calibration.fitting import Effect

EFFECTS = tuple(Effect("captured", "engine", key, 0.3) for key in ("sglang", "trtllm", "vllm"))


def fit(x: float, known_to: float, own: float = 0.0) -> SimpleNamespace:
    """Three engines' factors of one size, known to a deviation, and one server's offsets."""
    deviations = np.array([known_to] * 3 + [0.0, 0.0])
    return SimpleNamespace(
        effects=EFFECTS,
        x=np.full(3, x),
        own=np.array([own, own]),
        covariance=np.diag(deviations**2),
        noise=NOISE,
    )


def test_factors_that_rows_leave_open_keep_their_spread():
    assumed = SPREAD["captured"]["engine"]
    spread, _ = again(fit(0.0, known_to=assumed))

    assert spread["captured"]["engine"] == pytest.approx(assumed)
    assert spread["step_s"] == SPREAD["step_s"]


def test_factors_far_apart_widen_and_near_ones_narrow():
    assumed = SPREAD["captured"]["engine"]
    (wide, _), (narrow, _) = again(fit(3 * assumed, 0.0)), again(fit(0.0, 0.0))

    assert wide["captured"]["engine"] == pytest.approx(np.sqrt((ASSUMED + 3 * 9) / (ASSUMED + 3)) * assumed)
    assert narrow["captured"]["engine"] == pytest.approx(np.sqrt(0.5) * assumed)


def test_what_servers_have_of_their_own_is_in_shares_of_its_scatter():
    _, same = again(fit(0.0, 0.0, own=1.0))
    _, more = again(fit(0.0, 0.0, own=2.0))

    assert same == replace(NOISE)
    assert more.ttft_group == pytest.approx(NOISE.ttft_group * np.sqrt((ASSUMED + 4) / (ASSUMED + 1)))


def test_an_assumption_counts_as_three_factors():
    assert by_rows(0.1, np.array([0.04] * 3)) ** 2 == pytest.approx((3 * 0.01 + 0.12) / 6)

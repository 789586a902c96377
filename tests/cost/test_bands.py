"""How far predictions may be off: what borrowed kernels add, and the band that holds four of five."""

from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.bands import BORROWED, Z80, band, band_sigma, of_role
from planner.designs.shape import Precisions
from tests.cost.samples import GQA, KINDS, MLA, MOE, card

USED = Precisions("fp8", "nvfp4", "bf16", "bf16")


class Fits:
    """Kernels by where they were measured; remembers which it was asked for."""

    def __init__(self, **levels: str) -> None:
        self.levels, self.asked = levels, []

    def fit(self, kernel: str, precision: str, size: int | None = None) -> object:
        self.asked.append((kernel, precision, size))
        return SimpleNamespace(level=self.levels.get(kernel, "device"))


def test_the_band_holds_four_of_five_by_the_normal_law():
    assert pytest.approx(NormalDist().inv_cdf(0.9), abs=1e-4) == Z80


@given(st.floats(1e-6, 1e6), st.floats(0, 2))
def test_the_median_is_the_middle_of_its_band_on_a_scale_of_logarithms(value, sigma):
    low, high = band(np.array([value]), sigma)

    assert low[0] <= value <= high[0]
    assert low[0] * high[0] == pytest.approx(value**2)
    assert np.log(high[0] / value) == pytest.approx(Z80 * sigma)


def test_each_value_may_have_a_spread_of_its_own():
    low, high = band(np.array([1.0, 1.0]), np.array([0.0, 0.1]))

    assert (low[0], high[0]) == (1.0, 1.0)
    assert high[1] == pytest.approx(np.exp(Z80 * 0.1))


@pytest.mark.parametrize("level", BORROWED)
def test_borrowed_kernels_add_as_independent_errors_do(level):
    sigma = band_sigma(0.3, KINDS["gqa"], Fits(gemm=level), USED, "decode", runs=False)

    assert sigma == pytest.approx((0.3**2 + BORROWED[level] ** 2) ** 0.5)


def test_the_furthest_of_the_kernels_counts_alone():
    fits = Fits(gemm="generation", decode="datasheet", moe="runs")

    assert band_sigma(0.0, card(GQA, MOE), fits, USED, "decode", runs=False) == BORROWED["datasheet"]


def test_first_tokens_of_servers_that_only_prefill_are_less_sure():
    sigmas = np.array([[0.4, 0.3], [0.1, 0.2]])

    assert of_role(sigmas, "mixed") is sigmas
    assert of_role(sigmas, "decode") == pytest.approx(np.array([[0.4, 0.3], np.hypot([0.1, 0.2], 0.03)]))
    assert of_role(sigmas, "prefill") == pytest.approx(np.array([np.hypot([0.4, 0.3], 0.35), [0.1, 0.2]]))


def test_runs_on_the_generation_tell_more_than_the_datasheet():
    told = {
        level: band_sigma(0.0, KINDS["gqa"], Fits(gemm=level), USED, "decode", runs=True)
        for level in BORROWED
    }

    assert told == BORROWED | {"datasheet": BORROWED["runs"]}


@pytest.mark.parametrize(
    ("of", "phase", "asked"),
    [
        (KINDS["gqa"], "decode", [("gemm", "fp8", None), ("decode", "bf16", 128)]),
        (KINDS["gqa"], "prefill", [("gemm", "fp8", None), ("prefill", "bf16", 128)]),
        (
            card(MLA, MOE),
            "decode",
            [("gemm", "fp8", None), ("mla_decode", "bf16", None), ("moe", "nvfp4", None)],
        ),
        (KINDS["linear"], "decode", [("gemm", "fp8", None)]),
    ],
)
def test_the_kernels_that_weigh_most_are_asked_in_the_precision_that_they_have(of, phase, asked):
    fits = Fits()
    band_sigma(0.1, of, fits, USED, phase, runs=False)

    assert fits.asked == asked

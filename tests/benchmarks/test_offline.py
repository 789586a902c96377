"""Offline runs on one T4: each within e^0.25 with its model left out, where the measured rows are at hand."""

import math
from statistics import median

import pytest

from benchmarks.offline import fitted, left_out, main
from benchmarks.offline_runs import FILE, POLICIES, runs
from planner.cost.block import reached

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="no measured rows beside the repository")


@pytest.fixture(scope="module")
def both():
    return left_out(runs())


def test_every_run_is_there(both):
    assert len(both) == len(POLICIES) + 6  # Accelerate and DeepSpeed, three models each


def test_flexgen_in_16_bits_is_within_a_quarter_in_logarithm(both):
    off = [math.log(value / run.tokens_per_s) for run, value in both if run.engine == "FlexLLMGen"]

    assert len(off) == 6
    assert max(map(abs, off)) <= 0.25


def test_the_median_run_is_within_a_tenth(both):
    assert median(abs(value / run.tokens_per_s - 1) for run, value in both) <= 0.10


def test_shipped_shares_are_those_of_the_fit():
    for name, value in vars(fitted(runs())).items():
        assert getattr(reached(), name) == pytest.approx(value, rel=2e-3)


def test_the_benchmark_prints_what_was_measured(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["offline", "--fit"])

    assert main() == 0
    assert "unpack_bytes" in capsys.readouterr().out

"""Runs from public threads: all are predicted, those on AMD's GPUs are fitted, and no fold asks for them."""

import math

import numpy as np
import pytest

from benchmarks.held_out import bench_of, of_today
from benchmarks.printouts import fitted_rows, printouts, ratios
from benchmarks.truth import AMD, as_asked
from planner.calibration.bench import TPOT, TTFT
from planner.predict.predictions import looked_up
from planner.predict.rows import parse


def test_every_run_says_where_it_comes_from_and_can_be_predicted():
    rows = printouts()

    assert all(row["url"].startswith("https://") and row["date"] >= "2025" for row in rows)
    assert all(row["tpot_ms"] or row["out_tok_per_s"] for row in rows)
    assert len(ratios(rows)) == len(rows) > 70
    assert len({(row["model"], row["engine"], row["device"]) for row in rows}) > 30


def test_a_ratio_is_of_times_where_they_are_told_and_else_of_the_inverse_of_throughput():
    (row,) = (x for x in printouts() if x["model"] == "step-3.5-flash")
    ((_, of_times, band),) = ratios([row])
    ((_, of_rate, _),) = ratios([row | {"tpot_ms": ""}])
    ((_, twice, _),) = ratios([row | {"tpot_ms": str(2 * float(row["tpot_ms"]))}])

    assert of_times == pytest.approx(2 * twice)
    assert of_rate == pytest.approx(of_times, rel=0.1)  # all but the first token's share
    assert band > 1


def test_fitted_runs_are_other_models_on_amds_gpus_and_asked_as_they_stand():
    rows = fitted_rows()

    assert {row["system"] for row in rows} <= set(AMD)
    assert not any("deepseek" in row["family"].lower() for row in rows)
    assert of_today(rows) == []
    assert all(looked_up(parse(as_asked(row)))[1].engine == row["backend"] for row in rows)
    assert {row["family"] for row in rows} >= {"Llama-3.1-70B"}  # the family of the other rows


def test_of_a_fitted_run_times_of_tokens_count_alone_and_less_than_others():
    bench = bench_of(fitted_rows())

    assert np.isnan(bench.measured[:, TTFT]).all()
    assert bench.measured[:, TPOT].tolist() == [math.log(float(r["silicon_tpot_ms"])) for r in fitted_rows()]
    assert set(bench.doubt[:, TPOT]) == {2.0}

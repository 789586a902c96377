"""Fits find what made the measurements, pool what they share, and shrug off what is wild."""

from dataclasses import replace

import numpy as np
import pytest

from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit, Noise, calibrated
from planner.cost.calibration import Calibration, Traits
from planner.cost.tuning import Tuning
from planner.predict.predictions import looked_up
from planner.predict.rows import parse

SPREAD = {"kernels": {"engine": 0.3, "engine+device": 0.1}, "request_s": {"engine": 1.0}}
NOISE = Noise(ttft=0.05, tpot=0.02, ttft_group=0.01, tpot_group=0.001)


def table(engines=("vllm", "trtllm"), devices=("h100-sxm", "b200-sxm")):
    cells = [
        {
            "model": "llama-3.1-8b",
            "device": d,
            "engine": e,
            "tp": t,
            "isl": "1024",
            "osl": "256",
            "concurrency": c,
        }
        for e in engines
        for d in devices
        for t in ("1", "2")
        for c in ("1", "8", "32", "128")
    ]
    return [looked_up(parse(row)) for row in cells]


def measured(rows, truth: Calibration, noise: float = 0.0, seed: int = 0) -> Bench:
    """A bench whose figures the `truth` made."""
    bench = Bench(rows, np.zeros((len(rows), 2)))
    tunings = bench.tunings(truth)
    bench.settle(tunings)
    times = bench.log_times(tunings)
    return Bench(rows, times + noise * np.random.default_rng(seed).normal(size=times.shape))


def test_the_bench_says_what_predict_says():
    from planner.predict.predictions import predict_group

    rows = table(engines=("vllm",), devices=("h100-sxm",))
    bench = Bench(rows, np.zeros((len(rows), 2)))
    tunings = bench.tunings(Calibration(bands={"tpot": {"all": {"all": 0.1}}, "ttft": {"all": {"all": 0.1}}}))
    bench.settle(tunings, rounds=5)
    bands = {kind: {"all": {"all": 0.1}} for kind in ("tpot", "ttft")}
    said = predict_group(rows[0][0], [row for _, row in rows], Calibration(bands=bands))

    assert np.exp(bench.log_times(tunings)[:, TPOT]) == pytest.approx([p.tpot_ms for p in said], rel=1e-3)


def test_servers_of_one_phase_have_the_times_of_that_phase_alone():
    """Of a decode server's first token only rounding is left, whose logarithm a fit would follow without
    end."""
    asked = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "isl": "1024", "osl": "256"}
    rows = [
        looked_up(parse(asked | {"role": role, "concurrency": c}))
        for role in ("decode", "prefill", "mixed")
        for c in ("1", "8", "64")
    ]
    bench = Bench(rows, np.zeros((len(rows), 2)))
    told = np.isfinite(bench.log_times(bench.tunings(Calibration())))

    assert told[:, TTFT].tolist() == [False] * 3 + [True] * 6
    assert told[:, TPOT].tolist() == [True] * 3 + [False] * 3 + [True] * 3


def test_a_fit_finds_the_factors_that_made_the_figures():
    factors = {"kernels": {"engine": {"vllm": 1.3, "trtllm": 0.9}}, "request_s": {"engine": {"vllm": 2.0}}}
    bench = measured(table(), Calibration(factors=factors), noise=0.01)
    found = Fit(bench, Calibration(), SPREAD, NOISE).run()
    made = calibrated(Calibration(), found.effects, found.x)

    for engine, kernels, request_s in (("vllm", 1.3, 0.06), ("trtllm", 0.9, 0.03)):
        tuning = made.tuning(Traits(engine, "hopper", "h100-sxm", "bf16", "none", "llama-3.1-8b"))
        assert tuning.kernels == pytest.approx(kernels, rel=0.03)
        assert tuning.request_s == pytest.approx(request_s, rel=0.15)


def test_one_wild_row_in_ten_hardly_moves_it():
    bench = measured(table(), Calibration(factors={"kernels": {"engine": {"vllm": 1.2}}}), noise=0.01)
    bench.measured[::10, TPOT] += 1.5
    found = Fit(bench, Calibration(), SPREAD, NOISE).run()
    tuning = calibrated(Calibration(), found.effects, found.x).tuning(bench.cells[0].traits)

    assert tuning.kernels == pytest.approx(1.2, rel=0.04)


def test_a_device_never_seen_takes_what_its_engine_says_and_is_less_sure():
    bench = measured(
        table(devices=("h100-sxm",)), Calibration(factors={"kernels": {"engine": {"vllm": 1.3}}})
    )
    found = Fit(bench, Calibration(), SPREAD, NOISE).run()
    made = calibrated(Calibration(), found.effects, found.x)
    seen = Traits("vllm", "hopper", "h100-sxm", "bf16", "none", "llama-3.1-8b")
    unseen = replace(seen, device="b200-sxm", generation="blackwell_dc")

    assert 1.15 < made.tuning(unseen).kernels <= made.tuning(seen).kernels
    named = [(e.level, e.key) for e in found.effects if e.parameter == "kernels"]
    both = [named.index(("engine", "vllm")), named.index(("engine+device", "vllm h100-sxm"))]
    spread = found.covariance[np.ix_(both, both)]
    assert spread.sum() < spread[0, 0] + 0.1**2  # of the sum on the seen device, and on one without its own


def test_rows_left_out_have_no_say():
    truth = Calibration(factors={"kernels": {"engine": {"vllm": 1.3}}})
    bench = measured(table(), truth)
    bench.measured[:4, TPOT] += 0.7
    keep = np.arange(len(bench)) >= 4
    without = Fit(bench, Calibration(), SPREAD, NOISE).run(keep)
    clean = Fit(measured(table(), truth), Calibration(), SPREAD, NOISE).run(keep)

    assert without.x == pytest.approx(clean.x, abs=1e-6)


def test_a_level_narrower_knows_better_in_bands():
    bands = {"tpot": {"all": {"all": 0.2}, "engine": {"vllm": 0.1}}}
    known = Calibration(Tuning(), {}, bands)
    traits = Traits("vllm", "hopper", "h100-sxm", "bf16", "none", "x")

    assert known.sigma("tpot", traits) == 0.1
    assert known.sigma("tpot", replace(traits, engine="sglang")) == 0.2


def test_rows_held_out_together_are_fitted_without_once(monkeypatch):
    rows = table(devices=("h100-sxm",))
    fit = Fit(measured(rows, Calibration(), noise=0.05), Calibration(), SPREAD, NOISE)
    fit.run()
    fits: list[int] = []
    descend = Fit._descend
    monkeypatch.setattr(Fit, "_descend", lambda *args: fits.append(1) or descend(*args))
    engine = [row.engine for _, row in rows]
    once = fit.held_out(engine)
    again = fit.held_out([name if name == "vllm" else i % 2 for i, name in enumerate(engine)])

    assert len(fits) == 2 * (2 + 2)  # two engines, from two starts; of the second time only the halves of one
    vllm = np.array([name == "vllm" for name in engine])
    assert (again[vllm] == once[vllm]).all()
    assert (again[~vllm] != once[~vllm]).any()


def test_fits_without_some_rows_start_at_the_priors_and_at_the_optimum_of_all(monkeypatch):
    """Whatever the fit of all rows came to, which stays as it was."""
    rows = table(devices=("h100-sxm",))
    truth = Calibration(Tuning(kernels=1.3))
    fit = Fit(measured(rows, truth), Calibration(), SPREAD, NOISE)
    found = fit.run().x.copy()
    starts = []
    descend = Fit._descend
    monkeypatch.setattr(Fit, "_descend", lambda *args: starts.append(args[0].x) or descend(*args))
    fit.held_out([row.engine for _, row in rows])

    assert np.abs(found).max() > 0.1
    assert [np.any(x) for x in starts] == [False, True] * 2
    assert all((x == found).all() for x in starts[1::2])
    assert (fit.x == found).all()


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_of_two_optima_without_some_rows_the_more_probable_one_predicts_them(monkeypatch, shift):
    """Here the two starts stand for them: the optimum of all rows, and one far from it, which the priors
    beat."""
    rows = table(devices=("h100-sxm",))
    fit = Fit(measured(rows, Calibration(Tuning(kernels=1.3))), Calibration(), SPREAD, NOISE)
    found = fit.run().x.copy()
    monkeypatch.setattr(Fit, "_descend", lambda *args: None)
    fit.x = found + shift
    here = fit.bench.log_times(fit.bench.tunings(calibrated(fit.around, fit.effects, fit.x)))
    priors = fit.bench.log_times(fit.bench.tunings(fit.around))
    told = fit.held_out(["all"] + ["rest"] * (len(rows) - 1))

    assert told == pytest.approx(priors if shift else here, rel=1e-3)
    assert told != pytest.approx(here if shift else priors, rel=1e-3)


def test_a_fit_may_start_at_a_calibration_and_ends_where_it_would_have():
    """Factors at levels that the fit has are its start, and at the optimum nothing is left to gain."""
    truth = Calibration(
        factors={"kernels": {"engine": {"vllm": 1.4}}, "request_s": {"engine": {"trtllm": 0.5}}}
    )
    fit = Fit(measured(table(), truth, noise=0.01), Calibration(), SPREAD, NOISE)
    fit.begin(truth)
    start = {(e.parameter, e.level, e.key): x for e, x in zip(fit.effects, fit.x.tolist(), strict=True)}
    fit.run()
    again = Fit(fit.bench, Calibration(), SPREAD, NOISE)
    again.begin(Calibration())
    again.run()

    assert start.pop(("kernels", "engine", "vllm")) == pytest.approx(np.log(1.4))
    assert start.pop(("request_s", "engine", "trtllm")) == pytest.approx(np.log(0.5))
    assert set(start.values()) == {0.0}
    assert fit.loss() == pytest.approx(again.loss(), rel=1e-3)
    assert fit.x == pytest.approx(again.x, abs=0.01)

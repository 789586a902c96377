"""Calibration finds what makes a user's servers differ, is judged on rows held back, and leaves others be."""

from dataclasses import replace

import numpy as np
import pytest

from planner.calibration.bench import TPOT, TTFT
from planner.calibration.calibrate import Calibrated, calibrate, folds, off
from planner.calibration.runs import Measurement
from planner.cost.calibration import Calibration, Traits, shape_of, shipped
from planner.predict.predictions import looked_up, predict_rows
from planner.predict.rows import parse

SERVER = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm"}
SLOWER = {"kernels": ("engine+device", "vllm h100-sxm", 1.3), "request_s": ("device", "h100-sxm", 2.0)}


def table(**server: str) -> list[dict[str, str]]:
    """Two layouts under twelve loads."""
    loads = [(isl, osl) for isl in ("512", "2048") for osl in ("128", "1024")]
    return [
        {**SERVER, **server, "tp": tp, "isl": isl, "osl": osl, "concurrency": c}
        for tp in ("1", "2")
        for isl, osl in loads
        for c in ("1", "16", "64")
    ]


def made(changes: dict[str, tuple[str, str, float]]) -> Calibration:
    """The shipped calibration with factors more."""
    factors = dict(shipped().factors)
    for name, (level, key, factor) in changes.items():
        factors[name] = {**factors.get(name, {}), level: {key: factor}}
    return replace(shipped(), factors=factors)


def measured(
    rows: list[dict[str, str]], truth: Calibration, noise: float = 0.02, seed: int = 0
) -> list[Measurement]:
    """What servers would measure that `truth` describes."""
    rng = np.random.default_rng(seed)
    found = []
    for i, (cells, said) in enumerate(zip(rows, predict_rows(rows, truth), strict=True)):
        ttft, tpot = (x and x * float(np.exp(noise * rng.normal())) for x in (said.ttft_ms, said.tpot_ms))
        found.append(Measurement(cells, ttft, tpot, f"bench.csv:{i + 2}"))
    return found


def traits(**cells: str) -> Traits:
    group, _ = looked_up(parse({**SERVER, **cells}))
    return Traits.of(group.card, group.node_class.device, group.engine, group.used)


@pytest.fixture(scope="module")
def found() -> Calibrated:
    """Twenty-four rows of servers slower than the shipped parameters say."""
    return calibrate(measured(table(), made(SLOWER)), shipped())


def test_rows_held_back_are_predicted_better_than_before(found):
    before, after = (found.measured - x for x in (found.before, found.held_back))

    assert np.median(off(before[:, TPOT])) > 0.15
    assert np.median(off(after[:, TPOT])) < 0.03
    assert np.median(off(after[:, TTFT])) < 0.1 < np.median(off(before[:, TTFT]))


def test_loads_not_measured_are_predicted_by_what_was_found(found):
    others = [row | {"isl": "1024", "osl": "512", "concurrency": "32"} for row in table()[::12]]
    truth = predict_rows(others, made(SLOWER))
    said = predict_rows(others, found.calibration)

    assert [p.tpot_ms for p in said] == pytest.approx([p.tpot_ms for p in truth], rel=0.05)


def test_bands_narrow_for_what_was_measured_and_nothing_else(found):
    now, own = found.calibration, shipped()

    assert now.sigma("tpot", traits()) < 0.6 * own.sigma("tpot", traits())
    for other in (traits(device="b200-sxm"), traits(engine="sglang"), traits(model="llama-3.1-70b")):
        assert now.sigma("tpot", other) == own.sigma("tpot", other)
    assert found.sigma == pytest.approx(
        np.full((24, 2), [now.sigma("ttft", traits()), now.sigma("tpot", traits())])
    )


def test_other_devices_keep_the_shipped_parameters(found):
    other = traits(device="b200-sxm")

    assert found.calibration.tuning(other) == shipped().tuning(other)
    assert found.calibration.tuning(traits()) != shipped().tuning(traits())


def test_a_checkpoint_of_another_precision_takes_part_of_it(found):
    fp8 = traits(model="llama-3.1-8b-fp8")
    ratio = found.calibration.tuning(fp8).kernels / shipped().tuning(fp8).kernels

    assert 1.05 < ratio < 1.3


def test_changes_are_told_with_what_they_do(found):
    effects = {change.parameter: change for change in found.changes}

    assert next(iter(effects)) in ("request_s", "kernels", "gemm_bytes")
    assert effects["request_s"].factor > 1.3
    assert effects["request_s"].effect[TTFT] > 0.05 > abs(effects["request_s"].effect[TPOT])
    assert all(change.server == traits() for change in found.changes)


def test_what_a_plan_states_says_rows_files_and_errors(found):
    about = found.calibration.about

    assert (about["rows"], about["files"]) == (24, ["bench.csv"])
    assert about["models"] == {shape_of(looked_up(parse(SERVER))[0].card): "llama-3.1-8b"}
    assert about["held_back_tpot"]["after"] < 0.03 < 0.15 < about["held_back_tpot"]["before"]


def test_measurements_that_agree_with_the_shipped_parameters_change_next_to_nothing():
    found = calibrate(measured(table()[::2], shipped(), noise=0.0), shipped())

    assert found.changes == []
    assert found.calibration.tuning(traits()).kernels == pytest.approx(
        shipped().tuning(traits()).kernels, rel=0.01
    )


def test_a_single_row_moves_little_and_leaves_the_band_near_what_it_was():
    found = calibrate(measured(table()[:1], made(SLOWER)), shipped())

    assert found.held_back == pytest.approx(found.before)
    assert found.calibration.sigma("tpot", traits()) == pytest.approx(
        shipped().sigma("tpot", traits()), rel=0.5
    )


def test_rows_without_a_ttft_and_servers_of_one_phase_are_used():
    rows = table()[:12]
    decode = [row | {"role": "decode"} for row in rows]
    prefill = [row | {"role": "prefill"} for row in rows]
    used = [replace(m, ttft_ms=None) for m in measured(rows, made(SLOWER))]
    used += measured(decode, made(SLOWER)) + measured(prefill, made(SLOWER))
    found = calibrate(used, shipped())
    known = np.isfinite(found.measured)

    assert known.sum(axis=0).tolist() == [12, 24]
    assert np.median(off((found.measured - found.held_back)[known])) < 0.05


def test_two_models_tell_how_sure_a_third_is():
    rows = table()[::2] + table(model="qwen3-8b")[::2]
    found = calibrate(measured(rows, made(SLOWER)), shipped()).calibration
    third = traits(model="mistral-7b")

    assert found.bands["tpot"]["engine+device"].keys() == {"vllm h100-sxm"}
    assert found.sigma("tpot", third) < shipped().sigma("tpot", third)
    assert found.bands["tpot"]["device"] == {}  # one engine says nothing of another


def test_bands_stay_in_order_whatever_comes_first():
    one, two = table()[::6], [row | {"device": "l4"} for row in table()[::6] + table(engine="sglang")[::6]]
    found = calibrate(measured(one + two, shipped()), shipped()).calibration

    assert list(found.bands["tpot"])[-3:] == ["device", "engine+device", "engine+device+model"]
    assert found.bands["tpot"]["device"].keys() == {"l4"}
    assert len(found.bands["tpot"]["engine+device+model"]) == 3


def test_repeats_of_a_run_are_held_back_together():
    rows = [parse(row) for row in table()]

    assert folds(rows)[:24] == folds(rows + rows)[24:]
    assert sorted({folds(rows).count(i) for i in range(5)}) == [4, 5]


def test_kernels_that_are_borrowed_no_longer_widen_what_was_measured():
    rows = table(device="a10")[::2]
    found = calibrate(measured(rows, shipped(), noise=0.01), shipped())

    assert found.sigma_before[0, TPOT] > 1.3 * shipped().sigma("tpot", found.servers[0])  # borrowed
    assert found.sigma[0, TPOT] == found.calibration.sigma("tpot", found.servers[0])
    assert found.sigma[0, TPOT] < 0.75 * found.sigma_before[0, TPOT]

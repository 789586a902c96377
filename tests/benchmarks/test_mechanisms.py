"""Widths of bands for what was left out of the fit, on errors that are known."""

import numpy as np
import pytest

from benchmarks.choice.mechanisms import Left, bands_of, groups_of, report, width_of, widths
from planner.calibration.bench import TPOT, TTFT
from planner.cost.bands import Z80
from planner.cost.calibration import Traits, shipped


def left(errors, sigma=0.1):
    """Errors of TPOT, those of TTFT twice as large, of rows with one deviation."""
    both = np.zeros((len(errors), 2))
    both[:, TPOT], both[:, TTFT] = errors, 2 * np.array(errors)
    return Left(both, np.full((len(errors), 2), sigma), np.full(len(errors), "x"))


WITHIN, BEYOND = Z80 * 0.1 * np.array([0.5, -0.9, 0.2, 0.99, 0.0]), Z80 * np.full(5, 0.5)


def test_errors_inside_their_bands_need_no_width():
    assert width_of({("device", "a"): left(WITHIN)}, TPOT) == 0.0


def test_the_width_brings_four_of_five_inside():
    """By hand: half a unit off with a deviation of 0.1 needs sqrt(0.25 - 0.01) more."""
    groups = {("device", "a"): left(BEYOND)}

    assert width_of(groups, TPOT) == pytest.approx(0.24**0.5)
    assert width_of(groups, TTFT) == pytest.approx(0.99**0.5)
    assert width_of({("device", "a"): left([*WITHIN, *WITHIN, Z80])}, TPOT) == 0.0


def test_mechanisms_have_their_own_and_a_group_is_judged_by_the_others():
    found = {("device", "a"): left(WITHIN), ("device", "b"): left(BEYOND), ("pipeline", "c"): left(BEYOND, 0)}
    told = [line.split() for line in report(lambda: found).splitlines()]
    a, b = (next(line for line in told if line[0] == name) for name in "ab")

    assert widths(found) == {"device": {"ttft": 0.99, "tpot": 0.49}, "pipeline": {"ttft": 1.0, "tpot": 0.5}}
    assert (a[-3], a[-1]) == ("100.0%", "100.0%")
    assert (b[-3], b[-2], b[-1]) == ("0.0%", "0.00", "0.0%")


def test_models_of_a_single_group_are_judged_by_the_other_models():
    """Nine rows of one model are inside anyway, two of another as far off as only they know."""
    models = np.array(["x"] * 9 + ["y"] * 2)
    near, far = left([0.0] * 9), left(BEYOND[:2])
    both = (np.concatenate(pair) for pair in ((near.errors, far.errors), (near.sigma, far.sigma)))
    found = {("attention_dp", "a"): Left(*both, models)}
    (line,) = [line.split() for line in report(lambda: found).splitlines() if "attention_dp" in line]

    assert float(line[-2]) > 0.4
    assert line[-1] == "81.8%"


def test_bands_are_judged_by_errors_of_the_same_kind():
    """Errors of one step half as large as those of the calibration's bands are taken twice; a group's own
    have no say in its band."""
    told = np.array([shipped().bands[kind]["all"]["all"] for kind in ("ttft", "tpot")])
    errors = np.tile(Z80 * told / 2, (12, 1))
    errors[-1] *= 100
    server = Traits("vllm", "hopper", "h100-sxm", "bf16", "none", "x")
    larger, sigma = bands_of(errors, np.zeros_like(errors), [server] * 12, [(str(i),) for i in range(12)])

    assert larger == pytest.approx([2.0, 2.0])
    assert sigma == pytest.approx(np.tile(told, (12, 1)))


def row(**other):
    sizes = {"attn_tp": "2", "attn_dp": "1", "moe_tp": "2", "ep": "1"}
    names = {"backend": "vllm", "system": "h100_sxm", "gemm_quant_mode": "fp8", "moe_quant_mode": ""}
    return names | sizes | other


def test_a_group_is_left_out_where_enough_is_there_and_left(monkeypatch):
    monkeypatch.setattr("benchmarks.choice.mechanisms.as_asked", dict)
    fp8, bf16 = [row()] * 8, [row(gemm_quant_mode="bf16", ep="2")] * 9
    found = groups_of([*fp8, *bf16, row(backend="sglang")])

    assert set(found) == {
        ("device", "vllm h100_sxm"),
        ("expert_parallel", "vllm"),
        ("precision", "vllm h100_sxm fp8"),
        ("precision", "vllm h100_sxm bf16"),
    }
    assert found["expert_parallel", "vllm"].sum() == 9
    assert set(groups_of([*fp8, *bf16[:7]])) == {("device", "vllm h100_sxm")}

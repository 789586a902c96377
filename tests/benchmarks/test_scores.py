"""Errors, bands and layout orderings of a handful of rows, by hand."""

import numpy as np
import pytest

from benchmarks.scores.bands import band_table, coverage
from benchmarks.scores.errors import error_table, errors
from benchmarks.scores.held import Held
from benchmarks.scores.layouts import layout_pairs, layout_table, ordering
from benchmarks.scores.repeats import repeats
from benchmarks.scores.report import score

ROW = {
    "backend": "vllm", "backend_version": "1", "model_path": "org/m", "family": "m", "ffn": "moe",
    "system": "h100_sxm", "generation": "hopper", "precision": "fp8", "gemm_quant_mode": "fp8",
    "moe_quant_mode": "fp8", "isl": "1000", "osl": "100", "concurrency": "8", "gpus": "4",
    "attn_tp": "4", "attn_dp": "1", "moe_tp": "4", "ep": "1", "router": "",
}  # fmt: skip
EP = {"moe_tp": "1", "ep": "4"}
DP = {"attn_tp": "1", "attn_dp": "4"}


def held(rows, measured_tpot, tpot, sigma=0.1):
    """Rows with a TTFT of one second, measured and predicted."""
    one = np.full(len(rows), 1000.0)
    spread = np.full(len(rows), sigma)
    return Held(
        [ROW | row for row in rows], np.array(measured_tpot), one, np.array(tpot), one, spread, spread
    )


def test_errors_are_relative_to_what_was_measured():
    e = errors(np.array([9.0, 11.0, 10.0, 20.0]), np.array([10.0, 10.0, 10.0, 10.0]))

    assert e.n == 4
    assert e.median == pytest.approx(0.1)
    assert e.mean == pytest.approx(0.3)
    assert e.p90 == pytest.approx(0.73)  # 0.7 of the way from 0.1 to 1.0
    assert e.bias == pytest.approx(0.05)
    assert e.log_bias == pytest.approx(np.log(0.9 * 1.1 * 2) / 4)


def test_errors_are_shown_by_every_slice():
    text = error_table(held([{}, {"backend": "sglang", "concurrency": "64"}], [10.0, 10.0], [11.0, 12.0]))

    lines = {" ".join(line.split()[:2]): line.split() for line in text.splitlines()[1:]}
    assert lines["engine sglang"][2:4] == ["1", "20.0%"]
    assert lines["concurrency 1-8"][2:4] == ["1", "10.0%"]
    assert "concurrency 33-128" in lines
    assert lines["all 2"][2] == "15.0%"


def test_the_80_percent_band_reaches_1_28_standard_deviations():
    """exp(1.2816 * 0.2) = 1.292: it spans 7.74 to 12.92 around 10."""
    c = coverage(held([{}] * 4, [12.9, 13.0, 7.8, 7.7], [10.0] * 4, sigma=0.2), "tpot")

    assert c.inside == 0.5
    assert c.width == pytest.approx(1.292**2 - 1, abs=1e-3)
    assert c.log_width == pytest.approx(2 * 1.28155 * 0.2, abs=1e-4)


def test_only_slices_of_100_rows_and_5_groups_are_judged():
    rows = [{"family": f"m{i % 5}", "backend": "vllm" if i < 100 else "sglang"} for i in range(199)]
    text = band_table(held(rows, [10.0] * 199, [10.0] * 199))

    assert "engine vllm" in text
    assert "sglang" not in text
    assert "engine" not in band_table(held([r | {"family": "m"} for r in rows], [10.0] * 199, [10.0] * 199))


def test_pairs_differ_in_layout_and_in_nothing_else():
    rows = [{}, EP, DP, {}, {**EP, "concurrency": "16"}, {**DP, "gpus": "8"}, {**EP, "isl": "9"}]

    pairs = layout_pairs(held(rows, [10.0] * 7, [10.0] * 7))

    assert sorted(map(tuple, pairs.tolist())) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]


def test_pairs_within_5_percent_are_left_out_and_a_draw_is_half_right():
    pairs = np.array([[0, 1], [0, 2], [0, 3], [0, 4]])
    measured = np.array([10.0, 10.4, 12.0, 12.0, 8.0])

    found = ordering(np.array([10.0, 9.0, 11.0, 10.0, 11.0]), measured, pairs)

    assert found.pairs == 3
    assert found.right == pytest.approx((1 + 0.5 + 0) / 3)


def test_layouts_of_other_engine_versions_and_routers_are_told_apart():
    others = [{}, EP, EP | {"backend_version": "2"}, EP | {"router": "tf32"}]
    text = layout_table(held(others, [10.0, 12.0, 8.0, 9.0], [10.0, 11.0, 11.0, 9.0]))

    found = [line.rsplit(maxsplit=4)[1:3] for line in text.splitlines()[1:]]
    assert found == [["3", "66.7%"], ["3", "66.7%"], ["2", "100.0%"], ["1", "100.0%"]]


def test_a_repeat_is_predicted_by_the_mean_of_the_others_and_copies_do_not_count():
    rows = [{}, {}, {}, EP, {"isl": "9"}, {"isl": "9"}]

    again = repeats(held(rows, [10.0, 12.0, 14.4, 9.0, 10.0, 10.001], [1.0] * 6))

    assert again.measured_tpot.tolist() == [10.0, 12.0, 14.4]
    assert again.tpot == pytest.approx([np.sqrt(12 * 14.4), 12.0, np.sqrt(120)])


def test_repeats_of_another_engine_version_can_be_kept_apart():
    h = held([{}, {"backend_version": "2"}], [10.0, 12.0], [1.0, 1.0])

    assert len(repeats(h).rows) == 2
    assert len(repeats(h, ["backend_version"]).rows) == 0


def test_tokens_per_second_follow_from_tpot_ttft_and_concurrency():
    """8 requests of 100 tokens every 1 s + 100 * 10 ms on 4 GPUs: 100 tokens/s each."""
    h = held([{}], [10.0], [30.0])

    assert h.measured_rate() == pytest.approx([100.0])
    assert h.rate() == pytest.approx([50.0])


def test_the_report_has_all_parts():
    h = held([{}, EP, {"concurrency": "16"}], [10.0, 12.0, 15.0], [10.0, 11.0, 14.0])
    text = score(h)

    assert [part.splitlines()[0].split()[0] for part in text.split("\n\n")] == [
        "Errors", "80", "Picks", "Layouts", "Measurements", "What",
    ]  # fmt: skip

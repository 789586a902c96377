"""Gains of splits, and what rules of splitting bring, by hand."""

import math

import pytest

from benchmarks.choice.splits import Comparison, at, by_class, by_rule, frontier, split_run
from benchmarks.truth import SERVING
from benchmarks.truth import table as read

WON = Comparison("won", "trtllm", "h200", True, measured=2.0, predicted=1.5)
FALSE = Comparison("false", "trtllm", "h200", True, measured=0.5, predicted=1.05)
SLOW = Comparison("slow", "vllm", "l40s", False, measured=0.8, predicted=1.6)


def test_a_slower_run_of_less_output_is_not_on_the_frontier():
    assert frontier([(20, 9), (10, 5), (12, 4)]) == [(10, 5), (20, 9)]


def test_output_lies_straight_between_runs_on_log_scales_and_flat_beyond_them():
    points = [(10.0, 100.0), (40.0, 400.0)]

    assert at(points, 20) == pytest.approx(200)
    assert (at(points, 1), at(points, 100)) == pytest.approx((100, 400))


def test_rules_gain_what_they_split_and_nothing_elsewhere():
    """By hand: above 1 takes all three, above 1.1 not the false one, without PCIe only the first."""
    lines = by_rule([WON, FALSE, SLOW]).splitlines()[1:]

    gained = [math.log(2 * 0.5 * 0.8) / 3, math.log(2 * 0.8) / 3, math.log(2) / 3, math.log(2) / 3]
    assert [line.split()[-1] for line in lines] == [f"{g:.3f}" for g in gained]
    assert [line.split()[-2] for line in lines] == ["3", "2", "1", "1"]


def test_a_class_says_how_often_the_side_of_one_is_right():
    fast, slow = (
        next(line for line in by_class([WON, FALSE, SLOW]).splitlines() if line.startswith(name))
        for name in ("trtllm, NVLink/RDMA", "vllm, PCIe")
    )

    assert fast.split()[-3:] == ["50.0%", "1", "0"]
    assert slow.split()[-4:] == ["2.00", "0.0%", "1", "0"]


@pytest.mark.skipif(not SERVING.is_dir(), reason="no measurements beside the repository")
def test_a_run_of_fewer_ranks_than_gpus_has_one_rank_a_gpu():
    row = next(r for r in read(SERVING / "inferencex_deepseek_r1.csv.gz") if r["row"] == "224")

    run = split_run(row | {"decode_tp": "1", "decode_attn_dp": "1", "decode_ep": "8"})

    assert run.decode.designs.attn_dp[0] == run.decode.designs.ep[0] == 8
    assert run.concurrency == int(float(row["concurrency"]))

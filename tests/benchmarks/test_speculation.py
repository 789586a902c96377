"""Runs with drafted tokens as rows state them."""

import pytest

from benchmarks.speculation import RUNS, apart, drafted, fitted_groups, group_of, runs, scored, shape

pytestmark = pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")


@pytest.fixture(scope="module")
def split():
    return runs("mtp", split=True)


def test_half_of_the_groups_give_the_acceptance_and_none_is_in_both_halves(split):
    names = sorted({group_of(row) for row in split})
    fitted = fitted_groups(split)

    assert fitted == set(names[::2])
    assert len(names) == 10
    assert len(split) == 91


def test_of_runs_that_were_made_again_the_newest_counts(split):
    """DeepSeek-R1 in FP8 on MI355X with four in flight was run on four days of February 2026."""
    again = [
        row
        for row in split
        if (row["device"], row["precision"], row["concurrency"], row["isl"]) == ("mi355x", "fp8", "4", "1024")
    ]

    assert [row["date"] for row in again] == ["2026-02-16"]


def test_runs_on_one_server_under_a_mended_fault_are_left_out():
    """SGLang 0.5.10 on B300 took up to six times as long for prompts as two weeks later."""
    dates = {row["date"] for row in runs("mtp", split=False) if row["device"] == "b300_sxm"}

    assert dates
    assert min(dates) >= "2026-05-17"


def test_requests_that_wait_for_prefill_do_not_decode(split):
    """2,048 prompts of 8k tokens on one prefill server: first tokens came after five minutes, and a token
    took 25 to 28 ms, for which all of them in flight at once would be two to three times as many."""
    row = next(r for r in split if (r["isl"], r["concurrency"], r["device"]) == ("8192", "2048", "mi355x"))
    more = {**row, "prefill_workers": "64.0", "prefill_gpus_all": str(64 * float(row["prefill_gpus_all"]))}

    assert float(row["prefill_workers"]) == 1
    assert apart(row, 0.5) < 0.6 * apart(more, 0.5)


def test_attention_dp_that_a_row_leaves_out_follows_from_its_gpus(split):
    row = next(r for r in split if r["decode_tp"] == "1.0" and r["decode_gpus_all"] == "16.0")
    own = shape(row)

    assert own["tp"] * own["attn_dp"] * own["workers"] == 16


def test_lengths_are_those_of_the_recipes(split):
    lengths = {(row["engine"], shape(row)["attn_dp"] > 1, drafted(row)) for row in split}

    assert lengths == {
        *(("trtllm", True, tokens) for tokens in (1, 2, 3)),
        *(("trtllm", False, 3), ("sglang", True, 2), ("sglang", False, 2)),
    }


def test_more_acceptance_is_predicted_faster(split):
    half, most = (scored(split[:5], p).ratio for p in (0.3, 0.9))

    assert (most < half).all()

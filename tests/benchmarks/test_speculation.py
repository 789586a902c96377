"""Runs with drafted tokens as rows state them."""

import pytest

from benchmarks.speculation import RUNS, drafted, fitted_groups, group_of, runs, scored, shape

pytestmark = pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")


@pytest.fixture(scope="module")
def split():
    return runs("mtp", split=True)


def test_half_of_the_groups_give_the_acceptance_and_none_is_in_both_halves(split):
    names = sorted({group_of(row) for row in split})
    fitted = fitted_groups(split)

    assert fitted == set(names[::2])
    assert len(names) == 10
    assert len(split) == 128


def test_attention_dp_that_a_row_leaves_out_follows_from_its_gpus(split):
    row = next(r for r in split if r["decode_tp"] == "1.0" and r["decode_gpus_all"] == "16.0")
    own = shape(row)

    assert own["tp"] * own["attn_dp"] * own["workers"] == 16


def test_lengths_are_those_of_the_recipes(split):
    lengths = {(row["engine"], shape(row)["attn_dp"] > 1, drafted(row)) for row in split}

    assert lengths == {("trtllm", True, 1), ("trtllm", False, 3), ("sglang", True, 2), ("sglang", False, 2)}


def test_more_acceptance_is_predicted_faster(split):
    half, most = (scored(split[:5], p).ratio for p in (0.3, 0.9))

    assert (most < half).all()

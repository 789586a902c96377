"""Disaggregated runs as rows state them."""

import numpy as np
import pytest

from benchmarks import disaggregated
from benchmarks.split_runs import (
    batch,
    disaggregated_rows,
    is_unstated,
    of_unknown_replicas,
    predict,
    run_of,
    states_workers,
)
from benchmarks.truth import RUNS

pytestmark = pytest.mark.skipif(not RUNS.is_file(), reason="no measurements beside the repository")


@pytest.fixture(scope="module")
def rows():
    return {row["row_id"]: row for row in disaggregated_rows() if states_workers(row)}


def test_batches_are_of_an_attention_dp_rank(rows):
    """The recipe of row 541 states a concurrency of 2192: 137 on each of 2 workers' 8 ranks."""
    run = run_of(rows["541"])

    assert run.concurrency == 2192
    assert (batch(run.row), run.places) == (137, 128)


def test_placeholders_keep_their_concurrency_and_lose_their_design(rows):
    small, large = (run_of(rows[name]).decode.designs for name in ("769", "768"))
    at_its_word = run_of(rows["769"], as_stated=True)

    assert (small.tp[0], small.attn_dp[0], small.ep[0]) == (4, 1, 1)
    assert (large.tp[0], large.attn_dp[0], large.ep[0]) == (1, 32, 32)
    assert at_its_word.concurrency == run_of(rows["769"]).concurrency == 128
    assert sum(map(is_unstated, rows.values())) == 18


def test_labels_tell_jobs_of_unknown_replicas(rows):
    """Row 996 has 560 ms a token where its twin on other workers has 22."""
    unsure = of_unknown_replicas(list(rows.values()))

    assert len(unsure) == 9
    assert rows["996"] in unsure
    assert rows["541"] not in unsure


def test_a_checkpoint_in_nvfp4_keeps_what_attention_projects_into_in_16_bits(rows):
    cost = run_of(rows["541"]).decode.cost
    mixer = cost.card.stack[0].mixer

    assert (cost.precisions.gemm, cost.precisions.experts, cost.precisions.kv) == ("nvfp4", "nvfp4", "fp8")
    assert mixer.precision == dict.fromkeys(("q_a", "q_b", "kv_a", "kv_b"), "bf16")


def test_prompts_in_waves_wait_longer_than_such_as_come_evenly(rows):
    """Row 266: 512 prompts in flight on four prefill workers."""
    found = predict(run_of(rows["266"]))

    assert found.ttft_ms > 1.05 * found.even_ttft_ms
    assert disaggregated.evenly(found).ttft_ms == found.even_ttft_ms


def test_a_lone_request_waits_for_nobody_and_places_make_others_wait(rows):
    """Row 681 has one request in flight; row 621 nine on three workers of two places each, by its recipe."""
    lone, run = predict(run_of(rows["681"])), run_of(rows["621"])
    free, held = predict(run), predict(run, run.places)

    assert lone.sequences <= 1
    assert 1e-3 * lone.ttft_ms == pytest.approx(lone.emptied_s, rel=0.5)
    assert held.sequences == pytest.approx(2.0, rel=1e-3)
    assert held.ttft_ms > 10 * free.ttft_ms


def test_tables_name_what_is_left_out_and_what_no_queue_explains(rows):
    some = [run_of(rows[name]) for name in ("621", "312", "434", "541")]
    scored = [(run, predict(run)) for run in some]

    assert "row 621" in disaggregated.late_table(scored)
    assert "row 541" not in disaggregated.late_table(scored)
    assert disaggregated.twins(scored).startswith("1 runs are listed with two prefill designs")
    assert disaggregated.by_group(scored).splitlines()[-1].split()[:2] == ["all", "4"]
    assert all(np.isfinite([p.tpot_ms, p.ttft_ms]).all() for _, p in scored)

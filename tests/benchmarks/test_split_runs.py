"""Disaggregated runs as rows state them."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import disaggregated
from benchmarks.split_recipes import RECIPES, recipe_of
from benchmarks.split_runs import (
    batch,
    concurrency,
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


def test_every_recipe_launched_a_run(rows):
    found = [recipe_of(row, None if is_unstated(row) else concurrency(row)) for row in rows.values()]
    with RECIPES.open(encoding="utf-8", newline="") as file:
        named = [line["recipe"] for line in csv.DictReader(file)]

    assert {recipe.path for recipe in found if recipe} == set(named)
    assert len(named) == len(set(named)) == 51


def test_runs_that_are_listed_with_two_prefill_designs_have_that_of_their_recipe(rows):
    """Rows 499 and 691 are one recipe's, as are 699 and 716: with attention-dp for short prompts alone."""
    designs = [run_of(rows[name]).prefill.designs for name in ("499", "691", "699", "716")]
    stated = [run_of(rows[name], as_stated=True).prefill.designs for name in ("699", "716")]

    assert [(d.tp[0], d.attn_dp[0], d.ep[0]) for d in designs] == [(1, 8, 8)] * 2 + [(8, 1, 8)] * 2
    assert [d.attn_dp[0] for d in stated] == [8, 1]


def test_a_recipe_limits_the_prompts_of_a_step(rows):
    """Row 716: two prompts of 7,373 tokens where max_batch_size is 2; row 266 leaves them to 16,384 tokens a
    rank, of which four step together."""
    two, many = run_of(rows["716"]), run_of(rows["266"])

    assert (two.prefill.prompts(two.isl), two.prefill.tokens) == (2, 16640)
    assert many.prefill.prompts(many.isl) == 4 * (16384 // 922)
    assert run_of(rows["716"], as_stated=True).prefill.prompts(two.isl) == 1


def test_requests_wait_for_a_look_every_ten_steps(rows):
    """Row 268's decode workers look at new requests every 10 steps: five more pass before a first token."""
    run = run_of(rows["268"])
    often = replace(run.prefill.recipe, receive_steps=1.0)
    later = predict(run).ttft_ms - predict(replace(run, prefill=replace(run.prefill, recipe=often))).ttft_ms

    assert run.prefill.recipe.receive_steps == 10
    assert later == pytest.approx(4.5 * predict(run).tpot_ms, rel=0.2)


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
    assert disaggregated.by_group(scored).splitlines()[-1].split()[:2] == ["all", "4"]
    assert all(np.isfinite([p.tpot_ms, p.ttft_ms]).all() for _, p in scored)

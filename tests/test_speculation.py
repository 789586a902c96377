"""Speculative decoding: what a step verifies, what drafting takes, and what of it arrives."""

import numpy as np
import pytest

from planner.cost.attention import Load, decode_work
from planner.cost.layers import Layers
from planner.drafts.kinds import mtp_card
from planner.errors import InputError
from planner.predict.predictions import looked_up, predict_rows
from planner.predict.rows import parse
from tests.cost.samples import GQA, KINDS, cost, designs, tensor_parallel

LLAMA = {"model": "llama-3.1-70b", "device": "h100-sxm", "tp": "8", "isl": "1000", "osl": "401"}
MOE = {"model": "deepseek-v3", "device": "h200-sxm", "tp": "8", "isl": "1000", "osl": "401"}


def drafted(tokens, accepted):
    return {"draft_tokens": str(tokens), "accepted_tokens": str(accepted)}


def test_four_queries_a_sequence_read_its_cache_once():
    """2 sequences of 1000 tokens, 32 heads on 8 KV heads of 128: 2*1000*2*8*128 elements of 2 bytes."""
    load = Load(*(np.array([x]) for x in (2.0, 1000.0, 0.0, 0.0)), queries=4.0)
    work = decode_work(GQA, load, np.array([1]), "bf16")

    assert load.rows == 8
    assert work.flops == 2 * 32 * 256 * 2 * 1000 * 4
    assert work.bytes == 2 * 1000 * 2 * 8 * 128 * 2 + 2 * 8 * 32 * 256
    assert work.items == 2 * 8


@pytest.mark.parametrize("row", [LLAMA, MOE])
def test_no_draft_is_as_if_the_columns_were_not_there(row):
    without, blank, none = predict_rows([row, row | drafted("", ""), row | drafted(0, 0)])

    assert without == blank == none


@pytest.mark.parametrize("concurrency", ["1", "64", "512"])
@pytest.mark.parametrize("row", [LLAMA, MOE])
def test_drafts_that_are_never_accepted_only_cost(row, concurrency):
    row = row | {"concurrency": concurrency}
    none, one, three = predict_rows([row, row | drafted(1, 0), row | drafted(3, 0)])

    assert none.tpot_ms < one.tpot_ms < three.tpot_ms
    assert none.out_tok_per_s > one.out_tok_per_s > three.out_tok_per_s


def test_a_lone_sequence_gains_nearly_all_that_is_accepted_and_a_full_server_little():
    """Weights bind: three more rows in the GEMMs cost nothing, three layers and LM heads of 80 layers about a
    tenth. At 512 sequences FLOPs bind."""
    gains = []
    for concurrency in ("1", "512"):
        row = LLAMA | {"concurrency": concurrency}
        none, all_of_three = predict_rows([row, row | drafted(3, 3)])
        gains.append(none.tpot_ms / all_of_three.tpot_ms)

    assert 3.5 < gains[0] < 4.0
    assert gains[1] < 2.0


def test_more_accepted_is_faster_in_proportion():
    rows = [LLAMA | {"role": "decode"} | drafted(3, a) for a in (0.5, 2)]
    half, two = predict_rows(rows)

    assert half.tpot_ms / two.tpot_ms == pytest.approx(3 / 1.5, rel=1e-3)


def test_tpot_is_the_step_at_the_mean_context_over_the_tokens_it_emits():
    """A decode server of 8 sequences, 1000 + 401/2 tokens each."""
    (answer,) = predict_rows([LLAMA | {"role": "decode", "concurrency": "8"} | drafted(2, 1.5)])
    group, _ = looked_up(parse(LLAMA | {"role": "decode"} | drafted(2, 1.5)))
    step = group.cost().step_s(tensor_parallel(8), Load.of(8, 1200.5))[0]

    assert answer.tpot_ms == pytest.approx(1e3 * step / 2.5, rel=1e-3)
    assert answer.out_tok_per_s == pytest.approx(8 * 401 / (400 * step / 2.5), rel=1e-3)


def test_littles_law_holds_with_drafts():
    (answer,) = predict_rows([LLAMA | {"concurrency": "64"} | drafted(3, 1.8)])
    rate = answer.out_tok_per_s / 401

    assert rate * 1e-3 * (answer.ttft_ms + 400 * answer.tpot_ms) == pytest.approx(64, rel=0.05)


def test_a_draft_takes_a_layer_and_the_lm_head():
    """A model of 20 equal layers: what the layers and the head take alone."""
    model, one, load = (
        cost(KINDS["mla"]),
        designs((8, 1, 1, 8, 1)),
        [np.array([x]) for x in (16.0, 2000.0, 0.0, 0.0)],
    )
    layer = model.layers.layer_s(model.card.stack[-1], Load(*load), one)
    verified = model.layers.layer_s(model.card.stack[-1], Load(*load, queries=4.0), one)
    head = model.layers.head_s(load[0], one)

    drafter = Layers(
        mtp_card(model.card),
        model.chip,
        model.fits,
        model.links,
        model.precisions,
        model.calibration.popularity,
    )
    assert drafter.draft_s(Load(*load, queries=4.0), 3, one) == pytest.approx(verified + 2 * layer + 3 * head)


def test_rows_of_other_draft_lengths_are_other_groups():
    groups = {
        looked_up(parse(LLAMA | change))[0] for change in ({}, drafted(1, 1), drafted(1, 0.5), drafted(2, 1))
    }

    assert len(groups) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (drafted(3, ""), "how many of 3 drafted"),
        (drafted(3, 3.5), "at most 3"),
        (drafted(0, 1), "at most 0"),
        (drafted(-1, 0), "at least 0"),
        (drafted(1.5, 1), "whole number"),
        (drafted(2, "most"), "must be a number"),
    ],
)
def test_a_draft_that_makes_no_sense_says_why(change, reason):
    (answer,) = predict_rows([LLAMA | change])

    assert isinstance(answer, InputError)
    assert reason in answer.message

"""Drafts: how many tokens are accepted, what drafters are as models, and what may be asked for."""

import pytest

from model_zoo import catalog
from model_zoo.derive import total_params
from planner.drafts.kinds import ACCEPTED, KINDS, LENGTHS, Draft, drafts_of, eagle_card, mtp_card
from planner.engines import ENGINES
from planner.errors import InputError


def card(name):
    return catalog.find(name)[0]


def test_tokens_are_accepted_up_to_the_first_that_is_not():
    """By hand, p = 1/2: 1/2 + 1/4 + 1/8 of three tokens."""
    assert Draft("ngram", 3, 0.5).accepted == 0.875
    assert Draft("ngram", 1, 0.5).accepted == 0.5


def test_the_prediction_layer_is_the_last_layer_alone():
    """DeepSeek-V3: 671 B parameters in 61 layers, 11.5 B of them in a layer with experts."""
    drafter = mtp_card(card("deepseek-v3"))

    assert len(drafter.stack) == 1
    assert total_params(drafter) == pytest.approx(11.5e9 + 2 * 129280 * 7168, rel=0.01)


def test_an_eagle_head_of_llama_8b_is_a_dense_layer_and_32000_tokens():
    """4 x 4096 x 4096 attention (K and V a quarter), 3 x 4096 x 14336 FFN, 2 x 32000 x 4096 embeddings."""
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336

    assert total_params(eagle_card(card("llama-3.1-8b"))) == layer + 2 * 32000 * 4096


def test_an_eagle_head_has_no_experts():
    (layer,) = eagle_card(card("qwen3-235b-a22b")).stack

    assert layer.ffn.kind == "dense"
    assert layer.ffn.inner == 8 * 1536


def test_auto_takes_the_models_own_layers_or_a_head():
    assert {d.name for d in drafts_of(card("deepseek-r1"), "auto", None, None)} == {"mtp 1", "mtp 3"}
    assert {d.name for d in drafts_of(card("llama-3.1-8b"), "auto", None, 5)} == {"eagle 5"}
    assert drafts_of(card("llama-3.1-8b"), None, None, None) == []


def test_what_is_stated_counts_and_what_is_not_has_its_kinds_default():
    (stated,) = drafts_of(card("deepseek-r1"), "mtp", 0.8, 2)
    first, *_ = drafts_of(card("deepseek-r1"), "mtp", None, None)

    assert (stated.tokens, stated.acceptance) == (2, 0.8)
    assert (first.tokens, first.acceptance) == (LENGTHS[0], ACCEPTED["mtp"])


def test_every_engine_is_told_how_by_an_option_with_the_length():
    drafter = card("llama-3.2-1b")
    for engine in ENGINES:
        for kind in KINDS:
            option = Draft(kind, 7, 0.5, drafter if kind == "draft" else None).option(engine.name)
            assert "7" in option, (engine.name, kind)
            assert "{{" not in option
        assert set(engine.drafts) == set(KINDS)


@pytest.mark.parametrize(
    ("model", "asked", "reason", "where"),
    [
        ("llama-3.1-8b", ("mtp", None, None), "no multi-token-prediction layers", "--speculation"),
        ("llama-3.1-8b", ("meduza", None, None), "no way to draft is called `meduza`", "--speculation"),
        ("llama-3.1-8b", ("draft", None, None), "no way to draft is called `draft`", "--speculation"),
        ("llama-3.1-8b", ("mtp:llama-3.2-1b", None, None), "no way to draft", "--speculation"),
        ("llama-3.1-8b", ("draft:qwen3-0.6b", 0.5, None), "have other tokens", "--speculation"),
        ("llama-3.1-8b", ("draft:llama-3.1-70b", 0.5, None), "is no smaller", "--speculation"),
        ("llama-3.1-8b", ("draft:nonsense", 0.5, None), "nonsense", "--model"),
        ("llama-3.1-8b", ("ngram", None, None), "known to you alone", "--acceptance"),
        ("llama-3.1-8b", (None, 0.5, None), "nothing is drafted", "--acceptance"),
        ("llama-3.1-8b", (None, None, 3), "nothing is drafted", "--draft-tokens"),
    ],
)
def test_what_makes_no_sense_says_why_and_where(model, asked, reason, where):
    with pytest.raises(InputError) as error:
        drafts_of(card(model), *asked)

    assert reason in error.value.message
    if asked[0] != "draft:nonsense":
        assert error.value.where == where

"""What a drafter adds to a step, to memory and to what a prompt sends."""

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.drafts.kinds import Draft, eagle_card, mtp_card
from planner.drafts.model import NGRAM_S, DraftedModel
from tests.cost.samples import tensor_parallel

NODE = from_gpus("8xh100").classes[0]
LLAMA, R1, SMALL = (catalog.find(name)[0] for name in ("llama-3.1-70b", "deepseek-r1", "llama-3.2-1b"))
ONE = tensor_parallel(8)


def plain(card):
    return CostModel(card, NODE, "vllm", precisions(card))


def drafted(card, draft):
    return DraftedModel(card, NODE, "vllm", precisions(card), draft)


def step_s(model, sequences=16.0):
    return float(model.step_s(ONE, Load.of(sequences, 2000.0, 0.0, 0.0))[0])


def drafts(card=LLAMA):
    head = (
        Draft("mtp", 3, 0.5, mtp_card(card)) if card.mtp_layers else Draft("eagle", 3, 0.5, eagle_card(card))
    )
    return [head, Draft("ngram", 3, 0.5), *([Draft("draft", 3, 0.5, SMALL)] if card is LLAMA else [])]


@pytest.mark.parametrize("card", [LLAMA, R1])
def test_a_step_with_drafts_is_never_faster(card):
    for draft in drafts(card):
        for sequences in (0.01, 1.0, 16.0, 512.0):
            assert step_s(drafted(card, draft), sequences) > step_s(plain(card), sequences), draft.name


def test_more_tokens_take_longer():
    for draft in drafts():
        took = [step_s(drafted(LLAMA, replace(draft, tokens=k))) for k in (1, 2, 4)]
        assert took[0] < took[1] < took[2]


def test_n_grams_take_time_of_the_host_alone():
    """Beside four tokens to verify: that time for each of 16 sequences."""
    ngram = drafted(LLAMA, Draft("ngram", 3, 0.5))
    own = step_s(ngram)
    ngram.drafting_s = lambda load, designs: 0.0

    assert own - step_s(ngram) == pytest.approx(16 * NGRAM_S)
    assert ngram.drafter_bytes(ONE)[0] == 0
    assert (ngram.drafter_cache_bytes(ONE, np.array([1000.0])) == 0).all()


def test_a_draft_model_lies_on_the_same_gpus():
    """Llama-3.2-1B in 16 bits over 8 GPUs: 16 layers of 60.8 M parameters, and 262.7 M of tied embeddings."""
    model, bare = drafted(LLAMA, Draft("draft", 3, 0.5, SMALL)), plain(LLAMA)
    weights = 2 * (16 * (2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192) + 128256 * 2048) / 8
    with_, without = (m.memory(ONE, 8192, 4000.0, np.array([64.0])) for m in (model, bare))

    assert model.drafter_bytes(ONE)[0] == pytest.approx(weights, rel=0.01)
    assert (with_.weights_bytes - without.weights_bytes)[0] == pytest.approx(model.drafter_bytes(ONE)[0])
    assert (without.kv_bytes - with_.kv_bytes)[0] == pytest.approx(model.drafter_bytes(ONE)[0])


def test_a_drafters_cache_and_slots_of_drafted_tokens_are_counted():
    """1000 tokens and 3 drafted ones: 80 layers of one KV head of 128 each on a rank, and one layer more."""
    model = drafted(LLAMA, Draft("eagle", 3, 0.5, eagle_card(LLAMA)))
    held = model.cache_bytes(ONE, np.array([1000.0]), np.array([0]))

    assert held[0, 0] == 1003 * 81 * 2 * 128 * 2
    assert model.transfer_bytes(np.array([1000.0]))[0] == 1000 * 81 * 2 * 8 * 128 * 2


def test_the_models_own_prediction_layer_is_counted_once():
    model, bare = drafted(R1, drafts(R1)[0]), plain(R1)
    with_, without = (m.memory(ONE, 8192, 4000.0, np.array([64.0])) for m in (model, bare))

    assert (with_.weights_bytes == without.weights_bytes).all()
    assert model.drafter_bytes(ONE)[0] == pytest.approx(11.5e9 / 8, rel=0.05)


def test_prompts_pass_the_drafter_once_and_pick_nothing():
    one, three = (drafted(R1, replace(drafts(R1)[0], tokens=k)) for k in (1, 3))
    prompt = [float(m.step_s(ONE, Load.of(0.0, 0.0, 4096.0, 2048.0))[0]) for m in (plain(R1), one, three)]

    assert prompt[0] < prompt[1] == prompt[2] < 1.05 * prompt[0]

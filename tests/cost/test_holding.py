"""What replicas hold and hand over, and kernels of a layer, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from model_zoo.schema import Layer
from planner.cost.holding import Holding
from planner.cost.launches import USUAL, dense_layers, launches
from planner.cost.model import CostModel
from planner.cost.several import SeveralClasses
from planner.designs.shape import Stage, designs_of, like
from tests.cost.samples import BF16, GQA, KINDS, LINEAR, LLAMA_8B, MLA, MOE, SPARSE, cost, designs

KV = 2 * 8 * 128 * 2
"""Bytes of a token's K and V in a layer of Llama-3.1-8B."""


def test_a_prompts_cache_is_that_of_all_layers():
    assert cost().transfer_bytes(np.array([1000.0])) == pytest.approx([1000 * 32 * KV])


@pytest.mark.parametrize(
    ("tp", "pp", "most", "copies"), [(1, 1, 1, 1), (4, 1, 1 / 4, 1), (1, 4, 1 / 4, 1), (16, 1, 1 / 8, 2)]
)
def test_ranks_send_their_own_part_and_heads_that_are_repeated_are_copies(
    tp: int, pp: int, most: float, copies: int
):
    """Eight KV heads over 16 ranks are there twice."""
    sent, kept = cost().handed_bytes(like(1, tp, pp), np.array([1000.0]))

    assert sent[0, 0] == pytest.approx(most * 1000 * 32 * KV)
    assert kept[0, 0] == copies


def test_a_latent_is_whole_on_every_rank():
    m = cost(KINDS["mla"])
    sent, kept = m.handed_bytes(like(1, 8), np.array([1000.0]))

    assert sent[0, 0] == pytest.approx(m.transfer_bytes(np.array([1000.0]))[0])
    assert kept[0, 0] == 8


def test_cache_of_a_stage_is_that_of_its_layers():
    m, two = cost(), like(2, 1, np.array([2, 2]))

    held = m.cache_bytes(two, np.array([100.0, 300.0]), np.array([0, 1]))
    assert held == pytest.approx(np.array([[100.0, 300.0]] * 2) * 16 * KV)


def test_the_last_chunk_of_a_long_prompt_adds_what_its_tokens_add():
    """3,000 tokens in chunks of 2,000: a third is added last; a prompt in one chunk is sent whole."""
    m, isl = cost(), np.array([3000.0, 1500.0])

    assert m.last_share(isl, isl, 2000) == pytest.approx([2000 / 3000, 1.0])
    assert m.last_share(np.array([1500.0, 1500.0]), isl, 2000).tolist() == [1.0, 1.0]


def test_a_window_is_sent_with_the_last_chunk():
    """Only 128 tokens are kept of all: nothing could be sent before."""
    m, isl = cost(KINDS["window"]), np.array([3000.0])

    assert m.last_share(isl, isl, 2000) == pytest.approx([1.0])


def test_memory_of_the_fullest_stage_is_one_of_every_stage():
    m, pipe = cost(), like(1, 1, 2)
    every, one = m.memory_by_stage(pipe, 2048), m.memory(pipe, 2048, 1000.0)

    assert isinstance(m, Holding)
    assert one.weights_bytes[0] == every.weights_bytes[0, one.stage[0]]
    each = [
        every.kv_bytes[0, k] / m.cache_bytes(pipe, np.array([1000.0]), np.array([k]))[0, 0] for k in (0, 1)
    ]
    assert one.stage[0] == int(np.argmin(each))


def test_context_parallel_groups_divide_what_they_hold():
    one, two = designs((2, 1, 1, 2, 1)), designs((2, 1, 1, 4, 1))
    two = type(two)(*(vars(two) | {"cp": np.array([2])}).values())
    tokens = np.array([1000.0])

    whole, half = (cost().handed_bytes(d, tokens)[0][0, 0] for d in (one, two))
    assert half == pytest.approx(whole / 2)


@pytest.mark.parametrize(
    ("layer", "kernels"),
    [
        (Layer(GQA, None), USUAL.softmax),
        (Layer(MLA, None), USUAL.latent),
        (Layer(LINEAR, None), USUAL.recurrent),
        (Layer(SPARSE, None), USUAL.latent + 11),
        (Layer(None, MOE), USUAL.routed),
        (Layer(None, MOE.model_copy(update={"shared_inner": 8})), USUAL.routed + USUAL.dense),
        (Layer(None, None), 0),
    ],
)
def test_kernels_of_a_layer_are_those_of_its_parts(layer: Layer, kernels: int):
    assert launches(layer) == kernels


def test_a_dense_model_has_as_many_dense_layers_as_layers():
    assert dense_layers(LLAMA_8B) == 32
    assert dense_layers(KINDS["moe"]) == pytest.approx(
        48 * (USUAL.softmax + USUAL.routed) / (USUAL.softmax + USUAL.dense)
    )


SEVERAL = from_gpus("2xh100-sxm,4xl4").classes
STAGINGS = ((Stage("h100-sxm", 2, (0, 20)), Stage("l4", 4, (20, 32))), (Stage("l4", 1, (0, 32)),))


def test_stages_on_several_classes_count_gpus_of_each_and_are_as_sure_as_the_least_known():
    m = SeveralClasses(LLAMA_8B, SEVERAL, (), STAGINGS, "vllm", BF16)
    both = designs_of(STAGINGS)

    assert {node.id: gpus.tolist() for node, gpus in m.by_class(both)} == {"h100-sxm": [2, 0], "l4": [4, 1]}
    assert m.most_gpus == 6
    alone = [CostModel(LLAMA_8B, node, "vllm", BF16) for node in SEVERAL]
    assert m.sigmas(both) == pytest.approx(np.maximum(*(a.sigmas(like(2, 1)) for a in alone)))
    assert m.tuning.step_s == max(a.tuning.step_s for a in alone)
    assert m.on(SEVERAL[1]).node_class.id == SEVERAL[1].id

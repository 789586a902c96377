"""Serving engines as their own pages state them: defaults, and memory that they keep, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.engines import ENGINES, NAMES, named
from planner.engines.engine import CONTEXT_BYTES, GIB, MIB, VISIBLE_SHARE, Reserving
from planner.engines.generations import BLACKWELL, FROM_ADA, FROM_AMPERE, FROM_HOPPER, FROM_TURING, INT8
from planner.engines.llama_cpp import LLAMA_CPP, MARGIN_BYTES
from planner.engines.sglang import SGLANG
from planner.engines.trtllm import FREE_SHARE, TRTLLM
from planner.engines.vllm import SHARE, VLLM
from planner.errors import InputError
from tests.cost.samples import tensor_parallel

H100, L4 = 80 * GIB, 24 * GIB


def looked(gib=80.0, tp=1, tokens=8192, weights=20.0, activations=2.0, graphs=1.0, buffers=0.5) -> Reserving:
    """What an engine's rule looks at, all sizes in GiB."""
    parts = (np.array([[x * GIB]]) for x in (weights, activations, graphs, buffers))
    return Reserving(gib * GIB, tensor_parallel(tp), tokens, *parts)


def gib(engine, m: Reserving) -> float:
    """What the engine keeps."""
    return float(engine.reserve_bytes(m)[0, 0]) / GIB


def test_an_engine_is_found_by_its_name_and_another_is_refused_with_all_names():
    assert [named(name) for name in NAMES] == list(ENGINES)
    with pytest.raises(InputError) as caught:
        named("vlm")
    assert "vlm" in caught.value.message
    assert all(name in str(caught.value.hint) for name in NAMES)


@pytest.mark.parametrize(
    ("engine", "device", "size", "tokens"),
    [
        (VLLM, "h100-sxm", 80, 8192),
        (VLLM, "a100-80gb-sxm", 80, 2048),
        (VLLM, "l4", 24, 2048),
        (VLLM, "b200", 180, 16384),
        (VLLM, "gb10", 119, 2048),
        (VLLM, "any", 70, 8192),
        (SGLANG, "t4", 16, 2048),
        (SGLANG, "l4", 24, 4096),
        (SGLANG, "h100-sxm", 80, 8192),
        (SGLANG, "b200", 180, 16384),
        (TRTLLM, "l4", 24, 8192),
        (LLAMA_CPP, "l4", 24, 512),
    ],
)
def test_defaults_are_those_of_the_engines_on_the_device(engine, device, size, tokens):
    assert engine.tokens_per_step(size, device) == tokens


def test_vllm_keeps_what_its_share_leaves_and_its_graphs_and_buffers_beside():
    assert gib(VLLM, looked()) == pytest.approx(80 - 0.92 * 0.99 * 80 + 1.5)
    assert pytest.approx(0.9108) == SHARE * VISIBLE_SHARE


def test_tensorrt_llm_keeps_a_tenth_of_what_weights_and_buffers_leave():
    """By hand: of 79.2 GiB visible, half a GiB of context, 1.5 beside and 22 used leave 55.2."""
    left = 79.2 - 0.5 - 1.5 - 22

    assert gib(TRTLLM, looked()) == pytest.approx(80 - 22 - 0.9 * left)
    assert FREE_SHARE == 0.9


def test_weights_that_do_not_fit_leave_tensorrt_llm_no_share():
    """By hand: 20 GiB too many, of which no tenth is given back."""
    assert gib(TRTLLM, looked(weights=95.2)) == pytest.approx(80 - 97.2 - (79.2 - 0.5 - 1.5 - 97.2))


def test_llama_cpp_keeps_its_margin_and_the_context():
    assert gib(LLAMA_CPP, looked()) == pytest.approx(0.8 + 0.5 + 1.0)
    assert (MARGIN_BYTES, CONTEXT_BYTES) == (GIB, GIB / 2)


@pytest.mark.parametrize(
    ("size", "gpus", "tokens", "graph"),
    [(16, 1, 2048, 8), (24, 1, 4096, 48), (24, 4, 4096, 160), (40, 1, 1024, 48), (50, 3, 4096, 48)],
)
def test_sglang_keeps_of_small_devices_what_its_rule_sums(size, gpus, tokens, graph):
    """512 MiB, 1.5 MiB a token of a chunk (of 2,048 at least), 2 MiB a sequence of a graph, 128 MiB a GPU."""
    kept = (512 + 1.5 * max(tokens, 2048) + 2 * graph + 128 * gpus) * MIB / GIB
    m = looked(size, gpus, tokens, weights=5.0, activations=0.1, graphs=0.1)
    free = 0.99 * size - 0.5 - 0.5

    assert gib(SGLANG, m) == pytest.approx(size - free * (1 - kept / size) - 0.1)


def test_sglang_keeps_ten_gib_of_large_devices():
    m = looked(80, 1, 2048, activations=0.0, graphs=0.0)

    assert gib(SGLANG, m) == pytest.approx(80 - (79.2 - 1.0) * (1 - 10 / 80))
    larger = looked(80, 4, 8192, activations=0.0, graphs=0.0)
    kept = (512 + 1.5 * 8192 + 2 * 512 + 512) * MIB / GIB
    assert kept > 10
    assert gib(SGLANG, larger) == pytest.approx(80 - 78.2 * (1 - kept / 80))


def test_sglangs_pool_is_what_is_free_where_activations_and_graphs_need_more():
    m = looked(80, 1, 2048, activations=20.0, graphs=5.0)

    assert gib(SGLANG, m) == pytest.approx(80 - (78.2 - 25) - 20)


def test_generations_contain_those_after_them():
    assert BLACKWELL < FROM_HOPPER < FROM_ADA < FROM_AMPERE < FROM_TURING
    assert not INT8 & BLACKWELL


def test_precisions_run_on_generations_that_run_the_engine():
    for engine in ENGINES:
        for generations in (*engine.weights.values(), *engine.cache.values(), *engine.balanced.values()):
            assert generations <= engine.generations, engine.name
        assert (engine.sparse or frozenset()) <= engine.generations


@pytest.mark.parametrize("engine", ENGINES, ids=NAMES)
def test_options_of_drafters_take_the_number_of_tokens(engine):
    for kind, option in engine.drafts.items():
        said = option.format(k=3, name="small")

        assert "3" in said
        assert ("small" in said) == (kind == "draft")


def test_the_admission_of_each_engine_is_its_own():
    """TensorRT-LLM guarantees no evict; blocks are 16, 1, 32 tokens and cells."""
    assert [e.admits_whole for e in (VLLM, SGLANG, TRTLLM, LLAMA_CPP)] == [False, False, True, False]
    assert [e.block_tokens for e in (VLLM, SGLANG, TRTLLM, LLAMA_CPP)] == [16, 1, 32, 1]

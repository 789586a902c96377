"""Kernels of a layer, counted: each kind of mixer and FFN, and a model's layers in those of a dense one; what
launching a step with prompts takes, and which steps are replayed instead."""

from dataclasses import replace

import numpy as np
import pytest

from model_zoo import catalog
from model_zoo.schema import DenseFfn, Layer, Mamba2, MoeFfn
from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.launches import (
    INDEXER,
    JOINT,
    USUAL,
    Kernels,
    dense_layers,
    graph_tokens,
    hidden,
    launches,
    launching_s,
)
from planner.cost.told import Told
from planner.cost.tuning import Tuning
from tests.cost.samples import (
    BF16,
    GQA,
    KINDS,
    LINEAR,
    LLAMA_8B,
    MLA,
    MOE,
    SPARSE,
    WINDOW,
    card,
    cost,
    tensor_parallel,
)

FFN = DenseFfn(inner=64)
JOINED = GQA.model_copy(update={"joint_norm": True})
SHARED = MoeFfn(experts=8, top_k=2, inner=64, shared_inner=64)
MAMBA = Mamba2(heads=4, head_dim=64, groups=1, state=16)


@pytest.mark.parametrize(
    ("mixer", "ffn", "kernels"),
    [
        (GQA, FFN, USUAL.softmax + USUAL.dense),
        (WINDOW, FFN, USUAL.softmax + USUAL.dense),  # a window is another mask, not another kernel
        (MLA, FFN, USUAL.latent + USUAL.dense),
        (SPARSE, FFN, USUAL.latent + INDEXER + USUAL.dense),
        (LINEAR, FFN, USUAL.recurrent + USUAL.dense),
        (MAMBA, None, USUAL.recurrent),
        (GQA, None, USUAL.softmax),
        (None, FFN, USUAL.dense),
        (None, MOE, USUAL.routed),
        (GQA, MOE, USUAL.softmax + USUAL.routed),
        (
            MLA,
            SHARED,
            USUAL.latent + USUAL.routed + USUAL.dense,
        ),  # shared experts are a dense FFN beside the routed ones
        (JOINED, MOE, USUAL.softmax + JOINT + USUAL.routed),
        (None, None, 0),
    ],
)
def test_kernels_of_a_layer(mixer, ffn, kernels):
    assert launches(Layer(mixer, ffn)) == kernels


@pytest.mark.parametrize(
    ("mixer", "ffn", "norms"), [(GQA, FFN, 2), (GQA, MOE, 2), (None, MOE, 1), (GQA, None, 1), (None, None, 0)]
)
def test_norms_apart_are_launched_for_each_all_reduce(mixer, ffn, norms):
    assert launches(Layer(mixer, ffn), Kernels(norms=1)) == launches(Layer(mixer, ffn)) + norms


def of(engine="sglang", generation="hopper", gemm="fp8_block", experts="fp8_block", kernels="", norms=False):
    """What an engine launches with weights in these precisions."""
    used = replace(BF16, gemm=gemm, experts=experts, kernels=kernels)
    return Kernels.of(norms, engine, generation, used)


@pytest.mark.parametrize(
    ("asked", "routed"),
    [
        ({}, 10),
        ({"generation": "ampere", "experts": "int4_wo"}, 8),
        ({"generation": "blackwell_dc", "experts": "bf16"}, 8),
        ({"generation": "blackwell_dc"}, 4),  # TensorRT-LLM's
        ({"generation": "blackwell_dc", "kernels": "triton"}, 10),
        ({"kernels": "cutlass"}, 4),
        ({"kernels": "cutlass", "experts": "bf16"}, 3),
        ({"generation": "cdna3"}, 4),  # AITER's
        ({"generation": "cdna3", "kernels": "triton"}, 10),
        ({"engine": "vllm", "kernels": "triton"}, USUAL.routed),  # one call, as its factors have it
        ({"engine": "vllm", "experts": "bf16"}, USUAL.routed),
    ],
)
def test_experts_stand_in_pieces_where_sglang_has_tritons(asked, routed):
    assert of(**asked).routed == routed


@pytest.mark.parametrize(
    ("gemm", "kernels"),
    [
        ("bf16", (7, 14, 30, 3)),
        ("int4_wo", (7, 14, 30, 3)),  # weights alone are held in 4 bits
        ("fp8", (9, 17, 32, 5)),
        ("nvfp4", (9, 17, 32, 5)),
    ],
)
def test_sglang_quantises_before_each_gemm_that_takes_few_bits(gemm, kernels):
    found = of(gemm=gemm)

    assert (found.softmax, found.latent, found.recurrent, found.dense) == kernels
    assert of("trtllm", gemm=gemm) == of("vllm", gemm=gemm) == USUAL


def test_a_server_launches_as_its_engine_does():
    """MiniMax-M2 of 62 layers, by hand: 8 kernels of attention, 3 of norms and 4 of experts; on SGLang one
    more that quantises, two norms apart and experts in pieces."""
    minimax, tuning = catalog.find("minimax-m2.5")[0], replace(Tuning(), prompt_layer_s=11e-3)
    used = replace(BF16, gemm="fp8_block", experts="fp8_block")
    plain, more = (
        cost(minimax, "h100-sxm", engine, used=used, by=Calibration(base=tuning)).launching_s
        for engine in ("vllm", "sglang")
    )

    assert plain == pytest.approx(62 * 15e-3)
    assert more == pytest.approx(62 * (9 + 3 + 10 + 2) * 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_models_layers_count_by_their_kernels(kind):
    of = KINDS[kind]

    assert dense_layers(of) == pytest.approx(
        len(of.stack) * launches(of.stack[0]) / (USUAL.softmax + USUAL.dense)
    )


def test_a_dense_model_has_just_its_layers():
    assert dense_layers(card(GQA, FFN, layers=17)) == 17


def test_a_latent_layer_takes_its_own_time_beside_its_kernels():
    tuning = Tuning(prompt_layer_s=1.0, latent_layer_s=10.0)

    assert launching_s(card(GQA, FFN, layers=3), tuning) == 3.0
    assert launching_s(card(MLA, FFN, layers=3), tuning) == pytest.approx(
        3 * (USUAL.latent + USUAL.dense) / (USUAL.softmax + USUAL.dense) + 30.0
    )


SEEING = card(GQA, FFN).model_copy(update={"vision_params": 1})


@pytest.mark.parametrize(
    ("model", "generation", "engine", "tokens"),
    [
        (LLAMA_8B, "hopper", "sglang", np.inf),
        (KINDS["mla"], "blackwell_dc", "sglang", 2048),
        (LLAMA_8B, "hopper", "sglang-0.5.9", 0),
        (LLAMA_8B, "cdna4", "sglang", 0),
        (SEEING, "hopper", "sglang", 0),
        (LLAMA_8B, "hopper", "vllm", 512),
        (KINDS["mla"], "blackwell_dc", "vllm", 512),
        (catalog.find("gpt-oss-20b")[0], "hopper", "vllm", 1024),
        (LLAMA_8B, "hopper", "vllm-0.6", 0),
        (LLAMA_8B, "hopper", "trtllm", 0),
    ],
)
def test_engines_capture_prompts_where_their_documentation_says_so(model, generation, engine, tokens):
    assert graph_tokens(model, generation, engine) == tokens


@pytest.mark.parametrize(
    ("engine", "kind", "tokens", "told", "design", "left"),
    [
        ("sglang", "mla", 2048, None, {}, 0.25),
        ("sglang", "mla", 2049, None, {}, 1.0),
        ("sglang", "gqa", 8192, None, {}, 0.25),
        ("sglang", "gqa", 8192, None, {"pp": 2}, 1.0),
        ("sglang", "gqa", 8192, None, {"attn_dp": 2}, 1.0),
        ("vllm", "gqa", 512, None, {"attn_dp": 2}, 0.25),
        ("vllm", "gqa", 513, None, {}, 1.0),
        ("vllm", "gqa", 513, 2048.0, {"pp": 2}, 0.25),
        ("vllm", "gqa", 512, 0.0, {}, 1.0),
        ("trtllm", "gqa", 512, None, {}, 1.0),
        ("trtllm", "gqa", 8192, 8192.0, {"attn_dp": 2}, 0.25),
    ],
)
def test_a_captured_step_keeps_its_share_of_the_launches(engine, kind, tokens, told, design, left):
    model, prompts = KINDS.get(kind, LLAMA_8B), Load.of(0, 0, tokens, 0)
    designs = replace(tensor_parallel(2), **{name: np.array([n]) for name, n in design.items()})

    def server(layer_s):
        base = replace(Tuning(), prompt_layer_s=layer_s, latent_layer_s=0.0, captured=0.25)
        return cost(model, engine=engine, by=Calibration(base=base), told=Told(graph_tokens=told))

    busy = server(1e4)  # so long that no kernels show beside it
    launched = busy.step_s(designs, prompts)[0] - server(0.0).step_s(designs, prompts)[0]
    assert busy.launching_s >= 1e4 * dense_layers(model)
    assert launched == pytest.approx(left * busy.launching_s, rel=1e-4)


def test_launching_hides_behind_kernels_that_take_longer():
    """To 100 ms a tenth of that adds a part in 800, as much a third; ten times as much hides them."""
    kernels = np.full(4, 0.1)
    assert hidden(kernels, 0.0).tolist() == kernels.tolist()
    assert hidden(kernels, np.array([0.0, 0.01, 0.1, 1.0])) == pytest.approx(
        [0.1, 0.1001264, 0.1319508, 1.001264], rel=1e-6
    )


@pytest.mark.parametrize(("tokens", "least", "most"), [(128, 0.6, 0.7), (8192, 0.0, 0.02)])
def test_a_step_of_a_long_prompt_takes_hardly_longer_to_be_launched(tokens, least, most):
    """20 ms of launches add two thirds of themselves to 7.5 ms of kernels, next to nothing to 170 ms."""
    designs, prompts = tensor_parallel(1), Load.of(0, 0, tokens, 0)

    def step_s(layer_s):
        by = Calibration(base=replace(Tuning(), prompt_layer_s=layer_s))
        return cost(LLAMA_8B, engine="trtllm", by=by).step_s(designs, prompts)[0]

    launches = 20e-3 / dense_layers(LLAMA_8B)
    share = (step_s(launches) - step_s(0.0)) / 20e-3
    assert least < share < most


@pytest.mark.parametrize(("engine", "each_s"), [("sglang", 50e-6), ("vllm", 0.0), ("trtllm", 0.0)])
def test_a_host_that_computes_prompts_first_does_its_work_for_the_others_beside_them(engine, each_s):
    """They wait while it hands out their tokens and makes up their next step, both of a step with prompts."""
    server, designs = cost(LLAMA_8B, engine=engine, told=Told(graph_tokens=0.0)), tensor_parallel(1)
    alone, beside = (server.launching(Load.of(n, 500, 512, 0), designs)[0] for n in (0, 100))

    assert beside - alone == pytest.approx(100 * each_s)

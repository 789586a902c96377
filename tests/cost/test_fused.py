"""Norms beside all-reduces and quantisation before GEMMs: what steps take more where they are kernels of
their own, and where not."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from planner.cost import fused
from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.efficiency.reading import Chip
from planner.cost.eras import LATE_ERAS
from planner.cost.fused import APART_S, MOST_TOKENS, norm_apart_s
from planner.cost.tuning import Tuning
from tests.cost.samples import (
    BF16,
    GQA,
    KINDS,
    LINEAR,
    LLAMA_8B,
    MLA,
    MOE,
    SPARSE_MOE,
    card,
    cost,
    tensor_parallel,
)

RECURRENT = card(LINEAR, MOE, 20)
PLAIN = Calibration(base=replace(Tuning(), messages=1.0, message_wait_s=0.0, prompt_layer_s=0.0))


def of(architecture, model=SPARSE_MOE):
    """The model as the engine knows it by that class."""
    return model.model_copy(update={"architecture": architecture})


DEEPSEEK = of("DeepseekV3ForCausalLM", KINDS["mla"])
QWEN3 = of("Qwen3MoeForCausalLM")
QWEN3_5 = of("Qwen3_5MoeForConditionalGeneration", RECURRENT)
MINIMAX = of("MiniMaxM2ForCausalLM")


@pytest.mark.parametrize(
    ("model", "generation", "engine", "apart"),
    [
        (LLAMA_8B, "hopper", "sglang", True),  # dense
        (SPARSE_MOE, "hopper", "sglang", False),  # of no architecture, as most with experts
        (SPARSE_MOE, "ada", "sglang", True),
        (DEEPSEEK, "blackwell_dc", "sglang", False),
        (DEEPSEEK, "blackwell_dc", "sglang-0.5.3", False),
        (DEEPSEEK, "hopper", "sglang-0.5.6", True),
        (DEEPSEEK, "hopper", "sglang-0.5.9", False),
        (QWEN3, "blackwell_dc", "sglang-0.5.6", True),
        (QWEN3, "blackwell_dc", "sglang-0.5.9", False),
        (QWEN3_5, "blackwell_dc", "sglang", False),
        (QWEN3_5, "blackwell_dc", "sglang-0.5.9", True),
        (MINIMAX, "blackwell_dc", "sglang", True),  # never on the list
        (MINIMAX, "cdna4", "sglang", False),  # in its own factors
        (MINIMAX, "hopper", "vllm", False),
        (MINIMAX, "hopper", "trtllm-1.0", False),
    ],
)
def test_norms_stand_apart_where_sglang_does_not_join_them(model, generation, engine, apart):
    alone_s, grouped_s = norm_apart_s(model, generation, engine)

    assert alone_s == (APART_S if apart else 0.0)
    assert grouped_s == (0.0 if generation == "cdna4" or not engine.startswith("sglang") else APART_S)


def test_lists_of_architectures_only_grow():
    """An era whose list lacks what an older one had would be slower by a slip."""
    lists = [fused.LISTED[era] for era in ("sglang-0.5.3", "sglang-0.5.6", "sglang-0.5.9", "sglang")]

    assert all(old <= new for old, new in pairwise(lists))
    assert set(fused.LISTED) == {key for _, _, key in LATE_ERAS["sglang"]} | {"sglang"}


def test_attention_dp_ranks_join_none():
    """All-reduces of 64 tokens over four ranks, alone and as one of two groups."""
    layers = cost(DEEPSEEK, "h100-sxm", "sglang", by=PLAIN).layers
    alone, grouped = (layers.summed_s(np.array([64.0]), np.array([4]), n)[0] for n in (1, np.array([2])))

    assert grouped - alone == pytest.approx(APART_S)


def steps(monkeypatch, load, tp):
    """Seconds of a step of a dense model on SGLang: as it is, and as if all were joined."""
    design = tensor_parallel(tp)
    apart = cost(LLAMA_8B, engine="sglang", by=PLAIN).step_s(design, load)[0]
    monkeypatch.setattr(fused, "APART_S", 0.0)
    return apart, cost(LLAMA_8B, engine="sglang", by=PLAIN).step_s(design, load)[0]


@pytest.mark.parametrize("tokens", [1, 64, MOST_TOKENS])
def test_each_layer_has_two(monkeypatch, tokens):
    apart, joined = steps(monkeypatch, Load.of(tokens, 1000), 4)

    assert apart - joined == pytest.approx(2 * 32 * APART_S)


@pytest.mark.parametrize(
    ("load", "tp"), [(Load.of(64, 1000), 1), (Load.of(0, 0, MOST_TOKENS + 1, 1000), 4)], ids=["tp 1", "wide"]
)
def test_nobody_joins_what_is_not_sent_or_too_wide(monkeypatch, load, tp):
    apart, joined = steps(monkeypatch, load, tp)

    assert apart == joined


def test_a_run_of_an_older_release_is_slower_by_its_norms():
    """20 layers with recurrent mixers: all-reduces of 0.5.9 have 40 norms of their own."""
    load, design = Load.of(8, 1000), tensor_parallel(8)
    old, new = (
        cost(QWEN3_5, "b200-sxm", engine, by=PLAIN).step_s(design, load)[0]
        for engine in ("sglang-0.5.9", "sglang")
    )

    assert old - new == pytest.approx(40 * APART_S)
    assert np.isfinite(old)


def test_what_norms_and_activations_write_is_quantised_by_them_under_vllm(monkeypatch):
    """By hand: of a layer's 2 x 4,096 inputs after norms and 14,336 after the activation, a token's are read
    in 2 bytes and written in 1, at the rate of the kernel tables."""
    used, load, tokens = replace(BF16, gemm="fp8"), Load.of(0, 0, 4096, 2048), 4096
    plain = Calibration(base=replace(Tuning(), prompt_layer_s=0.0))  # nothing to launch that kernels hide
    monkeypatch.setattr(Chip, "most", lambda chip, precision: chip.peak(precision)[0])  # nor a best product
    joined = cost(LLAMA_8B, used=used, by=plain)
    fit, bandwidth = joined.fits.fit("gemm", "fp8"), joined.chip.bytes_per_s
    by_hand = 32 * tokens * (2 * 4096 + 14336) * 3 / (fit.quantise * bandwidth)
    seconds = joined.step_s(tensor_parallel(1), load)[0]
    monkeypatch.setattr(fused, "QUANTISED", ())
    apart = cost(LLAMA_8B, used=used, by=plain).step_s(tensor_parallel(1), load)[0]

    assert by_hand > 1e-3
    assert apart - seconds == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize(("engine", "kernels"), [("sglang", 2), ("vllm", 0)])
@pytest.mark.parametrize("tp", [1, 4])
def test_norms_over_the_heads_of_all_ranks_are_an_all_reduce_between_two_small_kernels(tp, engine, kernels):
    """By hand, of 64 tokens: two sums of squares each, and four passes over a rank's part of them; vLLM's
    compiler joins the kernels with others."""
    plain = card(GQA, MOE, 1)
    joined = card(GQA.model_copy(update={"joint_norm": True}), MOE, 1)
    design, load = tensor_parallel(tp), Load.of(64, 1000).over(1, 1.0)
    one, other = (cost(model, engine=engine, by=PLAIN).layers for model in (plain, joined))
    longer = other.mixer_s(joined.stack[0], load, design) - one.mixer_s(plain.stack[0], load, design)

    passes_s = 4 * 2 * 64 * plain.hidden / tp / (one.glue.memory * one.chip.bytes_per_s)
    sums_s = one.links.all_reduce_s(np.array([2 * 4 * 64.0]), np.array([tp]))
    assert longer == pytest.approx(sums_s + (kernels * one.glue.t0_s + passes_s if kernels else 0.0))


@pytest.mark.parametrize(
    ("engine", "device", "precision", "kernels"),
    [
        ("trtllm", "h200-sxm", "fp8_block", 4),
        ("trtllm", "b200-sxm", "fp8_block", 2),
        ("trtllm", "b200-sxm", "nvfp4", 0),
        ("trtllm", "h200-sxm", "bf16", 0),
        ("sglang", "h200-sxm", "fp8_block", 0),
    ],
)
def test_products_in_the_latent_form_have_small_kernels_around_them(
    monkeypatch, engine, device, precision, kernels
):
    """By hand, of 64 tokens that decode and of a prompt, which has none: each reads and writes a head's
    128 + 512 values."""
    model, design = card(MLA, MOE, 1, 7168), tensor_parallel(8)
    used = replace(BF16, gemm=precision)

    def layer_s(*work):
        layers = cost(model, device, engine, used, PLAIN).layers
        return layers, layers.mixer_s(model.stack[0], Load.of(*work).over(1, 1.0), design)[0]

    (layers, decoding), (_, prompt) = layer_s(64, 1000), layer_s(0, 0, 64, 0)
    monkeypatch.setattr(fused, "ABSORBING", {})
    (_, plain), (_, plain_prompt) = layer_s(64, 1000), layer_s(0, 0, 64, 0)

    passes_s = 2 * 2 * 64 * 128 * (128 + 512) / 8 / (layers.glue.memory * layers.chip.bytes_per_s)
    by_hand = kernels * layers.glue.t0_s + passes_s if kernels else 0.0
    assert decoding - plain == pytest.approx(by_hand, abs=1e-12)
    assert prompt == plain_prompt

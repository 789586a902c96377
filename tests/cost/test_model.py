"""Step times: by hand, against the roofline, and as a function of every argument."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo.schema import DenseFfn
from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.launches import hidden
from planner.cost.tuning import Tuning
from planner.designs.shape import Precisions
from planner.engines import NAMES as ENGINES
from tests.cost.samples import (
    BF16,
    GQA,
    KINDS,
    LLAMA_8B,
    LLAMA_70B,
    SPARSE_MOE,
    card,
    cost,
    designs,
    tensor_parallel,
)

FLOATS = {"batch": st.floats(1, 512), "context": st.floats(16, 60000), "new": st.floats(0, 8192)}
DESIGNS = designs((1, 1, 1, 1, 1), (8, 1, 1, 8, 1), (4, 2, 1, 4, 1), (1, 1, 8, 1, 8), (2, 1, 4, 1, 8))
SOME = settings(max_examples=25)


def test_llama_8b_decodes_a_token_on_an_h100_in_seven_milliseconds():
    """By hand: 15.0 GB of weights without the input embedding at 3.35 TB/s are 4.5 ms; GEMMs reach 0.86 of
    that rate, and 32 layers of 4 GEMMs, an attention call and 4 small kernels add some 35 us each: 5.2 + 1.2
    + 0.2 ms of engine."""
    step = cost(by=Calibration()).step_s(tensor_parallel(1), Load.of(1, 1000))[0]

    assert step == pytest.approx(7.0e-3, rel=0.07)


def test_a_prompt_of_4096_on_llama_8b_takes_its_flops():
    """By hand: 2 * 7.0e9 * 4096 + 4*32*128*32 layers * 4096^2/2 = 61.7 TFLOP; 0.62 of 989 TFLOP/s gives 0.1
    s."""
    step = cost(by=Calibration()).step_s(tensor_parallel(1), Load.of(0, 0, 4096, 2048))[0]

    assert step == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize(
    ("engine", "device", "times"), [("sglang", "h200", 1.28), ("sglang", "b200", 1.0), ("vllm", "h200", 1.0)]
)
def test_steps_of_attention_dp_ranks_take_longer_on_sglang_and_hopper(engine, device, times):
    """All but the engine's own seconds of a step, and only where there are such ranks."""
    waits, none = (
        cost(SPARSE_MOE, device=device, engine=engine, by=Calibration(base=replace(Tuning(), attn_dp=x)))
        for x in (1.0, 1.0 / times)
    )
    ranks, alone = designs((1, 1, 8, 1, 8)), designs((8, 1, 1, 8, 1))
    load, own_s = Load.of(64, 1000), Tuning().step_s + 64 * Tuning().sequence_s

    with_waits, without = (float(model.step_s(ranks, load)[0]) - own_s for model in (waits, none))
    assert with_waits == pytest.approx(times * without)
    assert waits.rank_waits == times
    assert waits.step_s(alone, load) == pytest.approx(none.step_s(alone, load))


MIXED = Load.of(np.array([64.0, 0.0, 64.0]), 1000.0, np.array([0.0, 2048.0, 2048.0]), 1024.0)


def test_a_load_in_turn_is_what_decodes_and_the_prompts_beside_it():
    rest, at, prompts = MIXED.in_turn(np.ones(3, dtype=bool))

    assert at.tolist() == [2]
    assert rest.sequences.tolist() == [64, 0, 64]
    assert rest.tokens.tolist() == [0, 2048, 0]
    assert (prompts.sequences.tolist(), prompts.tokens.tolist()) == ([0], [2048])
    assert prompts.keys.tolist() == [1024]
    assert MIXED.tokens.tolist() == [0, 2048, 2048]


def mixed_s(engine, layer_s):
    """Seconds of a step of 64 sequences, of a prompt, and of both; a dense layer is launched in `layer_s`."""
    by = Calibration(base=replace(Tuning(), prompt_layer_s=layer_s, latent_layer_s=0.0, captured=1.0))
    return cost(LLAMA_8B, engine=engine, by=by).step_s(tensor_parallel(1, 1, 1), MIXED)


def test_prompts_that_go_first_have_weights_read_again():
    """By hand: 15.0 GB at 3.35 TB/s are 4.5 ms, which an engine that mixes takes once; handing out
    the tokens of 64 sequences and making up their next step hides behind them."""
    decoding, computing, apart = mixed_s("sglang", 0.0)
    assert apart == pytest.approx(hidden(decoding + computing, 64 * 50e-6), rel=1e-5)

    decoding, computing, mixed = mixed_s("vllm", 0.0)
    assert 0.003 < decoding + computing - mixed < 0.007


def test_the_host_launches_prompts_while_the_gpu_decodes():
    """As long as both steps' kernels: it adds a third of itself, as to one step (`hidden`)."""
    decoding, computing, _ = mixed_s("sglang", 0.0)
    apart_s = decoding + computing
    launched_s = mixed_s("sglang", apart_s / 34)[2]  # 32 layers of 12 kernels, their norms apart

    assert launched_s == pytest.approx(hidden(apart_s, 32 * 12 / 11 * apart_s / 34 + 64 * 50e-6), rel=1e-2)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("device", ["h100-sxm", "l40s", "b200-sxm", "mi300x", "rtx-4090"])
def test_no_step_beats_the_roofline(name, engine, device):
    model = cost(KINDS[name], device, engine)
    for work in ((1, 100, 0, 0), (256, 8000, 0, 0), (0, 0, 8192, 4096), (64, 2000, 2048, 9000)):
        floor, step = model.floor_s(DESIGNS, Load.of(*work)), model.step_s(DESIGNS, Load.of(*work))
        assert (step >= floor).all()
        assert (floor > 0).all()


def assert_more_takes_no_less(model, batch, context, new, more):
    """Of sequences, context or prompt, each alone."""
    here = model.step_s(DESIGNS, Load.of(batch, context, new, context))

    assert (model.step_s(DESIGNS, Load.of(batch * more, context, new, context)) >= here * (1 - 1e-9)).all()
    assert (model.step_s(DESIGNS, Load.of(batch, context * more, new, context)) >= here * (1 - 1e-9)).all()
    assert (model.step_s(DESIGNS, Load.of(batch, context, new * more, context)) >= here * (1 - 1e-9)).all()
    assert (model.step_s(DESIGNS, Load.of(batch, context, new, context * more)) >= here * (1 - 1e-9)).all()


@pytest.mark.parametrize("name", KINDS)
@SOME
@given(**FLOATS, more=st.floats(1, 3))
def test_more_sequences_context_or_prompt_never_take_less_time(name, batch, context, new, more):
    assert_more_takes_no_less(cost(KINDS[name]), batch, context, new, more)


@pytest.mark.parametrize("name", KINDS)
def test_many_points_at_once_are_each_point_alone(name):
    rng = np.random.default_rng(1)
    model, pick = cost(KINDS[name]), rng.integers(0, len(DESIGNS), 40)
    many = DESIGNS.take(pick)
    work = [rng.uniform(0, high, 40) for high in (300, 9000, 4096, 9000)]
    together = model.step_s(many, Load.of(*work))
    alone = [model.step_s(many.take(np.array([i])), Load.of(*(x[i] for x in work)))[0] for i in range(40)]

    assert together == pytest.approx(alone)


@pytest.mark.parametrize("name", KINDS)
@SOME
@given(**FLOATS)
def test_the_linear_step_is_exact_at_its_point_and_never_negative(name, batch, context, new):
    model, new = cost(KINDS[name]), max(new, 16.0)
    step = model.step_times(DESIGNS, Load.of(batch, context, new))
    decode = step.t0_s + batch * (step.sequence_s + context * step.context_s_per_token)
    prompt = new * (step.prefill_s_per_token + context / 2 * step.prefill_s_per_pair)

    assert decode == pytest.approx(model.step_s(DESIGNS, Load.of(batch, context)))
    assert decode + prompt == pytest.approx(
        model.step_s(DESIGNS, Load.of(batch, context, new, context / 2)), rel=0.02
    )
    assert all(
        (getattr(step, field) >= 0).all()
        for field in (
            "t0_s",
            "prefill_s_per_token",
            "prefill_s_per_pair",
            "sequence_s",
            "context_s_per_token",
        )
    )


def test_the_linear_step_holds_nearby():
    """A fifth more or fewer sequences: within 2 % on a dense model."""
    model = cost(LLAMA_70B)
    some = tensor_parallel(2, 4, 8)
    step = model.step_times(some, Load.of(64, 2000, 2048))
    for batch in (51, 77):
        linear = step.t0_s + batch * (step.sequence_s + 2000 * step.context_s_per_token)
        assert linear == pytest.approx(model.step_s(some, Load.of(batch, 2000)), rel=0.02)


@pytest.mark.parametrize("sequences", [1.5, 5.0, 7.7, 8.0, 8.2, 12.0])
def test_the_line_of_a_pipeline_that_is_hardly_full_takes_no_less_for_one_sequence_than_that_does(sequences):
    """Else the last of eight sequences would make nearly all of the round, and fewer next to nothing."""
    model, deep = cost(LLAMA_70B), designs((1, 8, 1, 1, 1))
    step = model.step_times(deep, Load.of(sequences, 1000, 2048))
    alone_s = model.step_s(deep, Load.of(1, 1000))

    assert step.t0_s + step.sequence_s + 1000 * step.context_s_per_token >= alone_s * (1 - 1e-9)


def test_tensor_parallelism_reads_less_on_each_gpu():
    model = cost(LLAMA_70B)
    floors = model.floor_s(tensor_parallel(1, 2, 4, 8), Load.of(1, 1000))
    steps = model.step_s(tensor_parallel(1, 2, 4, 8), Load.of(1, 1000))

    assert (np.diff(floors) < 0).all()
    assert (np.diff(steps) < 0).all()
    assert (steps[:-1] / steps[1:] < 2).all()  # never better than linear


def test_a_full_pipeline_takes_its_fullest_stage_for_every_micro_batch():
    """Two stages of 16 layers: a round of 64 sequences is two micro-batches of 32 on the stage with the LM
    head."""
    model, two = cost(), designs((1, 2, 1, 1, 1))
    half = cost(card(GQA, DenseFfn(inner=14336), layers=16))
    hops = model.links.hop_s(np.array([32 * 4096 * 2.0, 0.0]), two.gpus).sum()  # a token's id comes back
    stage = half.step_s(tensor_parallel(1), Load.of(32, 1000))[0]

    assert model.step_s(two, Load.of(64, 1000))[0] == pytest.approx(2 * stage + hops)


@pytest.mark.parametrize("era", ["vllm-0.6", "trtllm-0.12", "sglang-0.5.6"])
def test_stages_of_an_engine_that_takes_turns_all_work_for_every_micro_batch(era):
    """Two stages and 64 sequences: twice a batch of 32 through the whole model, and its hops."""
    model, two, whole = cost(engine=era), designs((1, 2, 1, 1, 1)), tensor_parallel(1)
    hops = model.hops_s(two, Load.of(np.full(1, 32.0)))[0]
    each = model.step_s(whole, Load.of(32, 1000))[0]

    assert model.step_s(two, Load.of(64, 1000))[0] == pytest.approx(2 * (each + hops))
    assert model.concurrent(two) == 1
    assert cost(engine=era.split("-")[0]).concurrent(two) == 2


def test_the_host_of_llama_cpp_takes_its_time_at_every_boundary_of_stages():
    four, load = designs((1, 4, 1, 1, 1)), Load.of(np.full(1, 1.0))
    own, other = (cost(engine=engine).hops_s(four, load)[0] for engine in ("llama.cpp", "sglang"))

    assert own - other == pytest.approx(3 * 2e-4)


def test_a_lone_sequence_passes_each_stage_once():
    """With one sequence in flight, stages add up to the whole model: depth costs hops only."""
    model = cost()
    one, deep = model.step_s(designs((1, 1, 1, 1, 1), (1, 4, 1, 1, 1)), Load.of(1, 1000))

    assert one < deep < 1.03 * one


def test_crossing_nodes_costs_more_than_staying_inside():
    inside, across = cost(LLAMA_70B).step_s(tensor_parallel(8, 16), Load.of(64, 2000))
    rack = cost(LLAMA_70B, "gb200").step_s(tensor_parallel(8, 16), Load.of(64, 2000))

    assert rack[1] < rack[0]  # 16 GPUs of an NVL72 share one domain
    assert across / inside > rack[1] / rack[0]


def test_fp8_weights_decode_faster_than_bf16():
    fp8 = replace(BF16, gemm="fp8")

    assert cost(used=fp8).step_s(tensor_parallel(1), Load.of(8, 1000)) < cost().step_s(
        tensor_parallel(1), Load.of(8, 1000)
    )


def test_a_window_makes_long_context_free():
    model = cost(KINDS["window"])
    short, long = (model.step_s(tensor_parallel(1), Load.of(8, context))[0] for context in (128, 100_000))

    assert long == pytest.approx(short)


def test_sparse_attention_pays_for_scoring_but_not_for_reading_long_contexts():
    """Beyond top_k a decoded token reads 2048 latents whatever the context; the scorer's keys still grow."""
    dense, sparse = cost(KINDS["mla"]), cost(KINDS["sparse"])
    one = designs((1, 1, 8, 1, 8))
    long, short = ([m.step_s(one, Load.of(64, ctx))[0] for m in (dense, sparse)] for ctx in (100_000, 4000))
    growth = [a - b for a, b in zip(long, short, strict=True)]

    assert 0 < growth[1] < 0.7 * growth[0]


def test_uneven_attention_dp_ranks_slow_a_step():
    """Eight single-GPU ranks of 8 sequences against one tp 8 server of 64: the same experts, and a wait for
    the fullest."""
    model = cost(SPARSE_MOE)
    factor = model.tuning.attn_dp
    plain = cost(SPARSE_MOE)
    plain.tuning = replace(plain.tuning, attn_dp=1.0)
    dp = designs((1, 1, 8, 1, 8))
    own = model.engine_s(dp, np.array([8.0]))

    assert model.step_s(dp, Load.of(8, 1000)) - own == pytest.approx(
        factor * (plain.step_s(dp, Load.of(8, 1000)) - own)
    )


def test_the_kv_cache_of_a_prompt_is_what_crosses_to_the_decoder():
    """Llama-3.1-8B: 32 layers * 2 * 8 heads * 128 * 2 bytes = 131,072 a token."""
    assert cost().transfer_bytes(np.array([1000.0]))[0] == 131_072_000


def test_watts_rise_with_use_up_to_the_limit():
    model, one = cost(device="h200-sxm"), tensor_parallel(1, 4)
    idle, half, busy = (model.watts(one, Load.of(64, 1000), use) for use in (0.0, 0.5, 1.0))
    prompts = model.watts(one, Load.of(0, 0, 8192, 4096), 1.0)

    assert (idle < half).all()
    assert (half < busy).all()
    assert (busy < prompts).all()
    assert (prompts <= 700 * one.gpus).all()


def test_borrowed_efficiencies_widen_the_band():
    """Measured device, then its generation, then the datasheet."""
    sigmas = [cost(device=device).sigma_tpot for device in ("h100-sxm", "h100-pcie", "gaudi3")]

    assert sigmas == sorted(sigmas)
    assert len(set(sigmas)) == 3


@pytest.mark.parametrize("weights", ["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo", "int8"])
@pytest.mark.parametrize("kv", ["bf16", "fp8", "nvfp4"])
def test_every_precision_has_a_time_on_every_kind_of_device(weights, kv):
    used = Precisions(weights, weights, "bf16", kv)
    for device in ("a100-sxm", "b60", "t4", "m2-ultra", "gaudi3"):
        for engine in ("vllm", "llama.cpp"):
            assert np.isfinite(
                cost(SPARSE_MOE, device, engine, used).step_s(DESIGNS, Load.of(8, 1000, 100, 50))
            ).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_no_whole_step_computes_faster_than_the_best_product_on_an_h100(engine):
    """Llama-3.1-70B in bf16 over 4 stages, prompts of 8,192 tokens in each of them: 2 x 68.5e9 x 8,192 FLOPs
    of matrices and 4 x 64 x 128 x 80 layers x 8,192^2 / 2 of attention, which is 1.21e15 a prompt. The best
    product of bf16 that was measured on an H100 is 794.5 TFLOP/s, 0.8 of the peak."""
    design = designs((1, 4, 1, 1, 1))
    step_s = cost(LLAMA_70B, engine=engine).step_s(design, Load.of(0, 0, 4 * 8192, 4096))[0]

    assert 4 * 1.21e15 / 4 / step_s < 794.5e12


def test_stages_that_take_turns_have_the_engines_seconds_once_a_micro_batch():
    """TensorRT-LLM 0.12 over four stages with eight sequences: four micro-batches, one after the other."""
    at = designs((1, 4, 1, 1, 1))
    model = cost(LLAMA_8B, engine="trtllm-0.12")

    by_hand = 4 * model.tuning.step_s + 8 * model.tuning.sequence_s
    assert model.takes_turns
    assert model.engine_s(at, np.array([8.0]))[0] == pytest.approx(by_hand)


def test_llama_cpp_decodes_all_sequences_in_one_micro_batch():
    """Two stages of half the layers: 64 sequences pass both one after the other, as on one GPU with both but
    for the hop; engines that cut them have half of them in each stage at any time, and are done sooner."""
    load, none = Load.of(64.0, 4000.0), Load.of(1.0, 1.0)
    one, two = tensor_parallel(1), designs((1, 2, 1, 1, 1))
    whole, cut = cost(engine="llama.cpp"), cost(engine="vllm")

    hop_s = whole.step_s(two, none)[0] - whole.step_s(one, none)[0]
    assert whole.step_s(two, load)[0] == pytest.approx(whole.step_s(one, load)[0] + hop_s, rel=0.02)
    assert cut.step_s(two, load)[0] < 0.8 * cut.step_s(one, load)[0]
    assert whole.engine_s(two, np.array([64.0])) == whole.engine_s(one, np.array([64.0]))


def test_prompts_never_shorten_a_step_of_llama_cpp_in_a_pipeline():
    two, new = designs((1, 2, 1, 1, 1)), np.array([1.0, 64.0, 1024.0])
    model = cost(engine="llama.cpp")

    alone = model.step_s(two, Load.of(64.0, 4000.0))[0]
    with_prompts = [model.step_s(two, Load.of(64.0, 4000.0, n, n / 2))[0] for n in new]
    assert alone < with_prompts[0] < with_prompts[1] < with_prompts[2]

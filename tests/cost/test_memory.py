"""Memory per GPU: against arithmetic by hand, logs of real engines, and what must hold for any model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo import catalog
from model_zoo.schema import Attention, LinearAttention, Mla, ModelCard, Run
from planner.cost.memory import (
    default_tokens_per_step,
    kv_bytes_per_seq,
    kv_capacity,
    longest_context,
    room_by_stage,
)
from planner.designs.precision import precisions
from planner.errors import InputError
from planner.rules.designs import valid_designs
from tests.cost.memory_cases import (
    ENGINES,
    GIB,
    SMALL,
    SMALL_LAYER_BYTES,
    SMALL_TABLE_BYTES,
    cards,
    changed,
    designs,
    per_replica,
    room,
    vllm,
)

# Acceptance: Llama-3.1-70B in 16 bit, by hand


def test_llama_70b_in_16_bit_does_not_fit_one_80_gb_card():
    assert vllm(catalog.find("llama-3.1-70b")[0], 80 * GIB, (1, 1)).kv_bytes[0] < -60e9


def test_llama_70b_in_16_bit_fits_two_80_gb_cards_with_the_room_that_hand_arithmetic_gives():
    """vLLM may use 92 % of the 79.2 GiB it sees; from it go half the weights, sampling of 256 sequences (41
    bytes a logit), 1.5 GiB of NCCL and 0.6 GiB of graphs."""
    weights = 2 * 70_553_706_496 / 2
    by_hand = 0.92 * 0.99 * 80 * GIB - weights - 41 * 256 * 128_256 - 1.5 * GIB - 0.6 * GIB

    memory = vllm(catalog.find("llama-3.1-70b")[0], 80 * GIB, (2, 1))

    assert memory.weights_bytes[0] == pytest.approx(weights, rel=1e-3)
    assert memory.kv_bytes[0] == pytest.approx(by_hand, rel=0.02)
    assert memory.kv_bytes[0] > 0


def test_the_parts_add_up_to_the_capacity():
    for engine in ENGINES:
        m = room(SMALL, 16 * GIB, designs((1, 1), (1, 3)), precisions(SMALL), engine, 2048)

        parts = m.weights_bytes + m.activation_bytes + m.reserve_bytes + m.kv_bytes
        assert parts == pytest.approx(m.capacity_bytes)
        assert m.capacity_bytes == pytest.approx(16 * GIB)


# Longest context, by hand, for each kind of attention


def longest(card: ModelCard, device_memory_bytes: float, *shape: int) -> tuple[int, float]:
    """Longest context without the model's own limit, and the KV room in bytes."""
    card = changed(card, {"max_context": 10**8})
    d, p = designs(shape), precisions(card)
    by_stage = room_by_stage(card, device_memory_bytes, d, p, "vllm", 8192)
    return int(longest_context(card, d, p, "vllm", by_stage)[0]), float(by_stage.kv_bytes[0, 0])


@pytest.mark.parametrize(
    ("name", "shape", "weights", "grows", "fixed"),
    [
        # GQA: 80 layers x 8 KV heads x (128 + 128) x 2 bytes, over tp 4
        ("llama-3.1-70b", (4, 1), 2 * 70.55e9 / 4, 80 * 8 * 256 * 2 / 4, 0),
        # MLA: 61 layers x 576 x 2 bytes, whole on each rank; 671 B parameters and the 11.6 B of MTP in fp8,
        # embedding and head in bf16
        ("deepseek-v3", (8, 1), (671.0e9 + 11.6e9 + 2 * 0.927e9) / 8, 61 * 576 * 2, 0),
        # windows: 10 of 62 layers keep all of the context, 52 keep 1024 tokens; vision tower whole
        (
            "gemma-3-27b",
            (2, 1),
            2 * 27.0e9 / 2 + 2 * 0.42e9,
            10 * 16 * 256 * 2 / 2,
            52 * 1024 * 16 * 256 * 2 / 2,
        ),
        # hybrid: 16 of 64 layers cache, 48 keep 48 x 128 x 128 fp32 states and 10240 x 3 convolution inputs
        (
            "qwen3.5-27b",
            (2, 1),
            2 * 26.9e9 / 2 + 0.42e9 + 2 * 0.46e9,
            16 * 4 * 512 * 2 / 2,
            48 * (4 * 48 * 128 * 128 + 2 * 3 * 10240) / 2,
        ),
    ],
)
def test_longest_context_agrees_with_hand_arithmetic(
    name: str, shape: tuple[int, ...], weights: float, grows: float, fixed: float
):
    card = catalog.find(name)[0]
    sampling = 41 * 256 * card.vocab
    by_hand = 0.92 * 0.99 * 180e9 - weights - sampling - 2.1 * GIB

    context, kv_room = longest(card, 180e9, *shape)

    assert kv_room == pytest.approx(by_hand, rel=0.05)
    assert context == pytest.approx((by_hand - fixed) / grows, rel=0.05)


def test_longest_context_is_exactly_the_last_one_that_fits():
    d, p = designs((1, 1), (1, 3)), precisions(SMALL)
    card = changed(SMALL, {"max_context": 10**7})
    by_stage = room_by_stage(card, 2 * GIB, d, p, "llama.cpp", 512)
    most = longest_context(card, d, p, "vllm", by_stage).astype(float)

    for i, context in enumerate(most):
        held = [kv_bytes_per_seq(card, d, p, "vllm", np.array([context + more]))[i, 0] for more in (0, 1)]
        assert 0 < context < 10**7
        assert held[0] <= by_stage.kv_bytes[i].min() + held[1] - held[0]
        assert kv_capacity(card, d, p, "vllm", by_stage, np.array([context]))[i, 0] == 1
        assert kv_capacity(card, d, p, "vllm", by_stage, np.array([context + 1]))[i, 0] == 0


def test_longest_context_stops_at_the_models_own_and_is_zero_where_weights_do_not_fit():
    d, p = designs((1, 1)), precisions(SMALL)
    large, none = (room_by_stage(SMALL, gib * GIB, d, p, "vllm", 2048) for gib in (80, 0.1))

    assert longest_context(SMALL, d, p, "vllm", large)[0] == SMALL.max_context
    assert longest_context(SMALL, d, p, "vllm", none)[0] == 0
    assert kv_capacity(SMALL, d, p, "vllm", none, np.array([1.0]))[0, 0] == 0


# Cache


def test_an_mla_latent_is_whole_on_every_rank():
    mla = Mla(heads=8, kv_lora_rank=64, qk_nope=16, qk_rope=16, v_head_dim=16)
    card = changed(SMALL, {"mixers": {"a": mla}})

    held = kv_bytes_per_seq(card, designs((1, 1), (8, 1)), precisions(card), "vllm", np.array([1000.0]))

    assert held[:, 0] == pytest.approx(1000 * 6 * (64 + 16) * 2)


def test_windows_saturate_and_recurrent_states_do_not_grow():
    mixers = {
        "w": Attention(heads=8, kv_heads=8, head_dim=32, window=128),
        "s": LinearAttention(key_heads=4, value_heads=4, key_dim=16, value_dim=16),
    }
    card = changed(SMALL, {"mixers": mixers, "layers": [Run(times=3, of=["w/f", "s/f"])]})

    context = np.array([0.0, 64.0, 128.0, 4096.0])
    held = kv_bytes_per_seq(card, designs((1, 1)), precisions(card), "vllm", context)[0]

    states = 3 * (4 * 4 * 16 * 16 + 2 * 3 * (2 * 64 + 64))
    assert held == pytest.approx([states, states + 3 * 64 * 1024, *[states + 3 * 128 * 1024] * 2])


@pytest.mark.parametrize(
    ("engine", "kept"),
    [(None, 128), ("vllm", 128), ("llama.cpp", 128), ("sglang", 800), ("trtllm", 1000), ("trtllm-1.0", 1000)],
)
def test_some_engines_keep_what_lies_before_a_window(engine: str | None, kept: int):
    windows = {
        name: Attention(heads=8, kv_heads=8, head_dim=32, window=w) for name, w in (("w", 128), ("a", None))
    }
    card = changed(SMALL, {"mixers": windows, "layers": [Run(times=3, of=["w/f", "a/f"])]})
    context = np.array([100.0, 1000.0])

    held = kv_bytes_per_seq(card, designs((1, 1)), precisions(card), engine, context)[0]

    assert held == pytest.approx([3 * 1024 * 200, 3 * 1024 * (1000 + kept)])


def test_an_fp8_cache_takes_half():
    context = np.array([1000.0])

    full, half = (
        kv_bytes_per_seq(SMALL, designs((1, 1)), precisions(SMALL, kv=p), "vllm", context)
        for p in ("bf16", "fp8")
    )

    assert half == pytest.approx(full / 2)


def test_cache_is_that_of_the_stage_asked_for_or_of_the_one_that_holds_most():
    d, p, context = designs((1, 4)), precisions(SMALL), np.array([100.0])
    layer = 100 * 8 * 64 * 2  # the stages have 1, 2, 2, 1 layers

    assert kv_bytes_per_seq(SMALL, d, p, "vllm", context)[0, 0] == 2 * layer
    assert kv_bytes_per_seq(SMALL, d, p, "vllm", context, stage=np.array([3]))[0, 0] == layer
    assert room(SMALL, 2 * GIB, d, p, "llama.cpp", 512).stage[0] in (1, 2)


def test_stage_ranges_can_be_given():
    m = room_by_stage(
        SMALL, 16 * GIB, designs((1, 2)), precisions(SMALL), "vllm", 2048, layers=[(0, 1), (1, 6)]
    )

    layers = np.array([1, 5]) * SMALL_LAYER_BYTES + SMALL_TABLE_BYTES
    assert m.weights_bytes[0] == pytest.approx(layers)


# Against what engines logged


def test_vllm_measured_the_same_activations_for_llama_3_8b_at_tp_1_and_2():
    """vLLM pull 10511: "PyTorch activation peak memory 1.26GiB" for both, 256 sequences, 8192 tokens."""
    card = catalog.find("llama-3.1-8b")[0]

    memory = vllm(card, 80 * GIB, (1, 1), (2, 1))

    assert memory.weights_bytes / GIB == pytest.approx([14.96, 7.48], abs=0.02)
    assert memory.activation_bytes / GIB == pytest.approx([1.26, 1.26], abs=0.05)


def test_vllm_left_8_gib_for_qwen3_235b_fp8_on_four_h100():
    """vLLM issue 21348: "Available KV cache memory: 8.11 GiB" at tp 4, 1024 sequences and a share of 0.90
    with graphs outside it: 0.02 of 79.2 GiB less than today's share, 0.6 GiB of graphs more."""
    card = catalog.find("qwen3-235b-a22b-fp8")[0]

    memory = room(card, 80 * GIB, designs((4, 1)), precisions(card), "vllm", 8192, max_sequences=1024)

    assert memory.kv_bytes[0] / GIB - 0.02 * 79.2 + 0.6 == pytest.approx(8.11, abs=1.0)


def test_steps_are_as_large_as_engines_make_them_by_default():
    sizes = [default_tokens_per_step(e, gib * GIB) for e in ("vllm", "sglang") for gib in (16, 48, 80, 180)]

    assert sizes == [2048, 2048, 8192, 16384, 2048, 4096, 8192, 16384]


def test_an_unknown_engine_or_precision_is_refused_with_those_known():
    with pytest.raises(InputError, match="unknown engine `tgi`") as engine:
        room(SMALL, GIB, designs((1, 1)), precisions(SMALL), "tgi", 2048)
    with pytest.raises(InputError, match="unknown precision `fp16x`") as precision:
        precisions(SMALL, "fp16x")

    assert "vllm" in str(engine.value.hint)
    assert "bf16" in str(precision.value.hint)


# For any model


@settings(max_examples=60)
@given(card=cards(), engine=st.sampled_from(ENGINES), gib=st.sampled_from([24.0, 80.0]))
def test_more_gpus_never_leave_less_kv_room_in_the_replica(card: ModelCard, engine: str, gib: float):
    d = valid_designs(card, engine, 16, 32)
    by_stage, total = per_replica(card, d, precisions(card), engine, gib * GIB)

    fits = (by_stage.kv_bytes > 0).all(axis=1)
    shape = np.stack([d.tp, d.pp, d.attn_dp, d.moe_tp, d.ep], axis=1)
    for i in np.flatnonzero(fits):
        grown = (shape >= shape[i]).all(axis=1) & (d.gpus > d.gpus[i])
        assert (total[grown] >= total[i]).all()


@settings(max_examples=60)
@given(card=cards(), contexts=st.lists(st.integers(0, 10**5), min_size=2, max_size=4))
def test_cache_never_shrinks_with_context_and_capacity_never_grows(card: ModelCard, contexts: list[int]):
    d, p = valid_designs(card, "vllm", 8, 16), precisions(card)
    context = np.sort(np.array(contexts, dtype=float))
    by_stage = room_by_stage(card, 24 * GIB, d, p, "vllm", 2048)

    assert (np.diff(kv_bytes_per_seq(card, d, p, "vllm", context), axis=1) >= 0).all()
    with np.errstate(invalid="ignore"):
        capacity = kv_capacity(card, d, p, "vllm", by_stage, np.maximum(context, 1.0))
    assert (capacity[:, 1:] <= capacity[:, :-1]).all()


def test_designs_are_priced_the_same_together_and_alone():
    card = catalog.find("mixtral-8x7b")[0]
    d = valid_designs(card, "vllm", 8, 16)
    together = room(card, 80 * GIB, d, precisions(card), "vllm", 8192)

    for i in range(0, len(d), 7):
        alone = room(card, 80 * GIB, d.take(np.array([i])), precisions(card), "vllm", 8192)
        assert alone.kv_bytes[0] == pytest.approx(together.kv_bytes[i])
        assert alone.stage[0] == together.stage[i]


def test_engines_differ_as_their_rules_say():
    """On one GPU of 80 GiB: SGLang keeps most free, then vLLM's 8 %; llama.cpp a margin of 1 GiB."""
    d, p = designs((1, 1)), precisions(SMALL)

    kept = {e: float(room(SMALL, 80 * GIB, d, p, e, 8192).reserve_bytes[0]) / GIB for e in ENGINES}

    assert kept["sglang"] > kept["trtllm"] > kept["vllm"] > kept["llama.cpp"]
    assert kept["vllm"] == pytest.approx(80 - 0.92 * 79.2 + 0.6, abs=0.01)
    assert kept["llama.cpp"] == pytest.approx(0.8 + 0.5 + 1.0)

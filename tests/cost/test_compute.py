"""One kernel: limits of the smooth roofline, GEMMs by hand, attention's FLOPs and bytes by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo.schema import Attention, Gemm, Indexer
from planner.cost.attention import (
    Load,
    decode_work,
    entries,
    prefill_work,
    recurrent_decode_work,
    recurrent_prefill_work,
)
from planner.cost.compute import Matmul, matmul_s, pnorm, sharded
from planner.cost.efficiency.reading import Chip, Fit
from tests.cost.samples import GQA, LINEAR, MLA

CHIP = Chip(1e12, {"bf16": 1e14, "fp8": 2e14})
PERFECT = Fit(compute=1.0, memory=1.0, t0_s=0.0, p=20.0)
TERMS = st.floats(1e-9, 1.0)


@given(a=TERMS, b=TERMS, p=st.floats(0.5, 20))
def test_the_corner_lies_between_maximum_and_sum(a, b, p):
    norm = pnorm(p, np.array([a]), np.array([b]))[0]

    assert norm >= max(a, b) * (1 - 1e-12)
    if p >= 1:
        assert norm <= (a + b) * (1 + 1e-12)


def test_inputs_that_are_added_one_after_the_other_take_their_time_but_are_divided_for_few_rows():
    """By hand: 1000 inputs of 10 ns are 10 us from 32 rows on, a 64th of that with a quarter of the rows;
    the 4 MB of weights take 4 us, 1e6 rows 20 ms."""
    fit, matmul = replace(PERFECT, tau_s=1e-8, p=1.0), Matmul(np.array([1000.0]), np.array([1000.0]), 4.0)

    for rows, seconds in ((32.0, 14e-6), (64.0, 14e-6), (8.0, 4.156e-6), (1e6, 20e-3)):
        assert matmul_s(fit, CHIP, matmul, np.array([rows]))[0] == pytest.approx(
            seconds + rows * 2e3 * 2 / 1e12 + (rows < 1e6) * rows * 2e6 / 1e14, rel=1e-2
        )
    assert matmul_s(fit, CHIP, matmul, np.array([0.0]))[0] == 0


def test_a_small_batch_takes_the_weights_bytes_and_a_large_one_its_flops():
    """By hand: 1000 x 1000 at 2 bytes over 1 TB/s is 2 us; 1e6 rows are 2e12 FLOP of 1e14: 20 ms."""
    matmul = Matmul(np.array([1000.0]), np.array([1000.0]), 2.0)

    assert matmul_s(PERFECT, CHIP, matmul, np.array([1.0]))[0] == pytest.approx(2e-6, rel=0.01)
    assert matmul_s(PERFECT, CHIP, matmul, np.array([1e6]))[0] == pytest.approx(20e-3, rel=0.01)


def test_no_rows_take_no_time():
    assert matmul_s(Fit(1, 1, 5e-6), CHIP, Matmul(np.ones(1), np.ones(1), 2.0), np.zeros(1))[0] == 0


def test_quantised_activations_cost_a_pass_of_their_own():
    """By hand: 1000 rows of 1000 inputs read in 2 bytes and written in 1, at half of 1 TB/s: 6 us."""
    fit = Fit(compute=1.0, memory=1.0, t0_s=0.0, p=20.0, peak="fp8")
    matmul, rows = Matmul(np.array([1000.0]), np.array([1000.0]), 1.0), np.array([1000.0])
    with_pass = Fit(compute=1.0, memory=1.0, t0_s=0.0, p=20.0, peak="fp8", quantise=0.5)

    assert matmul_s(with_pass, CHIP, matmul, rows) - matmul_s(fit, CHIP, matmul, rows) == pytest.approx(6e-6)


@pytest.mark.parametrize(("split", "shape"), [("out", (4, 16)), ("in", (8, 8)), ("none", (8, 16))])
def test_tensor_parallelism_divides_one_side(split, shape):
    part = sharded(Gemm("g", 8, 16, split), np.array([2]), 2.0)

    assert (part.n[0], part.k[0]) == shape


def load(sequences=0.0, context=0.0, tokens=0.0, keys=0.0):
    return Load(*(np.array([x]) for x in (sequences, context, tokens, keys)))


def test_decoding_reads_the_cache_of_every_sequence():
    """By hand: 10 sequences * 1000 tokens * 2 * 8 heads * 128 * 2 bytes = 41 MB, a fourth of it at tp 4."""
    for tp, cache in ((1, 40.96e6), (4, 10.24e6), (16, 5.12e6)):  # beyond 8 KV heads they are repeated
        work = decode_work(GQA, load(10, 1000), np.array([tp]), "bf16")
        assert work.bytes[0] == pytest.approx(cache, rel=0.02)
        assert work.flops[0] == pytest.approx(4 * 10 * 1000 * 32 * 128 / tp)


def test_a_latent_is_read_whole_by_every_rank():
    """By hand: 10 * 1000 * 576 * 2 bytes = 11.5 MB at any tp; 2 * 128 heads * (2*512 + 64) FLOPs an entry."""
    for tp in (1, 8):
        work = decode_work(MLA, load(10, 1000), np.array([tp]), "bf16")
        assert work.bytes[0] == pytest.approx(11.52e6, rel=0.25)
        assert work.flops[0] == pytest.approx(2 * 128 * 1088 * 10_000 / tp)


def test_an_fp8_cache_is_half_of_it():
    bf16, fp8 = (decode_work(GQA, load(10, 50_000), np.ones(1, int), kv).bytes[0] for kv in ("bf16", "fp8"))

    assert fp8 == pytest.approx(bf16 / 2, rel=0.01)


def test_a_prompt_meets_half_the_square_of_its_length():
    """By hand: 4 * 32 heads * 128 * 4096^2/2."""
    work = prefill_work(GQA, load(tokens=4096, keys=2048), np.ones(1, int))

    assert work.flops[0] == pytest.approx(4 * 32 * 128 * 4096**2 / 2)


def test_a_recurrent_state_is_read_and_written_whatever_the_context():
    """By hand: 32 heads * 128 * 128 * 4 bytes, twice, and the convolution's inputs."""
    short, long = (
        recurrent_decode_work(LINEAR, load(1, context), np.ones(1, int)).bytes[0] for context in (10, 10**6)
    )

    assert short == long
    assert short == pytest.approx(2 * 32 * 128 * 128 * 4, rel=0.04)


def test_a_scan_is_as_long_as_one_prompt_and_as_wide_as_all():
    """By hand: 8192 tokens as one prompt or as eight of 1024 do the same FLOPs, one eighth in a row."""
    one, eight = (
        recurrent_prefill_work(LINEAR, load(tokens=8192, keys=keys), np.ones(1, int)) for keys in (4096, 512)
    )

    assert one.flops == eight.flops
    assert (one.items[0], eight.items[0]) == (8192, 1024)


@pytest.mark.parametrize(
    ("changes", "context", "expected"),
    [
        ({}, 5000, 5000),
        ({"window": 128}, 5000, 128),
        ({"window": 128}, 50, 50),
        ({"indexer": Indexer(heads=1, head_dim=8, top_k=2048)}, 5000, 2048),
        ({"window": 128, "compress": 100, "shared_kv": True}, 5000, 128 + 50),
    ],
)
def test_a_query_reads_what_its_layer_attends_to(changes, context, expected):
    mixer = Attention(heads=8, kv_heads=8, head_dim=64, **changes)

    assert entries(mixer, np.array([float(context)])) == expected


def test_no_product_is_faster_than_the_best_that_was_measured():
    """A fit, or an engine's factor on it, that says more of the FLOP/s than any product reached: 2 x 1e6 x
    1e3 x 1e3 FLOPs at 8e13 of a peak of 1e14 take 25 ms."""
    chip = Chip(1e12, {"bf16": 1e14}, {"bf16": 8e13})
    matmul = Matmul(np.array([1e3]), np.array([1e3]), 2.0)

    assert matmul_s(PERFECT, chip, matmul, np.array([1e6]))[0] == pytest.approx(25e-3, rel=1e-6)
    assert matmul_s(PERFECT, CHIP, matmul, np.array([1e6]))[0] == pytest.approx(20e-3, rel=0.01)

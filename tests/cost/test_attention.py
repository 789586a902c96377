"""What attention and its kin do on a rank, by hand: FLOPs, bytes and items, and how loads are divided."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo.schema import Attention, Indexer, LinearAttention, Mamba2, Mla
from planner.cost.attention import (
    Load,
    decode_work,
    entries,
    index_work,
    prefill_work,
    recurrent_decode_work,
    recurrent_kind,
    recurrent_prefill_work,
)

GQA = Attention(heads=32, kv_heads=8, head_dim=128)
WIDE = Attention(heads=32, kv_heads=8, head_dim=192, v_head_dim=128)
LATENT = Mla(heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope=128, qk_rope=64, v_head_dim=128)
DELTA = LinearAttention(key_heads=16, value_heads=32, key_dim=128, value_dim=64)
MAMBA = Mamba2(heads=64, head_dim=64, groups=8, state=128)
INDEXER = Indexer(heads=64, head_dim=128, top_k=2048)

TP = np.array([1])
DECODE = Load.of(10.0, 1000.0)
PROMPT = Load.of(np.zeros(1), 0.0, 512.0, 300.0)


def tp(size: int):
    return np.array([size])


def test_decoding_by_grouped_queries():
    """32 heads, keys and values of 128 each, 10 sequences of 1,000: 2 FLOPs a product. The cache is 2 x 8
    heads x 128 in 16 bits a token; queries and outputs 2 bytes an element."""
    work = decode_work(GQA, DECODE, TP, "bf16")

    assert work.flops[0] == 2 * 32 * 256 * 10 * 1000
    assert work.bytes[0] == 10 * 1000 * 2 * 8 * 128 * 2 + 2 * 10 * 32 * 256
    assert work.items[0] == 10 * 8


@pytest.mark.parametrize(("size", "heads", "kept"), [(2, 16, 4), (8, 4, 1), (16, 2, 1)])
def test_ranks_share_heads_but_each_keeps_a_kv_head(size, heads, kept):
    work = decode_work(GQA, DECODE, tp(size), "fp8")

    assert work.flops[0] == 2 * heads * 256 * 10 * 1000
    assert work.bytes[0] == 10 * 1000 * 2 * kept * 128 * 1 + 2 * 10 * heads * 256
    assert work.items[0] == 10 * kept


def test_values_may_be_narrower_than_keys():
    assert decode_work(WIDE, DECODE, TP, "bf16").flops[0] == 2 * 32 * (192 + 128) * 10 * 1000


def test_a_latent_meets_every_head_and_is_whole_on_each_rank():
    """Each of 128 heads: 2 x 512 of the latent and 64 of the rotary part an entry."""
    whole, eighth = (decode_work(LATENT, DECODE, tp(n), "bf16") for n in (1, 8))

    assert whole.flops[0] == 2 * 128 * (2 * 512 + 64) * 10 * 1000
    assert eighth.flops[0] == whole.flops[0] / 8
    assert whole.bytes[0] == 10 * 1000 * 576 * 2 + 2 * 10 * 128 * (2 * 512 + 64)
    assert eighth.bytes[0] == 10 * 1000 * 576 * 2 + 2 * 10 * 16 * (2 * 512 + 64)


def test_several_queries_of_a_sequence_read_its_cache_once():
    """Of three drafted tokens and the next one: four times the products, the cache as before."""
    four = decode_work(GQA, Load.of(10.0, 1000.0).over(1, 4.0), TP, "bf16")
    one = decode_work(GQA, DECODE, TP, "bf16")

    assert four.flops[0] == 4 * one.flops[0]
    assert four.bytes[0] - one.bytes[0] == 3 * 2 * 10 * 32 * 256


def test_a_prompt_moves_its_own_rows_and_multiplies_pairs():
    """512 tokens with 300 keys each; items are (head, 128 tokens)."""
    work = prefill_work(GQA, PROMPT, TP)

    assert work.flops[0] == 2 * 32 * 256 * 512 * 300
    assert work.bytes[0] == 2 * 512 * (32 * 256 + 8 * 256)
    assert work.items[0] == 32 * 4
    half = prefill_work(GQA, PROMPT, tp(16))
    assert half.flops[0] == work.flops[0] / 16
    assert half.bytes[0] == 2 * 512 * (2 * 256 + 1 * 256)


def test_prompts_of_a_latent_are_computed_on_full_heads_unless_each_query_has_its_own_keys():
    """Heads of 192 + 128; with an indexer in the absorbed form, 2 x 512 + 64, of at most 2,048 keys."""
    sparse = LATENT.model_copy(update={"indexer": INDEXER})
    long = Load.of(0.0, 0.0, 512.0, 9000.0)

    assert prefill_work(LATENT, PROMPT, TP).flops[0] == 2 * 128 * 320 * 512 * 300
    assert prefill_work(sparse, long, TP).flops[0] == 2 * 128 * 1088 * 512 * 2048


@pytest.mark.parametrize(
    ("mixer", "context", "expected"),
    [
        (GQA, 5000.0, 5000.0),
        (GQA.model_copy(update={"window": 128}), 5000.0, 128.0),
        (GQA.model_copy(update={"window": 128}), 50.0, 50.0),
        (GQA.model_copy(update={"compress": 4}), 5000.0, 1250.0),
        (GQA.model_copy(update={"compress": 4, "window": 128}), 5000.0, 128.0 + 1250.0),
        (LATENT.model_copy(update={"indexer": INDEXER}), 5000.0, 2048.0),
        (LATENT.model_copy(update={"indexer": INDEXER}), 500.0, 500.0),
    ],
)
def test_a_query_attends_to_so_many_entries(mixer, context, expected):
    assert entries(mixer, np.array([context]))[0] == expected


def test_every_query_scores_all_index_keys_on_every_rank():
    """64 heads of 128 to score; decoding reads each key once, prompts once for 128 queries."""
    load = Load.of(np.array([10.0]), 1000.0, 512.0, 300.0)
    work = index_work(LATENT, INDEXER, load, "fp8")

    assert work.flops[0] == 2 * 64 * 128 * (10 * 1000 + 512 * 300)
    assert work.bytes[0] == 128 * (10 * 1000 + 4 * 300)
    assert work.items[0] == 522
    compressed = index_work(GQA.model_copy(update={"compress": 4}), INDEXER, load, "fp8")
    assert compressed.flops[0] == work.flops[0] / 4


def test_a_state_is_read_once_and_written_each_token():
    """32 x 64 x 128 cells in 32 bits; 4,096 + 2,048 channels of the convolution."""
    one = recurrent_decode_work(DELTA, Load.of(10.0, 1.0), TP)
    four = recurrent_decode_work(DELTA, Load.of(10.0, 1.0).over(1, 4.0), TP)
    cells, channels, out = 32 * 64 * 128, 2 * 16 * 128 + 32 * 64, 32 * 64
    rows = 2 * (3 * channels + out) * 10

    assert one.flops[0] == 6 * cells * 10
    assert four.flops[0] == 4 * one.flops[0]
    state = (one.bytes[0] - rows) / 2
    assert state >= 10 * cells * 2
    assert four.bytes[0] == pytest.approx(5 * state + 4 * rows)
    assert recurrent_decode_work(DELTA, Load.of(10.0, 9e5), TP).bytes == one.bytes  # the context is no matter


def test_a_scan_is_as_long_as_its_prompt():
    """Chunks of 64 tokens meet one another; 512 new tokens of a prompt of 600 follow each other."""
    work = recurrent_prefill_work(DELTA, PROMPT, TP)
    cells, wide = 32 * 64 * 128, 32 * (128 + 64)

    assert work.flops[0] == (6 * cells + 2 * wide * 64) * 512
    assert work.bytes[0] == 2 * (3 * (2 * 16 * 128 + 2048) + 2048) * 512
    assert work.items[0] == 512
    assert recurrent_prefill_work(DELTA, Load.of(np.zeros(1), 0.0, 512.0, 100.0), TP).items[0] == 200


def test_a_state_space_has_a_state_a_head_channel():
    """64 heads of 64 with 128 states, 8 groups of B and C."""
    work = recurrent_prefill_work(MAMBA, PROMPT, TP)

    assert work.flops[0] == (6 * 4096 * 128 + 2 * 64 * (64 + 128) * 64) * 512
    assert work.bytes[0] == 2 * (3 * (4096 + 2 * 8 * 128) + 4096) * 512


def test_ranks_share_a_state_as_far_as_its_groups_go():
    whole = recurrent_decode_work(MAMBA, DECODE, TP)
    shares = [whole.flops[0] / recurrent_decode_work(MAMBA, DECODE, tp(n)).flops[0] for n in (2, 8)]

    assert shares == [2, 8]


def test_kernels_of_the_gated_delta_rule_serve_what_has_none():
    decaying = DELTA.model_copy(update={"decay_rank": 64})

    assert [recurrent_kind(m) for m in (DELTA, MAMBA, decaying)] == ["gdn", "gdn", "kda"]


LOADS = st.tuples(*(st.floats(0.0, 1e4) for _ in range(4)))


@given(LOADS, st.integers(1, 16), st.integers(1, 8))
def test_micro_batches_share_what_there_is_and_groups_share_tokens(parts, many, groups):
    own = Load.of(*parts)
    part = own.divided(many, groups)

    assert part.sequences * many == pytest.approx(own.sequences)
    assert part.tokens * many * groups == pytest.approx(own.tokens)
    assert part.context * groups == pytest.approx(own.context)
    assert part.keys == own.keys


def test_tokens_that_pass_the_head_are_those_of_sequences_or_else_the_prompts_next():
    load = Load.of(np.array([0.0, 0.0, 3.0]), 10.0, np.array([512.0, 0.0, 512.0]), 1.0)

    assert load.sampled.tolist() == [1.0, 0.0, 3.0]
    assert load.rows.tolist() == [512.0, 0.0, 515.0]
    assert load.over(3, 2.0).sampled.tolist() == [1.0, 0.0, 6.0]
    assert load.take(np.array([2])).rows.tolist() == [515.0]


@given(st.floats(1, 500), st.floats(1, 1e5), st.sampled_from([1, 2, 4, 8]))
def test_more_ranks_never_do_more_each(sequences, context, size):
    load = Load.of(sequences, context)
    for mixer in (GQA, LATENT, WIDE):
        one, many = (decode_work(mixer, load, tp(n), "bf16") for n in (1, size))

        assert many.flops[0] <= one.flops[0]
        assert many.bytes[0] <= one.bytes[0]
        assert size * many.flops[0] == pytest.approx(one.flops[0])

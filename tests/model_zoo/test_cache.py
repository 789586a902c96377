"""KV bytes by hand, for every way of attending."""

from hypothesis import given, settings
from hypothesis import strategies as st

from model_zoo import derive
from model_zoo.schema import Indexer, Mla

from .configs import ALL, COMPRESSED, DEEPSEEK_V3, HYBRID, LLAMA_8B, SLIDING, read


def test_gqa_keeps_keys_and_values_of_its_kv_heads(tmp_path):
    card = read(tmp_path, LLAMA_8B)

    assert derive.kv_bytes_per_token_full(card) == 32 * 2 * 8 * 128 * 2 == 131_072
    assert derive.kv_bytes_per_seq(card, 8192, "fp8") == 65_536 * 8192


def test_mla_keeps_one_latent_and_one_rotary_key(tmp_path):
    card = read(tmp_path, DEEPSEEK_V3)

    assert derive.kv_bytes_per_token_full(card) == 61 * (512 + 64) * 2 == 70_272
    assert derive.kv_shards(card.stack[0].mixer) == 1


def test_sliding_layers_stop_growing_at_the_window(tmp_path):
    card = read(tmp_path, SLIDING)  # 24 sliding layers, 8 full
    each = 2 * 8 * 128 * 2

    assert derive.kv_bytes_per_token_window(card) == 24 * each
    assert derive.kv_bytes_per_token_full(card) == 8 * each
    assert derive.kv_bytes_per_seq(card, 500) == 32 * each * 500
    assert derive.kv_bytes_per_seq(card, 5000) == each * (24 * 1024 + 8 * 5000)


def test_linear_layers_keep_a_state_of_fixed_size(tmp_path):
    card = read(tmp_path, HYBRID)  # 24 linear layers, 8 full of head_dim 256
    state = 4 * 32 * 128 * 128 + 2 * 3 * (2 * 16 * 128 + 32 * 128)

    assert derive.state_bytes(card) == 24 * state
    assert derive.kv_bytes_per_seq(card, 0) == 24 * state
    assert derive.kv_bytes_per_token_full(card) == 8 * 2 * 8 * 256 * 2
    assert derive.kv_shards(card.stack[0].mixer) == 32


def test_compressed_layers_keep_a_window_and_a_fraction_of_the_rest(tmp_path):
    card = read(tmp_path, COMPRESSED)  # ratios 0, 4, 128; K and V are one vector of 512

    assert derive.kv_bytes_per_token_full(card) == (512 / 4 + 512 / 128) * 2
    assert derive.kv_bytes_per_token_window(card) == 3 * 512 * 2
    assert derive.index_bytes_per_token(card) == 128 / 4 * 2


def test_index_keys_are_kept_by_layers_that_score_and_not_by_those_that_share():
    own = Indexer(heads=64, head_dim=128, top_k=2048)
    shared = own.model_copy(update={"shared": True})
    mla = Mla(heads=8, kv_lora_rank=512, qk_nope=128, qk_rope=64, v_head_dim=128)

    assert derive.index_elements_per_token(mla.model_copy(update={"indexer": own})) == 128
    assert derive.index_elements_per_token(mla.model_copy(update={"indexer": shared})) == 0
    assert derive.index_elements_per_token(mla) == 0


@settings(max_examples=60)
@given(name=st.sampled_from(sorted(ALL)), context=st.integers(0, 10**6), more=st.integers(0, 10**6))
def test_a_longer_context_never_takes_less_room(name, context, more, tmp_path_factory):
    card = read(tmp_path_factory.mktemp("card"), ALL[name])

    assert derive.kv_bytes_per_seq(card, context) <= derive.kv_bytes_per_seq(card, context + more)
    assert derive.kv_bytes_per_seq(card, context, "fp8") <= derive.kv_bytes_per_seq(card, context)

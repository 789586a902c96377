"""What of a model's weights one GPU holds: all ranks together all of it, and what they have in common."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo import catalog
from model_zoo.derive import total_params
from planner.cost.weights import weights_bytes
from planner.designs.precision import precisions
from planner.designs.shape import Designs
from planner.designs.stages import stage_layers, stages_of
from planner.migration.weights import Checkpoint, Copies, Pieces, Rank

GB = 1e9
SMALL = catalog.find("llama-3.1-8b")[0]
"""32 layers, 8 KV heads, an LM head of its own."""


def checkpoint(name):
    card = catalog.find(name)[0]
    return Checkpoint(card, precisions(card))


def held(name, layers, gpu, gpus, tp, ep=1, copies=None):
    return list(checkpoint(name).held(Rank.of(layers, gpu, gpus, tp, ep), copies or Copies()))


def size(shares):
    return sum(s.bytes * (s.high - s.low) for s in shares)


def common(*holdings):
    """Bytes that all of some holdings have."""
    pieces = Pieces(holdings)
    return sum(b for h, b in zip(pieces.holders, pieces.bytes, strict=True) if len(h) == len(holdings))


@given(st.sampled_from([1, 2, 4, 8]))
def test_ranks_of_tp_hold_the_whole_model_once(tp):
    """But for norms, which are whole on each: 16 GB of a model of 8 billion in 16 bits."""
    ranks = [held("llama-3.1-8b", (0, 32), g, tp, tp) for g in range(tp)]

    assert sum(Pieces(ranks).bytes) == pytest.approx(2.0 * total_params(SMALL))
    assert sum(map(size, ranks)) == pytest.approx(2.0 * total_params(SMALL), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "tp", "pp", "attn_dp", "ep"),
    [
        ("llama-3.1-70b-fp8", 4, 2, 1, 1),
        ("llama-3.1-8b", 16, 1, 1, 1),  # more ranks than KV heads
        ("qwen3-30b-a3b", 2, 1, 4, 8),
        ("deepseek-v3", 1, 1, 16, 16),  # latents, MTP layers, dense layers first
        ("deepseek-v3", 8, 2, 1, 1),
        ("gpt-oss-120b", 2, 1, 2, 2),
        ("gemma-3-27b", 2, 2, 1, 1),  # tied embedding, a vision tower
    ],
)
def test_every_gpu_holds_as_many_bytes_as_the_cost_model_says(name, tp, pp, attn_dp, ep):
    one = checkpoint(name)
    gpus = tp * attn_dp
    sizes = {"tp": tp, "pp": pp, "attn_dp": attn_dp, "moe_tp": gpus // ep, "ep": ep, "redundant": 0, "cp": 1}
    designs = Designs(**{k: np.array([v], dtype=np.int64) for k, v in sizes.items()})
    expected = weights_bytes(one.card, designs, one.used, stages_of(one.card, designs, None))[0]
    for stage, layers in enumerate(stage_layers(len(one.card.stack), pp)):
        for g in {0, gpus - 1}:
            assert size(held(name, layers, g, gpus, tp, ep)) == pytest.approx(expected[stage])


def test_a_rank_of_four_lies_within_one_of_two():
    two, four = held("llama-3.1-8b", (0, 32), 0, 2, 2), held("llama-3.1-8b", (0, 32), 1, 4, 4)
    other = held("llama-3.1-8b", (0, 32), 2, 4, 4)
    norms = 2.0 * SMALL.extra_params

    assert common(two, four) == pytest.approx(size(four))
    assert common(two, other) == pytest.approx(norms)


def test_neighbours_share_a_kv_head_where_ranks_are_more_than_heads():
    """16 ranks, 8 heads: ranks 0 and 1 hold the first head's K and V, rank 8 the fifth's."""
    first, second, far = (held("llama-3.1-8b", (0, 32), g, 16, 16) for g in (0, 1, 8))
    norms, head = 2.0 * SMALL.extra_params, 32 * 2.0 * 2 * 128 * SMALL.hidden

    assert common(first, second) == pytest.approx(norms + head)
    assert common(first, far) == pytest.approx(norms)


def test_ranks_that_share_an_expert_are_neighbours():
    """Eight GPUs, four ep ranks: GPUs 4 and 5 hold halves of the same experts."""
    four, five = (Rank.of((0, 1), g, 8, 1, 4) for g in (4, 5))

    assert (four.e, five.e) == (2, 2)
    assert (four.m, five.m) == (0, 1)


def test_stages_have_the_layers_in_common_that_both_have():
    """By hand: layers [16, 32) of all 32, and the LM head."""
    first, second = held("llama-3.1-8b", (0, 32), 0, 1, 1), held("llama-3.1-8b", (16, 32), 0, 1, 1)
    embedding = 2.0 * SMALL.vocab * SMALL.hidden

    assert common(first, second) == pytest.approx(size(second))
    assert size(first) - size(second) == pytest.approx(embedding + (size(first) - 2 * embedding) / 2)


def test_experts_are_held_by_the_rank_that_has_them():
    """128 experts: rank 0 of 4 has the first 32 of them, of which rank 1 of 8 has 16 to 31."""
    four = held("qwen3-30b-a3b", (0, 1), 0, 4, 1, 4)
    experts = {s.matrix[-1] for s in four if "expert" in s.matrix}
    eight = {s.matrix[-1] for s in held("qwen3-30b-a3b", (0, 1), 1, 8, 1, 8) if "expert" in s.matrix}

    assert experts == set(range(32))
    assert eight == set(range(16, 32))


def test_copies_stand_behind_the_last_expert_and_a_map_says_where_each_is():
    last = Rank.of((0, 1), 3, 4, 1, 4)

    assert Copies(4).of(8, last, 0) == {1, 2, 3}  # slots 9 to 11 of twelve
    assert Copies(4, [[[0], [1], [2], [7, 7, 5]]]).of(8, last, 0) == {5, 7}


def test_another_precision_is_another_matrix():
    card = SMALL
    bf16, fp8 = (Checkpoint(card, precisions(card, p)) for p in (None, "fp8"))
    rank = Rank.of((0, 32), 0, 1, 1, 1)
    ends = 2 * 2.0 * card.vocab * card.hidden  # embedding and LM head stay in 16 bits

    assert common(list(bf16.held(rank, Copies())), list(fp8.held(rank, Copies()))) == pytest.approx(ends)

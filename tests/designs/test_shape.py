"""Designs as arrays: GPUs, groups, and the rows that are taken of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.designs.shape import Designs, Stage, designs_of, distinct, like, which

SOME = Designs(*np.array([(4, 1, 1, 4, 1, 0, 1), (2, 3, 4, 1, 8, 2, 1), (8, 2, 1, 16, 1, 0, 2)]).T)
"""Plain tp4; three stages of four attention-dp ranks of tp2, ep 8; two stages of two groups of tp8."""

UNLIKE = ((Stage("a", 4, (0, 10)), Stage("b", 1, (10, 32))), (Stage("b", 2, (0, 32)),))


def test_gpus_are_those_of_all_groups_and_stages():
    assert SOME.gpus.tolist() == [4, 2 * 4 * 3, 8 * 2 * 2]
    assert SOME.groups.tolist() == [1, 4, 2]
    assert len(SOME) == 3


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6))
def test_taking_rows_is_taking_them_of_every_field(index):
    taken = SOME.take(np.array(index))

    for name, values in vars(SOME).items():
        assert getattr(taken, name).tolist() == [values[i] for i in index]


def test_designs_alike_have_no_attention_dp_and_no_experts_apart():
    three, two = like(3, 8, 2), like(2, np.array([1, 4]))

    assert three.gpus.tolist() == [16, 16, 16]
    assert (three.ep.tolist(), three.attn_dp.tolist(), three.moe_tp.tolist()) == ([1] * 3, [1] * 3, [8] * 3)
    assert two.gpus.tolist() == [1, 4]
    assert Designs.plain(*(two.tp,) * 5).cp.tolist() == [1, 1]


def test_a_staging_has_the_gpus_of_all_its_stages_whatever_its_first():
    d = designs_of(UNLIKE)

    assert d.gpus.tolist() == [5, 2]
    assert (d.tp.tolist(), d.pp.tolist()) == ([4, 2], [2, 1])
    assert which(d).tolist() == [0, 1]
    again = d.take(np.array([1, 1, 0]))
    assert again.gpus.tolist() == [2, 2, 5]
    assert which(again).tolist() == [1, 1, 0]


def test_designs_without_stagings_name_none():
    with pytest.raises(AssertionError):
        which(SOME)


def test_a_stage_in_words():
    assert [s.where for s in UNLIKE[0]] == ["a tp4", "b"]
    assert [s.part for s in UNLIKE[0]] == ["10", "22"]


@given(st.lists(st.integers(0, 40), min_size=1))
def test_sizes_that_occur_are_told_once_in_order(sizes):
    assert distinct(np.array(sizes)) == sorted(set(sizes))

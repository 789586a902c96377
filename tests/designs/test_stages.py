"""Layers of pipeline stages: the engines' division, and the sums over stages that bytes and seconds are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo.catalog import find
from planner.designs.shape import like
from planner.designs.stages import Stages, stage_counts, stage_layers, stages_of

DENSE, MIXED = find("llama-3.1-8b")[0], find("deepseek-v3")[0]
"""32 layers alike; three dense layers before 58 with experts."""


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [(32, 1, [32]), (32, 4, [8] * 4), (61, 4, [15, 15, 16, 15]), (10, 4, [2, 3, 3, 2]), (7, 4, [2, 2, 2, 1])],
)
def test_what_is_left_over_goes_to_the_stages_before_the_last(layers, pp, sizes):
    assert [stop - start for start, stop in stage_layers(layers, pp)] == sizes


@given(st.integers(1, 130), st.data())
def test_stages_follow_each_other_over_all_layers_and_differ_by_one_at_most(layers, data):
    pp = data.draw(st.integers(1, layers))
    bounds = stage_layers(layers, pp)
    sizes = [stop - start for start, stop in bounds]

    assert [start for start, _ in bounds] == [0, *(stop for _, stop in bounds[:-1])]
    assert bounds[-1][1] == layers
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)


def test_kinds_of_layers_are_counted_by_stage():
    """By hand: 61 layers in 15, 15, 16 and 15; the three dense ones in the first."""
    dense, moe = stage_counts(MIXED, 4).T

    assert dense.tolist() == [3, 0, 0, 0]
    assert moe.tolist() == [12, 15, 16, 15]


def test_designs_with_fewer_stages_have_none_beyond_their_last():
    s = stages_of(MIXED, like(3, 1, np.array([1, 4, 2])))

    assert s.exists.tolist() == [[True, False, False, False], [True] * 4, [True, True, False, False]]
    assert s.first.sum(axis=1).tolist() == s.last.sum(axis=1).tolist() == [1, 1, 1]
    assert s.last.argmax(axis=1).tolist() == [0, 3, 1]
    assert s.counts.sum(axis=2).tolist() == [[61, 0, 0, 0], [15, 15, 16, 15], [31, 30, 0, 0]]


def test_totals_and_the_widest_layer_are_those_of_the_stage_alone():
    """By hand: a dense layer weighs 5, one with experts 2. The second stage has no dense one."""
    s = stages_of(MIXED, like(1, 1, 4))
    each = np.array([[5.0, 2.0]])

    assert s.total(each).tolist() == [[3 * 5 + 12 * 2, 30, 32, 30]]
    assert s.widest(each).tolist() == [[5, 2, 2, 2]]


def test_ranges_that_are_given_are_the_stages():
    """Of one design with unlike stages, and of two with ranges of their own."""
    alone = stages_of(DENSE, like(1, 1, 2), [(0, 20), (20, 32)])
    both = stages_of(DENSE, like(2, 1, np.array([2, 1])), np.array([[(0, 20), (20, 32)], [(0, 32), (0, 0)]]))

    assert alone.counts.tolist() == [[[20], [12]]]
    assert both.counts.tolist() == [[[20], [12]], [[32], [0]]]
    assert both.exists.tolist() == [[True, True], [True, False]]


def test_a_stage_without_layers_weighs_nothing():
    none = np.zeros((1, 2, 1))
    here = np.ones((1, 2), dtype=bool)
    assert Stages(DENSE.kinds[0], none, here, here, here).widest(np.array([[7.0]])).tolist() == [[0, 0]]

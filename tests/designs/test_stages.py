"""Layers of pipeline stages: the engine's division, counts by kind, and sums and maxima over them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo.schema import ModelCard
from planner.designs.shape import like
from planner.designs.stages import stage_counts, stage_layers, stages_of

ATTENTION = {"kind": "attention", "heads": 2, "kv_heads": 1, "head_dim": 4}
CARD = ModelCard(
    name="three kinds",
    source="made up: a dense layer first, then window, window, full, twice: 7 layers",
    hidden=8,
    vocab=16,
    max_context=64,
    mixers={"full": ATTENTION, "window": {**ATTENTION, "window": 8}},
    ffns={"wide": {"kind": "dense", "inner": 32}, "thin": {"kind": "dense", "inner": 8}},
    layers=[
        {"times": 1, "of": ["full/wide"]},
        {"times": 2, "of": ["window/thin", "window/thin", "full/thin"]},
    ],
)
DEPTHS = np.array([1, 2, 3])


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [
        (32, 1, [32]),
        (32, 4, [8, 8, 8, 8]),
        (61, 2, [31, 30]),
        (61, 4, [15, 15, 16, 15]),
        (62, 4, [15, 16, 16, 15]),  # two left over: the last but one, the last but two
        (63, 4, [16, 16, 16, 15]),
        (5, 3, [2, 2, 1]),
        (3, 3, [1, 1, 1]),
    ],
)
def test_what_is_left_over_goes_to_the_stages_before_the_last(layers, pp, sizes):
    assert [stop - start for start, stop in stage_layers(layers, pp)] == sizes


@given(st.integers(1, 200), st.data())
def test_stages_hold_every_layer_once_and_differ_by_one_at_most(layers, data):
    pp = data.draw(st.integers(1, layers))
    bounds = stage_layers(layers, pp)
    sizes = [stop - start for start, stop in bounds]

    assert [layer for start, stop in bounds for layer in range(start, stop)] == list(range(layers))
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)  # the last has the LM head


def test_counts_by_hand():
    """Layers by kind: 0 | 1 1 2 1 1 2. Of one stage, all; of two, 4 and 3; of three, 2, 3 and 2."""
    stages = stages_of(CARD, like(3, 1, DEPTHS))

    assert stages.counts.tolist() == [
        [[1, 4, 2], [0, 0, 0], [0, 0, 0]],
        [[1, 2, 1], [0, 2, 1], [0, 0, 0]],
        [[1, 1, 0], [0, 2, 1], [0, 1, 1]],
    ]
    assert stages.exists.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert stages.first.tolist() == [[True, False, False]] * 3
    assert stages.last.tolist() == [[True, False, False], [False, True, False], [False, False, True]]


@pytest.mark.parametrize("pp", range(1, 8))
def test_counts_of_one_depth_are_those_of_all_designs(pp):
    stages = stages_of(CARD, like(1, 2, pp))

    assert stage_counts(CARD, pp).tolist() == stages.counts[0].tolist()


def test_sums_and_maxima_are_over_the_layers_that_a_stage_has():
    """A full wide layer is 10, a window 1, a full thin one 3; the second row of designs costs twice."""
    stages = stages_of(CARD, like(2, 1, np.array([1, 3])))
    each = np.array([[10.0, 1.0, 3.0], [20.0, 2.0, 6.0]])

    assert stages.total(each).tolist() == [[10 + 4 + 6, 0, 0], [20 + 2, 4 + 6, 2 + 6]]
    assert stages.widest(each).tolist() == [[10, 0, 0], [20, 6, 6]]


def test_ranges_of_all_designs_and_ranges_of_each():
    shared = stages_of(CARD, like(2, 1, 2), [(0, 1), (1, 7)])
    own = stages_of(CARD, like(2, 1, np.array([2, 1])), np.array([[(0, 1), (1, 7)], [(0, 7), (0, 0)]]))

    assert shared.counts.tolist() == [[[1, 0, 0], [0, 4, 2]]] * 2
    assert own.counts.tolist() == [[[1, 0, 0], [0, 4, 2]], [[1, 4, 2], [0, 0, 0]]]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_every_design_has_all_layers_whatever_stands_beside_it(depths):
    stages = stages_of(CARD, like(len(depths), 1, np.array(depths)))
    alone = [stages_of(CARD, like(1, 1, pp)).counts[0] for pp in depths]

    assert (stages.counts.sum(axis=1) == [1, 4, 2]).all()
    for row, mine in zip(stages.counts, alone, strict=True):
        assert row[: len(mine)].tolist() == mine.tolist()
    assert (stages.last.sum(axis=1) == 1).all()
    assert (stages.exists.sum(axis=1) == depths).all()


def test_no_designs_have_no_stages():
    assert len(stages_of(CARD, like(0, 1, np.array([], dtype=np.int64))).counts) == 0

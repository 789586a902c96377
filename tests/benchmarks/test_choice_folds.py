"""What layouts of an engine share, learnt on other models than the one that is judged."""

import numpy as np
import pytest

from benchmarks.choice.folds import inside, left_of, less_medians


def test_medians_of_each_key_are_taken_off_both_times():
    predicted = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    found = less_medians(predicted, np.zeros((3, 2)), [("a",), ("a",), ("b",)])

    assert found.tolist() == [[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]]


def test_a_slope_that_all_models_share_is_taken_off_and_one_of_a_single_model_is_not():
    x = np.array([[-1.0], [1.0]] * 40)
    names = [f"model {i // 8}" for i in range(80)]
    shared, at = 0.1 * x[:, 0], np.arange(80)
    own = np.where(np.array(names) == "model 0", shared, 0.0)

    left, told = left_of(shared, x, at, names)
    assert np.abs(left).max() < 0.01
    assert told[0] == pytest.approx(0.1, rel=0.05)
    assert np.abs(left_of(own, x, at, names)[0][:8]).max() == pytest.approx(0.1)


def test_inside_a_group_its_mean_counts_nothing():
    found = inside([np.array([0, 1]), np.array([2])], np.array([[1.0], [3.0], [7.0]]))

    assert found[:, 0].tolist() == [-1.0, 1.0, 0.0]

"""What is sure of a curve of which samples are known: below it whatever it does between two of them."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.hull import SURE, edges, sure_of

FINE = np.linspace(0.0, 1.0, 5001)

CURVES = {
    "convex": lambda x: x / (1.1 - x),
    "concave": lambda x: 1 + np.sqrt(x),
    "straight": lambda x: 1 + 2 * x,
    "a leap": lambda x: x + 0.1 * (x > 0.5074),
    "a fall": lambda x: 1 + x - 0.1 * (x > 0.5074),
    "a leap at its end": lambda x: 2 - 0.6 * x + 0.1 * (x > 0.9874),
    "a kink": lambda x: x + np.where(x > 0.5074, 4 * (x - 0.5074), 0.0),
    "steep, then flatter": lambda x: x + np.where(x > 0.5074, np.sqrt(np.maximum(x - 0.5074, 0)), 0.0),
    "falls, then rises": lambda x: 1 + 0.7 * np.abs(x - 0.5074),
}


def lines(x, y, per):
    a, slope = edges(x[None], sure_of(x[None], y[None], per[None]))
    return np.max(a[0][:, None] + slope[0][:, None] * FINE, axis=0)


@pytest.mark.parametrize("per_x", [False, True])
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("many", [20, 33, 60])
def test_no_edge_is_above_the_curve_between_its_samples(name, many, per_x):
    """As it is, and as seconds of each request that costs are a multiple of."""
    curve, x = CURVES[name], np.linspace(0.0, 1.0, many)
    factor = (lambda x: x) if per_x else np.ones_like

    told = lines(x, curve(x) * factor(x), factor(x))

    assert (told <= curve(FINE) * factor(FINE) + 1e-12).all()


@pytest.mark.parametrize("name", ["convex", "straight"])
def test_where_a_curve_is_smooth_its_edges_are_near(name):
    """By the square of the distance of samples, where no more than that it ascends would lose its whole step:
    up to 13 % of a tenth of this."""
    x = np.linspace(0.0, 1.0, 200)
    true = CURVES[name](FINE)

    below = true - lines(x, CURVES[name](x), np.ones_like(x))

    assert (below[FINE > 0.1] <= 0.02 * true[FINE > 0.1]).all()
    assert np.median(below / np.maximum(true, 1e-3)) < 1e-3


def test_edges_are_the_lower_hull():
    """By hand: 0, 0; 1, 1; 3, 7, and what lies above the lines through them."""
    x, y = np.array([[0.0, 0.5, 1.0, 2.0, 3.0]]), np.array([[0.0, 0.9, 1.0, 4.5, 7.0]])

    a, slope = edges(x, y)

    assert slope.tolist() == [[1.0, 1.0, 3.0, 3.0, 3.0]]
    assert a.tolist() == [[0.0, 0.0, -2.0, -2.0, -2.0]]


def test_no_edge_falls():
    """A program's lines do not: where a curve falls they are level, as low as it comes."""
    a, slope = edges(np.array([[0.0, 1.0, 2.0]]), np.array([[5.0, 4.0, 3.0]]))

    assert slope.tolist() == [[0.0, 0.0, 0.0]]
    assert a.tolist() == [[3.0, 3.0, 3.0]]


def test_of_a_straight_curve_all_is_sure():
    x = np.linspace(0.0, 1.0, 9)[None]
    y = 2 + x

    assert sure_of(x, y, np.ones_like(y)) == pytest.approx(y * (1 - SURE), rel=1e-12)

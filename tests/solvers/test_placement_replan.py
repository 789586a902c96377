"""Moves and re-planning: what is kept when a node leaves, and what must be loaded for it."""

import numpy as np
import pytest

from solvers.placement.replan import Cover, replan
from solvers.placement.types import Network

NET = Network(
    layers=4,
    capacity={"a": (40.0, 20.0, 10.0, 5.0)},
    kinds=("a",) * 5,
    link=np.full((5, 5), np.inf),
    source=np.full(5, np.inf),
    sink=np.full(5, np.inf),
)
"""Two layers at 20 on a node; by hand: two nodes a half carry 40, the fifth is spare."""
PLAN = {0: (0, 2), 1: (0, 2), 2: (2, 4), 3: (2, 4)}


def test_a_spare_node_takes_the_layers_of_the_one_that_left():
    again = replan(NET, PLAN, {0})

    assert (again.before, again.after) == pytest.approx((40.0, 40.0))
    assert again.intervals == {1: (0, 2), 2: (2, 4), 3: (2, 4), 4: (0, 2)}
    assert again.loaded == {4: 2}


def test_nothing_is_loaded_where_nothing_helps():
    """By hand: both nodes of the first half are needed, and so are those of the second."""
    four = Network(4, NET.capacity, NET.kinds[:4], NET.link[:4, :4], NET.source[:4], NET.sink[:4])

    again = replan(four, PLAN, {0})

    assert again.after == pytest.approx(20.0)
    assert again.moved_layers <= 2


def test_every_layer_is_kept_on_as_many_nodes_as_asked():
    again = replan(NET, {0: (0, 2), 1: (2, 4)}, set(), least=2)

    held = [sum(s <= layer < e for s, e in again.intervals.values()) for layer in range(4)]
    assert min(held) >= 2
    assert again.thin == ()


def test_layers_that_cannot_be_held_as_often_are_named():
    again = replan(NET, PLAN, {0, 4}, least=4)

    assert again.thin


def test_what_is_short_after_a_move_is_as_priced():
    cover = Cover(NET, PLAN)
    target, least = np.full(4, 45.0), np.full(4, 2)
    for move in list(cover.moves(target, least, list(range(5)))):
        changed = Cover(NET, PLAN)
        changed.put(move.node, move.interval)
        assert changed.short(target, least) == pytest.approx(move.left)

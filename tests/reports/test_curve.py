"""A curve in a terminal: bars to an eighth of a column, and what runs at a point in a few words."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.plans.schema import Replica, Stage
from planner.reports.curve import EIGHTHS, bar, curve, runs
from planner.studies.curves import Point
from planner.studies.curves import curve as curve_of
from tests.reports.samples import ONE_NODE, replica


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0.0, ""),
        (1.0, "████"),
        (1 / 32, "▏"),
        (7 / 32, "▉"),
        (0.25, "█"),
        (-1.0, ""),
        (3.0, "████"),
        (0.01, ""),
    ],
)
def test_a_bar_is_drawn_to_an_eighth_of_a_column(share: float, drawn: str):
    assert bar(share, 4) == drawn


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 24))
def test_more_is_never_drawn_shorter(a: float, b: float, room: int):
    def length(share: float) -> int:
        return sum(EIGHTHS.index(c) for c in bar(share, room))

    low, high = sorted((a, b))
    assert length(low) <= length(high) <= 8 * room
    assert abs(length(a) - 8 * room * a) <= 0.5


def group(name: str, gpus: int, count: int, role: str = "mixed") -> Replica:
    stage = Stage(device="h100-sxm", node_class="h", nodes=["h-0"], gpus=gpus, tp=gpus, layers=(0, 80))
    return replica(id=name, count=count, role=role, tp=gpus, moe_tp=gpus, stages=[stage])


def test_the_largest_groups_are_named_first_and_the_rest_is_counted():
    groups = [group("a", 1, 1), group("b", 8, 1, "decode"), group("c", 2, 3), group("d", 4, 1)]
    named = ["1 x tp8 h100-sxm decode", "3 x tp2 h100-sxm", "1 x tp4 h100-sxm"]

    def said(replicas: list[Replica]) -> list[str]:
        return [line.replace("  ", " ") for line in runs(ONE_NODE.model_copy(update={"replicas": replicas}))]

    assert said(groups[1:]) == named
    assert said(groups) == [*named, "and 1 group more"]
    assert said([*groups, group("e", 1, 1)]) == [*named, "and 2 groups more"]


@pytest.mark.parametrize(("many", "said"), [(1, "1 point, each"), (2, "2 points, each")])
def test_points_are_counted(many: int, said: str):
    points = [Point(20.0 + i, 400.0, 25.0, 402.0, ONE_NODE) for i in range(many)]
    console = Console(file=StringIO(), width=100)
    console.print(curve("lab", curve_of("speed"), points, 100))

    assert isinstance(console.file, StringIO)
    assert said in console.file.getvalue()

"""Bars of memory: parts that add up, the fullest stage of a device, and room for the figures beside them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from planner.plans.schema import Stage, StageMemory
from planner.reports.memory import FREE, GIB, PARTS, bar, fullest, memory, parts
from tests.reports.samples import replica

MARKS = [mark for _, mark, _ in PARTS]


def of(stage: int, *sizes: float, capacity: float = 80.0) -> StageMemory:
    """Parts and capacity in GiB."""
    names = ("weights_bytes", "kv_bytes", "activation_bytes", "reserve_bytes")
    told = {name: size * GIB for name, size in zip(names, sizes, strict=True)}
    return StageMemory(stage=stage, capacity_bytes=capacity * GIB, **told)


@pytest.mark.parametrize(
    ("sizes", "drawn"),
    [
        ((40, 20, 10, 10), "████▓▓▒░"),
        ((40, 20, 10, 0), "████▓▓▒·"),
        ((0, 0, 0, 0), "········"),
        ((90, 20, 0, 0), "████████"),
        ((4, 4, 4, 4), "▓░······"),  # they end at 0.4, 0.8, 1.2 and 1.6 characters
    ],
)
def test_parts_are_cut_at_their_running_total(sizes: tuple[float, ...], drawn: str):
    assert bar(of(0, *sizes), 8).plain == drawn


def test_a_gpu_of_no_memory_has_an_empty_bar():
    assert bar(of(0, 1, 0, 0, 0, capacity=0.0), 4).plain == FREE * 4


@settings(max_examples=60)
@given(st.lists(st.floats(0, 40), min_size=4, max_size=4), st.integers(1, 40))
def test_a_bar_is_as_wide_as_asked_and_each_part_a_character_from_its_share_at_most(
    sizes: list[float], width: int
):
    drawn = bar(of(0, *sizes), width).plain

    assert len(drawn) == width
    assert drawn == "".join(sorted(drawn, key=[*MARKS, FREE].index))
    if sum(sizes) <= 80:
        for mark, size in zip(MARKS, sizes, strict=True):
            assert abs(drawn.count(mark) - width * size / 80) <= 1 + 1e-9


STAGES = [
    Stage(device=device, node_class="h", nodes=["h-0"], gpus=1, tp=1, layers=(i, i + 1))
    for i, device in enumerate(("h100-sxm", "h100-sxm", "l4"))
]


def test_of_each_device_the_stage_with_the_least_room_left_is_shown():
    held = [of(0, 10, 30, 0, 0), of(1, 20, 21, 0, 0), of(2, 1, 1, 0, 0, capacity=24)]
    found = fullest(replica(stages=STAGES, memory=held))

    assert {device: m.stage for device, m in found.items()} == {"h100-sxm": 1, "l4": 2}
    assert parts(held[1]) == (20 * GIB, 21 * GIB, 0, 0)


@pytest.mark.parametrize(("width", "bar_width"), [(60, 4), (200, 40), (83, 21)])
def test_the_bar_takes_what_the_figures_leave(width: int, bar_width: int):
    """By hand: of 83 columns figures take 51, the label `r1 h100-sxm` 11."""
    one = replica(stages=STAGES[:1], memory=[of(0, 40, 20, 10, 5)])
    text = _text(memory([one], width))

    assert len([c for c in text if c in "".join([*MARKS, FREE])]) == bar_width + len(MARKS)
    assert text.split()[-6:] == ["40.0", "20.0", "10.0", "5.0", "80", "GiB"]


def _text(shown: object) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as said:
        console.print(shown)
    return said.get()

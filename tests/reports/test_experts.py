"""An expert map in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console, RenderableType

from planner.expert_maps.schema import ExpertMap, Found, Hops, Hot, Moves, State
from planner.reports.experts import balance, headline, hops, hottest, moves, proof, ratio, size

HEAT = np.ones((2, 4))
SMALL = Found(
    map=ExpertMap("m", (3, 4), 6, (4,), [((0, 1), (2, 3), (4, 5), (0, 1))] * 2, bound=(1.0, 1.2)),
    goal="hottest GPU", objective=1.3, bound=1.25, gap=0.04, status="time_limit", seconds=2.5,
    before=State("experts in order", np.array([2.0, 1.6]), HEAT, None),
    after=State("this map", np.array([1.2, 1.4]), HEAT, None),
    hottest=(Hot(3, 0, 0.25, 2),), steps=2, windows=1,
)  # fmt: skip
MOVES = Moves(12, 10, 40, 0.01, 3, 2.4e9, 6e8, 0.25, "50 GB/s")


def text(part: RenderableType) -> str:
    console = Console(width=120)
    with console.capture() as caught:
        console.print(part)
    return caught.get()


def test_the_headline_counts_slots_for_replicas_and_tells_what_it_was():
    assert text(headline(SMALL)) == (
        "m: 2 layers of 6 experts on 4 GPUs, 2 slots each, 2 of 8 for replicas\n"
        "hottest GPU 1.30 × mean, was 1.80 with experts in order\n"
    )


def test_nodes_a_token_are_told_where_there_are_several():
    near = replace(SMALL.after, nodes_per_token=1.5)
    far = replace(SMALL.before, nodes_per_token=1.9)
    two = replace(SMALL, map=replace(SMALL.map, nodes=(2, 2), model=None), after=near, before=far)

    assert "2 layers of 6 experts on 4 GPUs in 2 nodes" in text(headline(two))
    assert text(headline(two)).endswith("1.50 nodes a token, was 1.90\n")
    assert "nodes a token" not in text(headline(replace(SMALL, after=near)))
    assert "nodes a token" in text(balance(two))


def test_the_worst_layer_is_named_by_its_number_in_the_model():
    rows = text(balance(SMALL)).splitlines()

    assert rows[1].split() == ["experts", "in", "order", "1.80", "2.00", "layer", "3"]
    assert rows[2].split() == ["this", "map", "1.30", "1.40", "layer", "4"]
    assert rows[3].split() == ["no", "map", "is", "below", "1.10", "1.20"]


def test_copies_are_told_with_their_bytes_and_the_pause():
    assert moves(MOVES).plain.splitlines() == [
        "12 weights are copied (at least 10 needed); the best balance takes 40",
        "balance kept within 1.0 % of the best, layer by layer",
        "2.40 GB in all, 600 MB into the busiest GPU",
        "250 ms of copying, at 50 GB/s",
    ]


@pytest.mark.parametrize(
    ("changes", "last"),
    [
        ({"pause_s": None}, "--gb-per-s, or GPUs by name in --gpus, tells how long that takes"),
        ({"bytes": None, "pause_s": None}, "3 into the busiest GPU; --model tells bytes"),
    ],
)
def test_what_is_not_known_is_said_with_what_would_tell_it(changes: dict[str, None], last: str):
    assert moves(replace(MOVES, **changes)).plain.splitlines()[-1] == last
    assert "no map takes fewer" in moves(replace(MOVES, bound=12)).plain


def test_ways_of_tokens_are_told_with_what_is_saved():
    told = text(hops(Hops(200.0, 150.0, 140.0, (0.1, 0.25), (0.4, 0.5))))

    assert "150, 25 % less" in told
    assert "0 % less" in text(hops(Hops(0.0, 0.0, 0.0, (0, 0), (0, 0))))


@pytest.mark.parametrize(
    ("gap", "status", "said"),
    [
        (0.0, "optimal", "the best possible, 2.5 s"),
        (1e-9, "optimal", "the best possible, 2.5 s"),
        (1e-4, "within_gap", "less than 0.1 % from the best possible, 2.5 s"),
        (0.04, "within_gap", "4.0 % from the best possible, 2.5 s"),
        (0.04, "time_limit", "not proven nearer: 4.0 % from the best possible, 2.5 s"),
    ],
)
def test_only_what_is_proven_is_called_the_best_possible(gap: float, status: str, said: str):
    found = proof(replace(SMALL, gap=gap, status=status)).plain.splitlines()  # type: ignore[arg-type]

    assert found == [said, "hottest GPU: 1.3, no map is below 1.25"]


def test_a_goal_over_steps_tells_how_they_were_taken_together():
    assert proof(replace(SMALL, goal="worst step")).plain.endswith("(2 steps as 1)")


def test_experts_of_which_there_are_copies_are_listed():
    assert text(hottest(SMALL)).splitlines()[1].split() == ["3", "0", "25", "%", "2"]


def test_words():
    assert [ratio(x) for x in (1.0994, 1.1, 12.34)] == ["1.099", "1.10", "12.3"]
    assert [size(x) for x in (999e6, 1e9)] == ["999 MB", "1.00 GB"]

"""Heat maps: shades at their edges, maps side by side, and the highest of several where room is short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from planner.reports.experts import GAP, MOST_ROWS, WIDEST, panels


def lines(maps: list[tuple[str, list[list[float]]]], names: list[str], width: int) -> list[str]:
    """As a terminal shows them: the titles, a line a row, the legend."""
    console = Console(width=400, no_color=True)
    with console.capture() as said:
        console.print(panels([(title, np.array(values)) for title, values in maps], names, width))
    return [line.rstrip() for line in said.get().splitlines()]


@pytest.mark.parametrize(
    ("value", "shade"),
    [(0.75, ""), (0.76, "░"), (0.95, "░"), (1.0, "▒"), (1.05, "▒"), (1.25, "▓"), (1.26, "█"), (99.0, "█")],
)
def test_a_shade_goes_up_to_its_edge(value: float, shade: str):
    assert lines([("a", [[value]])], ["3"], 80)[1] == f"3  {shade * WIDEST}".rstrip()


def test_maps_stand_side_by_side_under_their_titles():
    found = lines([("one", [[1.0, 1.2], [0.5, 2.0]]), ("two", [[2.0, 1.0], [1.0, 0.9]])], ["0", "11"], 80)

    assert found[:3] == [
        "    one        two",
        " 0  ▒▒▒▒▓▓▓▓   ████▒▒▒▒",
        "11      ████   ▒▒▒▒░░░░",
    ]
    assert "hottest" not in found[3]


def test_a_long_title_widens_its_map_and_no_title_is_wider_than_its_room():
    found = lines([("a longer title", [[1.0]]), ("b", [[2.0]])], ["0"], 80)

    assert found[:2] == ["   a longer title   b", "0  ▒▒▒▒             ████"]
    assert lines([("x" * 99, [[1.0]])], ["0"], 23)[0] == "   " + "x" * 20


def test_rows_beyond_the_most_stand_together_under_their_first_and_last_name():
    """By hand: of 31 rows two stand together, the last one alone; a cell shows the hotter."""
    values = [[2.0] if i == 1 else [1.0] for i in range(MOST_ROWS + 1)]
    found = lines([("a", values)], [str(i) for i in range(MOST_ROWS + 1)], 80)

    assert len(found) == 1 + 16 + 1
    assert found[1] == "  0-1  ████"
    assert found[2] == "  2-3  ▒▒▒▒"
    assert found[16] == "   30  ▒▒▒▒"
    assert found[-1].endswith("a cell is the hottest of 2 layers x 1 GPUs")


def test_columns_beyond_the_room_stand_together():
    """By hand: 23 columns leave 20; 30 GPUs are drawn in pairs."""
    found = lines([("a", [[1.0] * 29 + [2.0]])], ["0"], 23)

    assert found[1] == "0  " + "▒" * 14 + "█"
    assert found[-1].endswith("a cell is the hottest of 1 layers x 2 GPUs")


@settings(max_examples=40)
@given(st.integers(1, 70), st.integers(1, 90), st.integers(1, 3), st.integers(40, 150), st.randoms())
def test_maps_fit_the_terminal_and_the_hottest_cell_is_always_seen(rows, columns, many, width, rng):
    values = [[1.0] * columns for _ in range(rows)]
    values[rng.randrange(rows)][rng.randrange(columns)] = 2.0
    *found, _ = lines([(f"map {i}", values) for i in range(many)], [str(i) for i in range(rows)], width)
    hot = [line for line in found if "█" in line]

    assert len(found) <= 1 + MOST_ROWS
    assert max(map(len, found)) <= max(width, 7 + 8 * many + GAP * (many - 1))
    assert len(hot) == 1
    assert hot[0].replace("▒", " ").split() == [
        hot[0].split()[0],
        *["█" * (hot[0].count("█") // many)] * many,
    ]

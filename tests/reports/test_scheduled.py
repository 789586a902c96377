"""A schedule in a terminal: what it saves, whom it is compared with, when what runs, by hand."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from planner.reports.scheduled import scheduled
from planner.schedule.policies import Forecast, Judged, Policy
from planner.schedule.units import Unit
from tests.schedule.samples import DAY, SPOT, UNIT


def lines(width: int = 100, **fields: Any) -> list[str]:
    """What is printed of DAY with other fields, without the room behind lines."""
    console = Console(file=StringIO(), width=width)
    console.print(scheduled("qwen3-8b on cloud", replace(DAY, **fields), width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def line(start: str, **fields: Any) -> str:
    """The only line that begins so, runs of blanks as one."""
    (found,) = (" ".join(x.split()) for x in lines(**fields) if x.strip().startswith(start))
    return found


def test_the_first_line_has_the_money_of_all_slots_and_of_an_hour():
    assert lines()[0] == "qwen3-8b on cloud over 24 h in 4 slots: $96.00, $4.00 an hour"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {},
            "each slot sized by its mean; at most 0.10 % above the cheapest possible of these units"
            " (within_gap, 1.2 s)",
        ),
        (
            {"gap": None, "status": "time_limit"},
            "each slot sized by its mean; no bound of these units (time_limit, 1.2 s)",
        ),
        (
            {"margin": 0.25, "sized_by": "busiest minute", "gap": 0.0, "status": "optimal"},
            "each slot sized by its busiest minute and 25 % more; at most 0.00 % above the cheapest possible"
            " of these units (optimal, 1.2 s)",
        ),
    ],
)
def test_the_second_says_what_sizes_a_slot_and_how_near_the_best_it_is(fields: dict[str, Any], said: str):
    assert lines(width=140, **fields)[1] == said


@pytest.mark.parametrize(
    ("fields", "start", "said"),
    [
        ({}, "this schedule", "this schedule $96.00"),
        ({}, "a fleet that never", "a fleet that never changes $120.00 20 % saved"),
        ({}, "an autoscaler", "an autoscaler, tuned $100.00 4.0 % saved +25 % head-room, misses 0.04 %"),
        (
            {"autoscaler": Judged(Policy(None, None), 80.0, 4e-7)},
            "an autoscaler",
            "an autoscaler, tuned $80.00 20 % more +0 % head-room, misses none",
        ),
        (
            {"whole_usd": 97.0},
            "whole units",
            "whole units alone $97.00 1.0 % saved no servers of prompts or answers",
        ),
        ({"bare_usd": 64.0}, "without the margin", "without the margin $64.00 50 % more"),
        (
            {"whole_usd": 96.0},
            "whole units",
            "whole units alone $96.00 0 % more no servers of prompts or answers",
        ),
    ],
)
def test_what_others_pay_is_what_is_saved_against_them(fields: dict[str, Any], start: str, said: str):
    assert line(start, **fields) == said


def test_others_whose_price_is_not_known_are_left_out():
    shown = "\n".join(lines(static_usd=None))

    assert all(name not in shown for name in ("never changes", "whole units", "without the margin"))


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (UNIT, "h 1 6 10.0 2.50 180 s 1 x tp1 vllm"),
        (SPOT, "s (spot) 1 6 2.00 – 4.00 2.50 210 s 1 x tp1 vllm"),
        (replace(UNIT, by_slot=(10.0, 10.09)), "h 1 6 10.0 2.50 180 s 1 x tp1 vllm"),
        (replace(UNIT, by_slot=(10.0, 10.2)), "h 1 6 10.0 – 10.2 2.50 180 s 1 x tp1 vllm"),
        (replace(UNIT, role="prefill", nodes=4, count=2), "h-prefill 4 2 10.0 2.50 180 s 1 x tp1 vllm"),
    ],
)
def test_a_unit_has_what_it_serves_in_its_worst_and_best_slot(unit: Unit, said: str):
    """Within a per cent they are one figure."""
    shown = lines(units=[unit], counts=[[1, 2, 2, 0]])
    head = next(i for i, x in enumerate(shown) if x.startswith("unit"))

    assert " ".join(shown[head].split()) == "unit nodes of requests/s $/h starts in each runs"
    assert " ".join(shown[head + 1].split()) == said


def test_classes_left_out_and_nodes_reserved_are_named():
    shown = lines(left_out=["l4", "t4"], reserved={"h": 2, "s": 0})

    assert "l4, t4: no 4 nodes of one class keep the limits" in shown
    assert "reserved for all slots: 2 x h" in shown
    assert not any("reserved" in x or "keep the limits" in x for x in lines())


def test_sizes_that_were_not_decided_are_not_said_to_keep_no_limits():
    shown = lines(undecided={"l4": [1, 2, 4], "t4": [1]})

    assert "not decided in time whether so many nodes keep the limits: 1, 2, 4 of l4; 1 of t4" in shown
    assert not any("not decided" in x or "of one class" in x for x in lines())


def test_rates_and_counts_are_drawn_below_each_other_and_units_that_never_run_are_not():
    shown = lines(counts=[[1, 2, 2, 0], [0, 0, 0, 0]])

    assert "  requests/s ▂██  at most 20.0" in shown
    assert "  h          ▄██  at most 2" in shown
    assert not any(x.startswith("  s ") for x in shown)


def test_a_long_name_of_a_unit_is_drawn_as_far_as_there_is_room():
    long = replace(UNIT, node_class="a-class-with-a-very-long-name")
    drawn = [x for x in lines(units=[long, SPOT]) if "at most" in x][-3:]

    assert len({x.index("at most") for x in drawn}) == 1
    assert drawn[1].startswith("  a-class-with-a-very-long-name ")


def table(**fields: Any) -> list[str]:
    """The lines of runs, their heads first."""
    shown = lines(**fields)
    at = next(i for i, x in enumerate(shown) if x.startswith("from"))
    return [" ".join(x.split()) for x in shown[at:]]


def test_slots_in_which_the_same_runs_are_one_line_with_their_largest_rate():
    assert table(rate_rps=[5.0, 18.0, 20.0, 0.0]) == [
        "from to requests/s sized for",
        "00:00 06:00 5.00 5.00 1 h",
        "06:00 18:00 20.0 20.0 2 h, 1 s",
        "18:00 24:00 0 0 nothing",
    ]


def test_what_slots_are_sized_for_has_a_column_where_it_is_not_the_rate():
    assert table()[:2] == ["from to requests/s", "00:00 06:00 5.00 1 h"]
    assert table(sized_rps=[6.0, 24.0, 25.0, 0.0])[:3] == [
        "from to requests/s sized for",
        "00:00 06:00 5.00 6.00 1 h",
        "06:00 18:00 20.0 25.0 2 h, 1 s",
    ]


@pytest.mark.parametrize(
    ("slot_s", "spans"),
    [
        (900.0, ["00:00 00:15", "00:15 00:45", "00:45 01:00"]),
        (21_600.0, ["00:00 06:00", "06:00 18:00", "18:00 24:00"]),
        (43_200.0, ["1: 00:00 1: 12:00", "1: 12:00 2: 12:00", "2: 12:00 2: 24:00"]),
        (86_400.0, ["1: 00:00 1: 24:00", "2: 00:00 3: 24:00", "4: 00:00 4: 24:00"]),
    ],
)
def test_days_are_counted_where_there_are_several_and_end_at_24(slot_s: float, spans: list[str]):
    assert [x.startswith(span) for x, span in zip(table(slot_s=slot_s)[1:], spans, strict=True)] == [True] * 3


def test_beyond_thirty_runs_the_file_has_the_rest():
    many = {"rate_rps": [5.0] * 33, "sized_rps": [5.0] * 33, "slot_s": 1800.0}
    shown = table(**many, counts=[[t % 2 for t in range(33)], [0] * 33])

    assert len(shown) == 1 + 30 + 1
    assert shown[-1] == "… 3 more: -o schedule.csv has all"
    assert len(table(**many, counts=[[min(t, 29) % 2 for t in range(33)], [0] * 33])) == 1 + 30


def judged(usd: float, short: float, margin: float | None = None, head: float | None = None) -> Judged:
    return Judged(Policy(margin, head), usd, short)


BEFORE = Forecast(
    days=2.0,
    short=0.001,
    known_usd=80.0,
    bare=judged(82.0, 0.05, 0.0),
    fixed=judged(96.0, 0.0008, 0.2),
    table=judged(92.0, 0.001, 0.15),
    both=judged(88.0, 0.0006, 0.05, 0.1),
    alone=judged(100.0, 0.0009, None, 0.3),
)


def test_who_knows_the_day_before_alone_pays_more_and_misses_some():
    shown = lines(forecast=BEFORE)
    at = shown.index("Knowing the day before alone (2 days tried)")

    assert [" ".join(x.split()) for x in shown[at + 1 : at + 8]] == [
        "cost misses",
        "the day itself, known $80.00 0 %",
        "its table $82.00 +2 % 5 %",
        "its table +20 % $96.00 +20 % 0.08 %",
        "its table +15 % $92.00 +15 % 0.1 %",
        "its table +5 %, autoscaler +10 % $88.00 +10 % 0.06 % cheapest that misses 0.1 % at most",
        "an autoscaler +30 % $100.00 +25 % 0.09 %",
    ]


@pytest.mark.parametrize(
    ("fields", "marked"),
    [
        ({}, "its table +5 %, autoscaler +10 %"),
        ({"short": 0.05}, "its table  "),
        ({"both": judged(88.0, 0.002, 0.05, 0.1)}, "its table +15 %"),
        ({"both": judged(88.0, 0.002, 0.05, 0.1), "table": judged(92.0, 0.002, 0.15)}, "its table +20 %"),
        ({"short": 1e-5}, None),
    ],
)
def test_the_cheapest_that_misses_no_more_than_asked_is_marked(fields: dict[str, Any], marked: str | None):
    found = [x for x in lines(forecast=replace(BEFORE, **fields)) if "cheapest that misses" in x]

    assert len(found) == (marked is not None)
    assert all(x.startswith(str(marked)) for x in found)


def test_a_table_without_a_margin_is_told_once_and_a_free_day_has_no_shares():
    one = replace(BEFORE, days=1.0, known_usd=0.0, table=judged(82.0, 0.0, 0.0))
    shown = lines(forecast=one)

    assert "Knowing the day before alone (1 day tried)" in shown
    assert sum(x.startswith("its table") for x in shown) == 3
    assert next(x for x in shown if x.startswith("its table  ")).split()[2:] == ["$82.00", "5", "%"]

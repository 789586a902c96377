"""A replayed plan in a terminal: the verdict, times beside what was predicted, limits, notes, the picture."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.plans.schema import Band
from planner.reports.simulated import BLOCKS, drawn, simulated
from planner.simulate.answer import Overload, Simulated
from planner.simulate.pools import Series
from planner.simulate.promises import Promise


def band(value: float, spread: float = 0.1) -> Band:
    return Band(value=value, low=value * (1 - spread), high=value * (1 + spread))


def times(p50: float) -> dict[str, float]:
    """Means above the median, percentiles far above."""
    return {"mean": 1.1 * p50, "p50": p50, "p90": 2 * p50, "p95": 3 * p50, "p99": 4 * p50}


def series(**groups: tuple[list[float], list[float], list[float]]) -> Series:
    """By group: waiting, in work, share of the cache held, a second apart."""
    n = len(next(iter(groups.values()))[0])
    parts = [{g: np.array(own[i]) for g, own in groups.items()} for i in range(3)]
    return Series(np.arange(n) * 1.0, *parts)


QUIET = series(r1=([0.0, 1.0, 4.0, 2.0], [8.0, 8.0, 4.0, 2.0], [0.25, 0.5, 0.5, 0.0]))

KEPT = Simulated(
    arrivals="Poisson arrivals",
    routing="planned",
    seed=3,
    requests=600,
    counted=1500,
    span_s=100.0,
    rps=2.0,
    out_tok_per_s=400.0,
    ttft_ms=times(100.0),
    tpot_ms=times(20.0),
    e2e_ms=times(9000.0),
    predicted={"rps": band(2.1), "out_tok_per_s": band(420.0), "ttft_ms": band(290.0), "tpot_ms": band(66.0)},
    promises={"ttft_ms": Promise(400.0, "p95", 300.0, 0.99, True)},
    attained=0.98,
    busy={"r1": 0.5},
    steps=900,
    preempted=0,
    outcome=SimpleNamespace(series=QUIET),  # type: ignore[arg-type]
    planned_rps=2.1,
)
"""1,500 requests whose 95th percentile to the first token took 300 of 400 ms."""


def lines(width: int = 80, **fields: Any) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(simulated("plan.json", replace(KEPT, **fields), width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def cells(start: str, after: int = 0, **fields: Any) -> list[str]:
    """The cells of the line that begins so, or of one so many lines after it."""
    shown = lines(**fields)
    at = next(i for i, x in enumerate(shown) if x.startswith(start))
    return [cell.strip() for cell in shown[at + after].split("  ") if cell.strip()]


BROKEN = Promise(400.0, "p95", 500.0, 0.9, False)
GROWS = Overload(came_rps=4.0, ended_rps=2.5, unfinished=1200)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, "every limit was kept"),
        ({"promises": {"ttft_ms": BROKEN}}, "a limit was broken"),
        ({"promises": {"ttft_ms": KEPT.promises["ttft_ms"], "tpot_ms": BROKEN}}, "a limit was broken"),
        ({"promises": {}}, "no limits were asked for"),
        ({"overload": GROWS}, "more come than it serves"),
        ({"overload": GROWS, "promises": {}}, "more come than it serves"),
    ],
)
def test_the_verdict_comes_first(fields: dict[str, Any], verdict: str):
    assert lines(**fields)[:2] == [
        f"1,500 requests on plan.json: {verdict}",
        "Poisson arrivals; routing planned; seed 3",
    ]


def test_requests_that_do_not_count_are_told():
    assert "100 of 1,600 requests are to warm up and to end: not counted." in lines(requests=1600)


def test_rates_stand_beside_the_plans_and_their_band():
    assert cells("requests") == ["requests", "2.00 /s", "2.10 /s", "1.89 – 2.31"]
    assert cells("output tokens") == ["output tokens", "400 /s", "420 /s", "378 – 462"]
    sure = {**KEPT.predicted, "rps": band(2.0999999, 0.0)}
    assert cells("requests", predicted=sure) == ["requests", "2.00 /s", "2.10 /s"]


def test_below_achieved_times_is_what_was_predicted_of_the_same_percentile():
    expected = {"ttft_ms": {"mean": 120.0, "p50": 90.0}}

    assert cells("TTFT") == ["TTFT", "110 ms", "100 ms", "200 ms", "300 ms", "400 ms"]
    assert cells("TTFT", 1) == ["predicted", "290 ms"]
    assert cells("TTFT", 1, expected=expected) == ["predicted", "120 ms", "90.0 ms", "290 ms"]
    assert cells("whole") == ["whole", "9,900 ms", "9,000 ms", "18.0 s", "27.0 s", "36.0 s"]
    assert len([x for x in lines() if x.startswith("  predicted")]) == 2


@pytest.mark.parametrize(("percentile", "column"), [("mean", "mean"), ("p99", "p99")])
def test_the_prediction_stands_below_its_own_percentile(percentile: str, column: str):
    shown = lines(promises={"ttft_ms": Promise(400.0, percentile, 300.0, 0.99, True)})
    head = next(x for x in shown if x.split() == ["mean", "p50", "p90", "p95", "p99"])
    below = next(x for x in shown if x.startswith("  predicted"))

    assert below.index("290 ms") + len("290 ms") == head.index(column) + len(column)


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (
            Promise(400.0, "p95", 300.0, 0.99, True),
            "TTFT kept: p95 300 ms, limit 400 ms; 99 % of requests within it",
        ),
        (
            Promise(400.0, "mean", 404.0, 0.9, True),
            "TTFT kept but for 1.0 %: the mean 404 ms, limit 400 ms; 90 % of requests within it",
        ),
        (BROKEN, "TTFT BROKEN by 25 %: p95 500 ms, limit 400 ms; 90 % of requests within it"),
        (
            Promise(400.0, "p95", 800.0, 0.0, False),
            "TTFT BROKEN: p95 800 ms, limit 400 ms; 0 % of requests within it",
        ),
    ],
)
def test_each_limit_says_by_how_much_it_was_missed_below_twice(promise: Promise, said: str):
    assert said in lines(width=100, promises={"ttft_ms": promise})


def test_of_several_limits_those_within_all_are_told():
    both = {"ttft_ms": KEPT.promises["ttft_ms"], "e2e_ms": Promise(12_000.0, "p95", 11_000.0, 1.0, True)}
    shown = lines(promises=both)

    assert "whole kept: p95 11.0 s, limit 12.0 s; 100 % of requests within it" in shown
    assert "98 % of requests were within all limits" in shown
    assert not any("all limits" in x for x in lines())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rps": 2.4}, ["The plan, and what is predicted, is for 2.10 requests/s."]),
        ({"rps": 1.8}, ["The plan, and what is predicted, is for 2.10 requests/s."]),
        ({"rps": 9.0, "planned_rps": 0.0}, []),
        ({"found": 0.375}, ["38 % of prompt tokens were found in the servers' caches."]),
        ({"found": 0.0}, ["0 % of prompt tokens were found in the servers' caches."]),
        ({"refused": 1200}, ["1,200 requests are longer than the model takes, and were left out."]),
        (
            {"unordered": (5, 1017)},
            ["5 requests of the trace stood after later ones (the first: 1,017): put in order."],
        ),
        ({"preempted": 1000}, ["1,000 times a sequence lost its room in the cache and began again."]),
        (
            {"wires": {"h-l": 0.5, "rack": 0.031}},
            ["The link h-l was 50 % full.", "The link rack was 3.1 % full."],
        ),
        (
            {"overload": GROWS},
            [
                "OVERLOADED: 4.00 requests/s came, 2.50 ended, and the queue only grew:",
                "  1,200 were unfinished when the last one came; times mean little.",
                "The plan, and what is predicted, is for 2.10 requests/s.",
            ],
        ),
    ],
)
def test_what_else_there_is_to_know_is_a_line_each(fields: dict[str, Any], said: list[str]):
    """A load within a tenth of the plan's own needs no word; of an overload, what came counts."""
    plain = lines()

    assert [x for x in lines(**fields) if x.endswith((".", ":")) and x not in plain] == said
    assert not any(x.endswith(".") for x in plain)


def test_queues_work_and_cache_are_drawn_over_the_time_of_the_replay():
    shown = lines()
    at = shown.index("Over 3,000 ms")

    assert shown[at + 1 :] == [
        "  r1   waiting   ▂█▄ at most 4",
        "  r1   in work  ██▄▂ at most 8",
        "  r1   KV cache ▂▄▄  at most 50 %",
    ]


def test_of_many_groups_those_are_drawn_in_which_most_wait_in_their_own_order():
    many = {f"g{i}": ([float(i % 4), 0.0], [1.0, 1.0], [0.5, 0.5]) for i in range(6)}
    shown = lines(outcome=SimpleNamespace(series=series(**many)))

    assert [x.split()[0] for x in shown if "waiting" in x] == ["g1", "g2", "g3", "g5"]
    assert shown[-1] == "  and 2 groups more (-o FILE has them all)"


@pytest.mark.parametrize(("width", "columns"), [(20, 16), (60, 26), (300, 80)])
def test_the_picture_takes_the_room_there_is(width: int, columns: int):
    long = series(r1=([1.0] * 200, [1.0] * 200, [1.0] * 200))
    console = Console(file=StringIO(), width=400)
    console.print(simulated("plan.json", replace(KEPT, outcome=SimpleNamespace(series=long)), width))  # type: ignore[arg-type]

    row = next(x for x in console.file.getvalue().splitlines() if "waiting" in x)  # type: ignore[attr-defined]
    assert row.count("█") == columns


@pytest.mark.parametrize(
    ("values", "width", "most", "picture"),
    [
        ([1.0], 5, 0.0, "█"),
        ([0.0, 0.01, 8.0], 3, 0.0, " ▁█"),
        ([1.0, 0.0, 0.0, 4.0], 2, 0.0, "▂█"),
        ([1.0, 2.0], 2, 4.0, "▂▄"),
        ([8.0, 2.0], 2, 4.0, "█▂"),
        ([0.0, 5.0, 0.0, 0.0, 0.0], 2, 0.0, "█ "),
    ],
)
def test_a_column_is_the_largest_of_its_values_and_not_empty_for_a_hundredth(
    values: list[float], width: int, most: float, picture: str
):
    assert drawn(values, width, most) == picture


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=60), st.integers(1, 30))
def test_a_picture_is_as_wide_as_there_are_values_or_columns_and_full_where_most_is(values, width):
    picture = drawn(values, width)

    assert len(picture) == min(width, len(values))
    assert (max(picture, key=BLOCKS.index) == "█") == (max(values) > 0)

"""Plans side by side: what is best, what differs, how far, and what they are called."""

from __future__ import annotations

import pytest

from planner.plans.schema import Band, Plan
from planner.reports.page.blocks import Table
from planner.reports.page.compared import comparison, names
from tests.reports.samples import MIXED, ONE_NODE

LABELS = {"out_tok_per_s": "output tokens", "usd_per_hour": "cost", "watts": "power of all GPUs"}


def with_(**figures: float | None) -> Plan:
    """ONE_NODE with other figures."""
    bands = {k: None if v is None else Band(value=v, low=v, high=v) for k, v in figures.items()}
    return ONE_NODE.model_copy(update={"predicted": ONE_NODE.predicted.model_copy(update=bands)})


def row(label: str, *plans: Plan) -> tuple[list[list[str]], list[str]]:
    """The cells of a row behind its name, and how each is marked."""
    table = comparison(plans, [f"plan {i}" for i in range(len(plans))]).blocks[0]
    assert isinstance(table, Table)
    (at,) = [i for i, cells in enumerate(table.rows) if cells[0][0].plain == label]
    told = [[line.plain for line in cell] for cell in table.rows[at][1:]]
    return told, [table.marked.get((at, i + 1), "") for i in range(len(plans))]


@pytest.mark.parametrize(
    ("field", "values", "marks"),
    [
        ("out_tok_per_s", (100, 200, 50), ["", "best", "differs"]),
        ("usd_per_hour", (100, 200, 50), ["", "differs", "best"]),
        ("out_tok_per_s", (200, 200, 50), ["best", "best", "differs"]),
        ("out_tok_per_s", (200, 200, 200), ["", "", ""]),
        ("usd_per_hour", (None, 5, 4), ["differs", "differs", "best"]),
        ("usd_per_hour", (None, None, 4), ["differs", "differs", "differs"]),
        ("watts", (5, None), ["", "differs"]),
    ],
)
def test_the_best_is_marked_and_what_differs_from_the_first(field, values, marks):
    assert row(LABELS[field], *(with_(**{field: v}) for v in values))[1] == marks


def test_a_figure_is_told_with_its_change_from_the_first():
    """By hand: 100 to 150 is half as much again, to 90 a tenth less."""
    told, _ = row("output tokens", *(with_(out_tok_per_s=v) for v in (100.0, 150.0, 90.0, 100.0)))

    assert [cell[1:] for cell in told] == [[], ["+50 %"], ["−10 %"], []]
    assert row("cost", with_(usd_per_hour=None), with_(usd_per_hour=2.0))[0][0] == ["not known"]


def test_a_figure_that_is_known_of_no_plan_has_no_row():
    none = with_(usd_per_hour=None, usd_per_mtok=None)
    table = comparison([none, none], ["a", "b"]).blocks[0]

    assert isinstance(table, Table)
    assert not [cells for cells in table.rows if cells[0][0].plain.startswith("cost")]


def test_facts_are_marked_where_they_are_others():
    assert row("model", ONE_NODE, ONE_NODE)[1] == ["", ""]
    assert row("cluster", ONE_NODE, MIXED)[1] == ["", "differs"]
    assert len(row("a request", ONE_NODE, MIXED)[0][1]) == 2
    assert row("asked for", ONE_NODE, MIXED)[0][1][0].endswith(", 40.0 requests/s")


def test_plans_are_called_as_given_unless_two_are_called_alike():
    assert names([ONE_NODE, MIXED], ["a", "b"]) == ["a", "b"]
    alike = names([ONE_NODE, MIXED], ["a", "a"])
    assert [name[:3] for name in alike] == ["1. ", "2. "]
    assert len(set(alike)) == 2

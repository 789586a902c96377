"""A line of a trace as a request: each form's columns, dates as seconds, failed requests left out."""

from __future__ import annotations

import time

import pytest

from planner.errors import InputError
from planner.inputs.tables import Row
from planner.inputs.trace_columns import COLUMNS, Request, request_of


def of(form: str, *cells: str) -> Request | None:
    return request_of(row(form, *cells), form, COLUMNS[form])


def row(form: str, *cells: str) -> Row:
    return Row("t.csv", 7, dict(zip(COLUMNS[form], cells, strict=True)))


@pytest.mark.parametrize(
    ("form", "cells", "request_"),
    [
        ("own", ("1.5", "100", "10"), Request(1.5, 100, 10)),
        ("own", ("0", "1", "1"), Request(0.0, 1, 1)),
        ("azure", ("1970-01-01 00:00:01.5", "100", "10"), Request(1.5, 100, 10)),
        ("azure", ("1970-01-01T01:00:00+01:00", "100", "10"), Request(0.0, 100, 10)),
        ("azure", ("1970-01-02 00:00:00", "100", "10"), Request(86400.0, 100, 10)),
        ("burstgpt", ("5", "472", "18"), Request(5.0, 472, 18)),
        ("burstgpt", ("5", "472", "0"), None),
    ],
)
def test_each_form_is_read(form: str, cells: tuple[str, ...], request_: Request | None):
    assert of(form, *cells) == request_


def test_a_date_without_a_zone_is_utc_wherever_it_is_read(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        found = of("azure", "1970-01-01 00:00:01.5", "100", "10")
    time.tzset()

    assert found == Request(1.5, 100, 10)


@pytest.mark.parametrize(
    ("form", "cells", "said", "column"),
    [
        ("own", ("0", "0", "1"), "`isl` must be at least 1", "isl"),
        ("own", ("0", "1", "0"), "`osl` must be at least 1", "osl"),
        ("own", ("-1", "1", "1"), "`arrival_s` must be at least 0", "arrival_s"),
        ("own", ("0", "1.5", "1"), "`isl` must be a whole number", "isl"),
        ("own", ("", "1", "1"), "`arrival_s` is blank", "arrival_s"),
        ("own", ("0", "1e9", "1"), "`isl` must be at most", "isl"),
        ("azure", ("yesterday", "1", "1"), "`TIMESTAMP` is no time: yesterday", "TIMESTAMP"),
        (
            "azure",
            ("0001-01-01 00:00:00+23:59", "x", "1"),
            "`ContextTokens` must be a number",
            "ContextTokens",
        ),
        ("burstgpt", ("5", "x", "18"), "`Request tokens` must be a number", "Request tokens"),
        ("burstgpt", ("5", "4", "-1"), "`Response tokens` must be at least 0", "Response tokens"),
    ],
)
def test_what_is_wrong_has_its_line_and_column(form: str, cells: tuple[str, ...], said: str, column: str):
    with pytest.raises(InputError) as caught:
        of(form, *cells)

    assert caught.value.message.startswith(said)
    assert caught.value.where == f"t.csv:7, column {column}"


def test_a_long_cell_is_told_by_its_beginning():
    with pytest.raises(InputError) as caught:
        of("azure", "x" * 1000, "1", "1")
    assert caught.value.message == f"`TIMESTAMP` is no time: {'x' * 40}"


def test_a_line_that_does_not_fit_its_header_is_refused_as_such():
    with pytest.raises(InputError, match="3 cells, the header 4") as caught:
        request_of(Row("t.csv", 9, {}, "the line has 3 cells, the header 4"), "own", COLUMNS["own"])
    assert caught.value.where == "t.csv:9"

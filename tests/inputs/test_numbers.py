"""Numbers that people write: what they may be, and how they are refused."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.inputs.numbers import COUNT, NOT_NEGATIVE, POSITIVE, Range, number, whole

SMALL = Range(low=1.0, high=8.0, open=True)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (1.0, "must be greater than 1"),
        (1.001, None),
        (8.0, None),
        (8.001, "must be at most 8"),
        (float("nan"), "must be a finite number"),
        (float("inf"), "must be a finite number"),
    ],
)
def test_an_open_range_leaves_out_its_lower_end_alone(value: float, problem: str | None):
    assert SMALL.problem(value) == problem


def test_a_closed_range_has_both_ends_and_a_whole_one_nothing_between():
    assert NOT_NEGATIVE.problem(0.0) is None
    assert NOT_NEGATIVE.problem(-0.1) == "must be at least 0"
    assert COUNT.problem(2.5) == "must be a whole number"
    assert COUNT.problem(1.0) is None
    assert POSITIVE.problem(0.0) == "must be greater than 0"


@pytest.mark.parametrize(
    ("value", "read"), [("2.5", 2.5), (3, 3.0), (" 1e3 ", 1000.0), ("0x10", None), ("", None)]
)
def test_text_is_read_as_a_number_or_refused(value: object, read: float | None):
    if read is not None:
        assert number(value, "--rate", "--rate", POSITIVE) == read
        return
    with pytest.raises(InputError, match="`--rate` must be a number"):
        number(value, "--rate", "--rate", POSITIVE)


@pytest.mark.parametrize("value", [True, None, [1], {"a": 1}])
def test_what_is_no_number_is_refused_by_its_kind_with_the_unit(value: object):
    with pytest.raises(InputError, match="must be a number, got") as caught:
        number(value, "ttft_ms", "rows.csv:3", POSITIVE)

    assert caught.value.where == "rows.csv:3"
    assert caught.value.hint == "a plain number in milliseconds"


def test_a_number_out_of_range_is_refused_as_it_was_written():
    with pytest.raises(InputError, match="`--isl` must be at least 1, got 0"):
        whole("0", "--isl", "--isl")
    with pytest.raises(InputError, match=r"must be a whole number, got 1\.5"):
        whole("1.5", "--isl", "--isl")
    assert whole("12", "--isl", "--isl") == 12

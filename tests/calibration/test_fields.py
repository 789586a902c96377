"""Fields of somebody else's document: what is absent is None, nonsense an error."""

import math

import pytest

from planner.calibration.fields import Fields
from planner.errors import InputError

DATA = Fields(
    {
        "a": {"b": {"c": "2.5"}},
        "many": [{"n": 1}, "text", {"n": 2}],
        "named": {"x": {"n": 3}, "y": 7},
        "null": None,
        "flag": True,
        "words": ["  first ", "second"],
        "empty": " ",
        "inf": "inf",
        "half": 0.5,
    }
)


def test_parts_are_reached_step_by_step_and_are_empty_where_there_is_none():
    assert DATA.part("a", "b").number("c") == 2.5
    assert not DATA.part("a", "x", "y")
    assert not DATA.part("many")
    assert "c" in DATA.part("a", "b")
    assert "c" not in DATA.part("a")


def test_lists_and_named_parts_are_parts_and_what_is_no_part_is_left_out():
    assert [p.number("n") for p in DATA.parts("many")] == [1.0, 2.0]
    assert [p.number("n") for p in DATA.parts("named")] == [3.0]
    assert DATA.parts("half") == DATA.parts("missing") == []


def test_the_first_number_that_is_not_null_counts():
    assert DATA.number("missing", "null", "half", "inf") == 0.5
    assert DATA.number("null") is None
    assert DATA.number("inf") == math.inf


@pytest.mark.parametrize("name", ["flag", "words", "empty", "a"])
def test_what_is_no_number_is_an_error_that_names_it(name):
    with pytest.raises(InputError, match=f"`{name}` must be a number"):
        DATA.number(name)


def test_a_whole_number_is_one_where_nothing_is_said():
    assert DATA.whole("missing") == 1
    assert Fields({"n": "4"}).whole("n") == 4
    for wrong in (0, 2.5, -1):
        with pytest.raises(InputError):
            Fields({"n": wrong}).whole("n")


def test_text_is_the_first_that_says_something():
    assert DATA.text("missing", "empty", "words") == "first"
    assert DATA.text("half") == "0.5"
    assert DATA.text("flag", "a", "null") == ""

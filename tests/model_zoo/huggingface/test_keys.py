"""Checked look-up in a config: nested text settings, null, kinds and ranges, errors that say where."""

from __future__ import annotations

import pytest

from model_zoo.huggingface.keys import MAX_INTEGER, Keys, load
from planner.errors import InputError
from planner.reading.documents import Document

CONFIG = {"a": 1, "text_config": {"a": 2, "b": None, "n": {"x": 7}}, "b": 3, "n": {"y": 8}, "list": [1, 2]}


def keys(**more):
    return Keys(Document(CONFIG | more, "c.json"))


def test_the_text_section_is_looked_into_first_and_null_is_absent():
    told = keys()

    assert told.find("a") == ("text_config.a", 2)
    assert told.find("b") == ("b", 3)
    assert told.find("z", "a") == ("text_config.a", 2)
    assert (told.has("z"), told.path_of("z", "y"), told.path_of("b")) == (False, "z", "b")


def test_a_section_is_looked_up_on_its_own():
    section = keys().section("n")

    assert section.integer("x") == 7
    assert not section.has("y")
    assert keys().section("z") is None


@pytest.mark.parametrize("value", [True, 1.5, "4", 0, MAX_INTEGER + 1, [1]])
def test_what_is_no_integer_in_range_is_refused_with_its_place(value):
    with pytest.raises(InputError, match="expected an integer of at least 1") as caught:
        keys(k=value).integer("k")
    assert caught.value.where == "c.json, k"


def test_a_key_that_is_needed_is_named_with_its_other_names():
    with pytest.raises(InputError, match=r"missing `k` \(or `l`, `m`\): expected an integer"):
        keys().integer("k", "l", "m")
    assert keys().integer("k", default=None) is None


@pytest.mark.parametrize("value", [0, -1, float("inf"), True, "x"])
def test_numbers_are_positive_and_finite(value):
    with pytest.raises(InputError, match="a positive number"):
        keys(k=value).number("k")
    assert keys(k=2).number("k") == 2.0


def test_flags_and_texts_are_just_that():
    for look, value in ((keys(k=1).flag, "k"), (keys(k=1).text, "k")):
        with pytest.raises(InputError, match=r"true or false|a string"):
            look(value)
    assert (keys().flag("k"), keys().text("k")) == (False, "")


def test_lists_have_one_kind_and_an_entry_a_layer():
    assert keys().items("list", int) == [1, 2]
    assert keys().items("none", int) == []
    with pytest.raises(InputError, match="an integer in every entry") as caught:
        keys(k=[1, "x"]).items("k", int)
    assert caught.value.where == "c.json, k[1]"
    with pytest.raises(InputError, match=r"an entry a layer \(3\), found 2"):
        keys().items("list", int, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not JSON"), ("[1]", "a JSON object, found a list"), ('{"a": ' + "9" * 5000 + "}", "not usable")],
)
def test_a_file_that_is_no_config_says_what_it_is(tmp_path, text, says):
    path = tmp_path / "config.json"
    path.write_text(text)

    with pytest.raises(InputError, match=says):
        load(path)


def test_a_missing_file_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "none.json")


def test_what_is_wrong_is_told_with_its_line(tmp_path):
    """A byte order mark, as Windows' editors write it, is no part of the first line."""
    path = tmp_path / "c.json"
    path.write_text('\ufeff{\n "text_config": {\n  "list": [1, "x"]}}')

    with pytest.raises(InputError) as caught:
        Keys(load(path)).items("list", int)
    assert caught.value.where == f"{path}:3:15, text_config.list[1]"

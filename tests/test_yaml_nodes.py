"""YAML text to values with their places: what is read, and what is refused where."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.reading import yaml_nodes
from planner.reading.yaml_nodes import MAX_DEPTH, MAX_VALUES, TABS, YamlError, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("~", None),
        ("False", False),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("1_000", "1_000"),
        ("2001-01-01", "2001-01-01"),
        ("{1: a, true: b, 1.50: c}", {"1": "a", "true": "b", "1.50": "c"}),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_are_of_the_core_schema_and_keys_are_text(text, value):
    found = parse(text).value

    assert found == value
    assert type(found) is type(value)


def test_every_value_and_key_knows_its_line_and_column():
    root = parse("a: 1\nb:\n  - x\n  - {c: 2}\n")
    inner = root.parts["b"].parts[1]

    assert (root.line, root.column) == (1, 1)
    assert root.keys == {"a": (1, 1), "b": (2, 1)}
    assert (root.parts["a"].line, root.parts["a"].column) == (1, 4)
    assert (inner.line, inner.column) == (4, 5)
    assert (inner.parts["c"].line, inner.parts["c"].column) == (4, 9)
    assert inner.keys == {"c": (4, 6)}


def test_own_keys_win_over_merged_ones_and_earlier_merges_over_later():
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2, d: 2}\nz:\n  <<: [*x, *y]\n  c: 3\n"
    root = parse(text)

    assert root.value["z"] == {"c": 3, "a": 1, "b": 1, "d": 2}
    assert root.parts["z"].keys["a"] == (1, 8)  # where it was written


def test_an_alias_stands_where_it_is_used():
    root = parse("a: &n [1]\nb: *n\n")

    assert root.value == {"a": [1], "b": [1]}
    assert (root.parts["b"].line, root.parts["b"].column) == (2, 4)


@pytest.mark.parametrize(
    ("text", "said", "line", "column"),
    [
        ("", "the file is empty", 1, 1),
        ("a: 1\nb: 2\na: 3\n", "key `a` is given twice", 3, 1),
        ("a: *none\n", "alias `*none` has no anchor `&none` before it", 1, 4),
        ("a: &a [*a]\n", "alias `*a` contains itself", 1, 8),
        ("a: .inf\n", "`.inf` is not a finite number", 1, 4),
        ("a: .nan\n", "`.nan` is not a finite number", 1, 4),
        ("a: 1e999\n", "`1e999` is too large a number", 1, 4),
        ("a: -1e999\n", "`-1e999` is too large a number", 1, 4),
        (f"a: {'9' * 401}\n", "a number of more than 400 digits", 1, 4),
        (f"a: 0x{'f' * 4000}\n", "a number of more than 400 digits", 1, 4),
        (f"a: 0o{'7' * 4000}\n", "a number of more than 400 digits", 1, 4),
        (f"a: -{'9' * 401}\n", "a number of more than 400 digits", 1, 4),
        ("a: !!python/none x\n", "tag `!!python/none` is not allowed", 1, 4),
        ("a: !own [1]\n", "tag `!own` is not allowed", 1, 4),
        ("{[1]: 2}\n", "a key must be plain text", 1, 2),
        ("a:\n  <<: [{b: 1}, 2]\n", "`<<` merges mappings only", 2, 16),
        ("a: 1\n---\nb: 2\n", "a second document begins here", 2, 1),
        ("a: [1\nb: 2\n", "not valid YAML", 2, 2),
        ("a: \x07\n", "not valid YAML: forbidden character", 1, 4),
        ("a: 1\n b: \x07\n", "not valid YAML: forbidden character", 2, 5),
    ],
)
def test_what_cannot_be_used_is_refused_where_it_stands(text, said, line, column):
    with pytest.raises(YamlError) as caught:
        parse(text)

    assert caught.value.message.startswith(said)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ["a:\n\t- b\n", "a:\n  - b: 1\n\t  c: 2\n"])
def test_a_tab_is_told_to_be_spaces(text):
    with pytest.raises(YamlError) as caught:
        parse(text)

    assert caught.value.line == text.count("\n", 0, text.index("\t")) + 1
    assert caught.value.hint == TABS


def test_the_first_of_two_keys_is_named():
    with pytest.raises(YamlError) as caught:
        parse("k: 1\nk: 2\n")

    assert caught.value.hint == "it stands on line 1 already"


def test_a_quoted_merge_sign_is_a_key():
    assert parse("'<<': 1\n").value == {"<<": 1}


def test_numbers_of_400_digits_are_read():
    assert parse(f"a: {'9' * 400}").value == {"a": int("9" * 400)}


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 3 * MAX_DEPTH])
def test_only_so_deep_nesting_is_read(depth):
    text = "[" * depth + "]" * depth
    if depth <= MAX_DEPTH:
        assert parse(text).height == depth
        return
    with pytest.raises(YamlError, match=f"nested more than {MAX_DEPTH} deep"):
        parse(text)


def test_an_alias_counts_with_its_own_depth():
    half = MAX_DEPTH // 2
    deep = "a: &a " + "[" * half + "]" * half + "\nb: "

    assert parse(deep + "[" * (half - 1) + "*a" + "]" * (half - 1)).height == MAX_DEPTH
    with pytest.raises(YamlError, match="nested more than"):
        parse(deep + "[" * half + "*a" + "]" * half)


def test_aliases_are_counted_as_if_they_were_written_out():
    """By hand: ten levels of ten are 10^10 values in a kilobyte; five of them 10^5 and their lists."""
    rows = ["a0: &a0 [" + ",".join("1" * 10) + "]"]
    rows += [f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 10)]
    small = parse("\n".join(rows[:3]))

    assert small.size == 1 + 11 + 111 + 1111
    with pytest.raises(YamlError, match=f"more than {MAX_VALUES:,} values") as caught:
        parse("\n".join(rows))
    assert caught.value.line == 5


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<é", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=30)
@given(value=VALUES)
def test_json_is_read_as_json_reads_it(value):
    assert parse(json.dumps(value)).value == value


@settings(max_examples=60)
@given(text=st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_place(text):
    found = None
    try:
        parse(text)
    except YamlError as error:
        found = error

    assert found is None or min(found.line, found.column) >= 1


def long(entry: str) -> str:
    """A long list of entries alike."""
    return "".join(f"{entry}\n" for _ in range(yaml_nodes.LONG // len(entry)))


@pytest.mark.parametrize(
    "entry",
    [
        "- {name: a, count: 3, price: 1.5e3, spot: yes, at: 0o17, on: true, no: ~, text: '3'}",
        '- name: b # a comment\n  devices: &d [h100, "l4"]\n  again: *d\n  text: |\n    one\n    two',
    ],
)
def test_a_long_text_is_read_alike_and_not_by_the_slow_parser(entry, monkeypatch):
    text = long(entry)
    slow = yaml_nodes._built(yaml_nodes._events(text))
    monkeypatch.setattr(yaml_nodes, "_events", lambda text: pytest.fail("by the slow parser"))

    assert parse(text) == slow


def test_what_is_wrong_in_a_long_text_is_said_in_the_same_words():
    text = long("- {name: a}") + "- {name: \n- [b\n"
    with pytest.raises(YamlError) as slow:
        yaml_nodes._built(yaml_nodes._events(text))
    with pytest.raises(YamlError) as quick:
        parse(text)

    assert (str(quick.value), quick.value.line) == (str(slow.value), slow.value.line)

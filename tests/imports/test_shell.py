"""Shell text read without being run: words, environments, variables, arrays, here-documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.imports.shell import Command, filled, script


def argvs(text: str) -> list[tuple[str, ...]]:
    return [c.argv for c in script(text).commands]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b && c || d; e | f &", [("a", "b"), ("c",), ("d",), ("e",), ("f",)]),
        ("a 'b c' \"d e\"", [("a", "b c", "d e")]),
        ("a \\\n  b \\\n  c", [("a", "b", "c")]),
        ("a 'b\nc'", [("a", "b\nc")]),
        ("a > log 2>&1 b", [("a", "b")]),
        ("a 2> log", [("a",)]),
        ("# a b\nc # d", [("c",)]),
        ("if x; then\n  a\nfi", [("if", "x"), ("a",)]),
        ("a\r\nb\r\n", [("a",), ("b",)]),
    ],
)
def test_lines_are_commands_and_their_words(text, found):
    assert argvs(text) == found


def test_comments_start_nothing():
    assert [c.argv for c in script("# vllm serve m\nrun").commands] == [("run",)]


def test_assignments_before_a_command_are_its_own_and_exported_ones_are_everybodys():
    first, second = script("export A=1\nB=2 one\ntwo").commands

    assert first == Command(("one",), {"A": "1", "B": "2"})
    assert second == Command(("two",), {"A": "1"})


def test_small_variables_fill_words_but_are_in_no_environment():
    (command,) = script("n=4\nrun --n $n ${n}x ${m:-8} $unknown").commands

    assert command == Command(("run", "--n", "4", "4x", "8", "$unknown"), {})


def test_arrays_are_words_over_several_lines():
    assert argvs("ARGS=(--a 1\n  --b 'c d')\nrun ${ARGS[@]} end") == [
        ("run", "--a", "1", "--b", "c d", "end")
    ]


def test_a_here_document_is_the_file_that_it_is_written_to():
    read = script("cat > conf.yaml <<'EOF'\na: 1\n  b: $X\nEOF\nrun --config conf.yaml")

    assert read.files == {"conf.yaml": "a: 1\n  b: $X\n"}
    assert [c.argv for c in read.commands] == [("run", "--config", "conf.yaml")]


def test_a_word_that_is_a_variable_may_be_several_words():
    assert filled("$A", {"A": "x 'y z'"}) == ["x", "y z"]
    assert filled("$A", {"A": "it's"}) == ["it's"]  # no shell words: as it stands
    assert filled("a$A", {"A": "x y"}) == ["ax y"]


@given(st.text(alphabet="ab$\\'\"{}()<>|&;# \n=-", max_size=60))
def test_any_text_is_read_without_an_error(text):
    script(text)

"""YAML of other programs: every document as plain values, and errors with their line."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.imports.yaml import load, load_all, named


def test_all_documents_are_read_but_empty_ones():
    assert load_all("a: 1\n---\n---\n[b, 2]\n---\n# nothing\n") == [{"a": 1}, ["b", 2]]
    assert load("---\n---\na: 1\n---\nb: 2\n") == {"a": 1}
    assert load("") is None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: [1\n", "x.yaml:2:1"),
        ("a: 1\n b: 2\n", "x.yaml:2:3"),
        ("a: 1\na: 2\n", "x.yaml:2:1"),
        ("? [a, {b: 1}]\n: 2\n", None),
        ("a: *b\n", "x.yaml:1:4"),
        ("a: !!python/object:os.system x\n", "x.yaml:1:4"),
        ("a: 2024-13-45\n", None),
        ("a: \x00\n", None),
        ("[" * 600, None),
    ],
)
def test_what_is_no_yaml_is_refused_where_it_stands(text: str, where: str | None):
    with pytest.raises(InputError, match=r"^no YAML: .") as caught:
        load_all(text, "x.yaml")

    assert (caught.value.where or "").startswith("x.yaml")
    assert where is None or caught.value.where == where


FILES = {"/etc/engine/extra.yaml": "a: 1", "list.yaml": "[1]", "empty.yaml": ""}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("extra.yaml", {"a": 1}),
        ("/somewhere/else/extra.yaml", {"a": 1}),
        ("list.yaml", {}),
        ("empty.yaml", {}),
        ("tra.yaml", {}),
    ],
)
def test_a_configuration_is_found_by_its_name_in_any_folder(path: str, found: dict[str, int]):
    assert named(path, FILES) == found

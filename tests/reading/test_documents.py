"""Files that users write: what is read, and what is refused, where, with which hint."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs.schema import Cluster
from planner.errors import InputError
from planner.inputs.workload import Workload
from planner.reading.documents import MANY_LINES, Document, read, read_bytes, read_text
from planner.reading.validation import validate
from planner.studies.grid import Sweep

LAB = """\
name: lab
nodes:
  - name: h
    count: 3
    device: h100-sxm
    host: {memory_gb: 1024, gb_per_s: 300}
"""


def refused(text: str, model: type[Any] = Cluster) -> InputError:
    """The error that reading this text as a `model` ends in."""
    with pytest.raises(InputError) as caught:
        validate(read_text(text, "lab.yaml"), model)
    assert caught.value.exit_code == 2
    return caught.value


def test_positions_count_lines_and_columns_from_one():
    document = read_text(LAB, "lab.yaml")

    assert document.position(("nodes", 0, "device")) == "lab.yaml:5:13"
    assert document.where(("nodes", 0, "device")) == "lab.yaml:5:13, nodes[0].device"
    assert document.position(("nodes", 0, "count"), of_key=True) == "lab.yaml:4:5"
    assert document.position(("nodes", 0, "absent")) == "lab.yaml:3:5"


def test_json_and_yaml_of_the_same_content_are_the_same_data():
    assert read_text(json.dumps(read_text(LAB, "a").data), "b").data == read_text(LAB, "a").data


def test_positions_are_known_in_json_too():
    error = refused('{\n  "nodes": [\n    {"device": "t4", "count": 0}]}')

    assert error.where == "lab.yaml:3:31, nodes[0].count"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("0x10", 16), ("0o17", 15), ("1e3", 1000.0), (".5", 0.5), ("-3", -3), ("true", True),
        ("null", None), ("~", None), ("", None), ("yes", "yes"), ("'8'", "8"),
        ("10_000", "10_000"), ("!!str 8", "8"),
    ],
)  # fmt: skip
def test_scalars_follow_the_yaml_1_2_core_schema(text: str, value: object):
    found = read_text(f"a: {text}\n", "x").data["a"]

    assert found == value
    assert type(found) is type(value)


def test_merge_keys_fill_in_what_is_absent():
    document = read_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n", "x")

    assert document.data["b"] == {"x": 1, "y": 3}
    assert document.position(("b", "x")) == "x:1:11"


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("a: [1\n", "not valid YAML", "lab.yaml:2:1"),
        ("a: b: c\n", "not valid YAML", "lab.yaml:1:5"),
        ("a: 1\na: 2\n", "`a` is given twice", "lab.yaml:2:1"),
        ('{"a": 1,\n "a": 2}', "`a` is given twice", "lab.yaml:2:2"),
        ("a: .nan\n", "not a finite number", "lab.yaml:1:4"),
        ("a: -.inf\n", "not a finite number", "lab.yaml:1:4"),
        ('{"a": NaN}', "not a finite number", "lab.yaml:1:7"),
        ('{"a": 1e999}', "too large", "lab.yaml:1:7"),
        ("a: " + "9" * 5000, "more than 400 digits", "lab.yaml:1:4"),
        ("a: 1\n---\nb: 2\n", "second document", "lab.yaml:2:1"),
        ("a: !!python/object:os.system x\n", "tag `!!python/object:os.system`", "lab.yaml:1:4"),
        ("a: !secret x\n", "tag `!secret`", "lab.yaml:1:4"),
        ("a: &a [1, *a]\n", "contains itself", "lab.yaml:1:11"),
        ("a: *b\n", "no anchor", "lab.yaml:1:4"),
        ("[1, 2]: x\n", "key must be plain text", "lab.yaml:1:1"),
        ("<<: 5\n", "merges mappings only", "lab.yaml:1:5"),
        ("[" * 5000, "nested more than", "lab.yaml:1:65"),
        ('{"a":' * 5000, "nested more than", "lab.yaml:1:321"),
        ("# nothing\n", "empty", "lab.yaml:1:1"),
        ("a: \x01\n", "forbidden character", "lab.yaml:1:4"),
        ('a: "good\\rbad"\n', "a control character, U+000D", "lab.yaml:1:4, a"),
        ('{"a": ["good\\rbad"]}', "a control character, U+000D", "lab.yaml:1:8, a[0]"),
        ('{"a": 0x' + "f" * 4000 + "}", "more than 400 digits", "lab.yaml:1:7"),
        ('{"a": 1' + "0" * 4000 + "}", "more than 400 digits", "lab.yaml:1:7"),
    ],
)
def test_text_that_is_no_document_is_refused_where_it_goes_wrong(text: str, message: str, where: str):
    error = refused(text)

    assert message in error.message
    assert error.where == where


def test_an_alias_bomb_is_refused_before_it_expands():
    letters = "abcdefghij"
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise(letters)]

    assert "expands to more than 100,000 values" in refused("\n".join(lines)).message


def test_chained_aliases_cannot_nest_without_end():
    lines = ["a0: &a0 [1]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 200))]

    assert "nested more than" in refused("\n".join(lines)).message


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("device:", "devcie:", "unknown field `devcie`", "did you mean `device`?"),
        ("memory_gb", "memory_gib", "unknown field `memory_gib`", "write `memory_gb: 1099.51`"),
        ("count: 3", "count: 0", "`count` must be at least 1, got 0", None),
        ("count: 3", "count: -1", "`count` must be at least 1, got -1", None),
        ("count: 3", "count: '3'", '`count` must be a whole number, got text "3"', "write 3 without quotes"),
        ("count: 3", "count: true", "`count` must be a whole number, got true", None),
        ("count: 3", "count: 3.0", "`count` must be a whole number, got 3.0", "write 3"),
        ("count: 3", "count: 2.5", "`count` must be a whole number, got 2.5", None),
        ("count: 3", "count:", "`count` must be a whole number, got nothing", None),
        ("1024", "80x", '`memory_gb` must be a number, got text "80x"', "a plain number in GB (1e9 bytes)"),
        ("1024", "1_024", '`memory_gb` must be a number, got text "1_024"', "write 1024"),
        ("1024", "0", "`memory_gb` must be greater than 0, got 0", None),
        ("h100-sxm", "100", "`device` must be text, got 100", 'write "100" in quotes'),
        ("device: h100-sxm", "spot: true", "`device` is missing", None),
        ("device: h100-sxm", "device: t4\n    nic: infinibnd", "`nic` must be 'infiniband'", "`infiniband`?"),
        ("name: lab\n", "links: [{between: [a], gb_per_s: 1}]\n", "must name two zones or nodes", None),
        ("name: lab\n", "links: [{between: [a, b], gb_per_s: 0}]\n", "must be greater than 0", None),
        ("name: lab\n", "links: [3]\n", "`links[0]` must be named fields (`key: value`), got 3", None),
        ("name: lab\n", "links: [{between: [a, 7], gb_per_s: 1}]\n", "`between[1]` must be text", '"7"'),
    ],
)  # fmt: skip
def test_a_wrong_field_is_told_with_what_was_expected(old: str, new: str, message: str, hint: str | None):
    error = refused(LAB.replace(old, new, 1))

    assert message in error.message
    assert hint is None or hint in (error.hint or "")
    assert (error.where or "").startswith("lab.yaml:")


def test_of_several_mistakes_the_first_is_told_in_full_and_the_others_briefly():
    error = refused(
        LAB.replace("count: 3", "count: 0").replace("1024", "-1").replace("name: lab", "nmae: lab")
    )

    assert error.message == "unknown field `nmae`"
    assert error.where == "lab.yaml:1:1, nmae"
    assert "also wrong: lab.yaml:4:12, nodes[0].count: `count` must be at least 1, got 0" in (
        error.hint or ""
    )
    assert "nodes[0].host.memory_gb" in (error.hint or "")


def test_a_short_form_keeps_its_own_place_in_errors():
    assert refused("isl: -5\n", Workload).where == "lab.yaml:1:6, isl"


def test_fields_with_an_alias_are_suggested_as_they_are_written():
    error = refused("vary: {isl: {frm: 1, to: 2, count: 2}}", Sweep)

    assert "`from`" in (error.hint or "")


@pytest.mark.parametrize("text", ["5", "[1, 2]", "text", "null"])
def test_a_document_must_be_a_mapping(text: str):
    assert "expected named fields" in refused(text).message


def test_a_document_without_text_names_only_its_path():
    error = Document({"nodes": []}, "--gpus").error("wrong", ("nodes", 0))

    assert error.where == "--gpus, nodes[0]"


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    files = {
        "empty.yaml": b" \n",
        "binary.yaml": b"a: \x00\x01",
        "latin.yaml": b"name: lab\nzone: caf\xe9\n",
        "huge.yaml": b"a" * 10_000_001,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    words = {
        "empty.yaml": "is empty",
        "binary.yaml": "is binary",
        "latin.yaml": "not UTF-8",
        "huge.yaml": "10 MB",
    }
    words |= {
        "": "is a directory",
        "absent.yaml": "no such file",
        "a\0b": "cannot read",
        "x" * 5000: "cannot read",
    }

    for name, message in words.items():
        with pytest.raises(InputError, match=message):
            read(tmp_path / name)


def test_a_missing_file_names_its_neighbour(tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text(LAB)

    with pytest.raises(InputError) as caught:
        read(tmp_path / "clutser.yaml")
    assert "cluster.yaml" in (caught.value.hint or "")


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b" \t\n"])
def test_a_text_of_blank_lines_is_refused_and_one_of_short_ones_is_read(tmp_path: Path, ends: bytes):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" + (MANY_LINES + 1) * ends)
    with pytest.raises(InputError, match="mostly blank"):
        read_bytes(path, 10**9)
    path.write_bytes((MANY_LINES + 1) * b"1,2\n")
    assert len(read_bytes(path, 10**9)) == 4 * (MANY_LINES + 1)


def test_carriage_returns_end_lines_or_are_refused(tmp_path: Path):
    path = tmp_path / "a.yaml"
    for ends in ("\r", "\r\n", "\r\r\n"):
        path.write_bytes(f"a: 1{ends}b: 2{ends}".encode())
        assert read(path).data == {"a": 1, "b": 2}
    path.write_bytes(b"a: good\rbad: 1\n")
    with pytest.raises(InputError, match="a control character, U\\+000D"):
        read(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path):
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfname: lab\n")

    assert read(tmp_path / "bom.yaml").data == {"name": "lab"}


NAMES = st.sampled_from(
    ["name", "nodes", "device", "count", "links", "between", "slo", "isl", "buckets", "x", "<<"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["h100", "80GB"]),
)
STRUCTURES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=150)
@given(data=st.dictionaries(NAMES, STRUCTURES, max_size=4), model=st.sampled_from([Cluster, Workload, Sweep]))
def test_any_structure_is_a_model_or_an_input_error(data: dict[str, Any], model: type[Any]):
    with suppress(InputError):
        assert isinstance(validate(read_text(json.dumps(data), "any.json"), model), model)


@settings(max_examples=250)
@given(
    text=st.one_of(st.text(max_size=60), st.text(alphabet="ab:-?[]{}&*!|>'\"%@#, \n\t<1.0~\\x", max_size=60))
)
def test_any_text_is_a_document_or_an_input_error(text: str):
    with suppress(InputError):
        json.dumps(read_text(text, "any.yaml").data)

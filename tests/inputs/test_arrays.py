"""Arrays in files, told apart by what they contain and refused where they are none."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.inputs import arrays
from planner.inputs.arrays import member, numbers, read_any

SMALL = np.arange(6.0).reshape(2, 3)
AXES = ("step", "layer", "expert")


def test_arrays_of_numpy_and_lists_of_json_are_the_same(tmp_path: Path):
    np.save(tmp_path / "a", SMALL)
    (tmp_path / "a.txt").write_text(json.dumps(SMALL.tolist()))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in SMALL.tolist()))

    for name in ("a.npy", "a.txt", "a.jsonl"):
        assert numbers(read_any(tmp_path / name), name, AXES).tolist() == SMALL.tolist()


def test_a_file_of_several_arrays_has_them_by_name(tmp_path: Path):
    np.savez(tmp_path / "a", loads=SMALL, other=SMALL + 1)
    found = read_any(tmp_path / "a.npz")

    assert member(found, ["loads"], "a.npz").tolist() == SMALL.tolist()
    assert member(found, ["counts", "other"], "a.npz").tolist() == (SMALL + 1).tolist()
    with pytest.raises(InputError, match="has no array `load`") as caught:
        member(found, ["load"], "a.npz")
    assert "`loads`" in (caught.value.hint or "")


def test_the_only_array_needs_no_name():
    assert member({"version": 1, "x": [1, 2]}, ["loads"], "a") == [1, 2]
    with pytest.raises(InputError, match="has no array"):
        member({}, ["loads"], "a")


def test_text_of_another_kind_is_not_read_here(tmp_path: Path):
    (tmp_path / "a.csv").write_text("layer,expert,tokens\n0,0,3\n")

    assert read_any(tmp_path / "a.csv") is None


def test_a_small_zip_of_more_than_a_gigabyte_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two files of zeros in a thousandth of their size, with a lower limit."""
    np.savez_compressed(tmp_path / "a", x=np.zeros(10**5), y=np.zeros(10**5))
    monkeypatch.setattr(arrays, "MAX_BYTES", 1_700_000)
    assert len(read_any(tmp_path / "a.npz")) == 2

    assert (tmp_path / "a.npz").stat().st_size < 10_000
    monkeypatch.setattr(arrays, "MAX_BYTES", 1_000_000)
    with pytest.raises(InputError, match="holds more than 1 MB"):
        read_any(tmp_path / "a.npz")


def test_small_numbers_that_would_grow_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrays, "MAX_BYTES", 7_999)
    with pytest.raises(InputError, match="an array of 1,000 numbers"):
        numbers(np.zeros((10, 10, 10), dtype=bool), "a.npy", AXES)


def test_a_pickle_is_refused_without_being_read(tmp_path: Path):
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(InputError, match="may run code"):
        read_any(path)


@pytest.mark.parametrize("text", ["[1, 2", '{"a": 1,}', "[1]\n{2"])
def test_broken_json_is_refused_with_its_line(tmp_path: Path, text: str):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not valid JSON") as caught:
        read_any(path)
    assert (caught.value.where or "").startswith(f"{path}:")


def test_a_damaged_array_is_refused(tmp_path: Path):
    np.save(tmp_path / "a", SMALL)
    path = tmp_path / "a.npy"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot read"):
        read_any(path)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([[1, 2], [3]], "layer 1: 1 experts, and 2 before it"),
        ([[1, 2], 3], "layer 1: expected a list of experts, got"),
        ([[1, "x"]], "layer 0, expert 1: expected a number, got"),
        ([[[1], [2]], [[3], ["y"]]], "step 1, layer 1, expert 0: expected a number"),
        ([[[[1, "z"]]]], "item 0, item 0, item 0, item 1: expected a number"),
        ("hello", "expected an array of numbers, got"),
        (np.array(["a"]), "expected an array of numbers, got"),
    ],
)
def test_what_keeps_lists_from_being_an_array_is_named_where_it_stands(value: Any, said: str):
    with pytest.raises(InputError) as caught:
        numbers(value, "loads.json", AXES)

    assert caught.value.message.startswith(said)
    assert caught.value.where == "loads.json"

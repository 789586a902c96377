"""Loads of experts from tables, arrays and recorders; what is wrong with them is said with its layer."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.inputs.expert_loads import MOST_STEPS, read_expert_loads
from planner.inputs.torch_files import KINDS, read_torch

TWO_LAYERS = [[3.0, 1.0], [2.0, 2.0]]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def table(path: Path, *rows: str, columns: str = "layer,expert,tokens") -> Path:
    return written(path / "loads.csv", "\n".join([columns, *rows]) + "\n")


class Tensor:
    """Stands for torch's in files that `saved` writes as `torch.save` does."""

    def __init__(self, values: Any, dtype: str) -> None:
        self.array = np.asarray(values, dtype=dtype)


def saved(path: Path, data: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`data` with Tensors in the zip layout of `torch.save`."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2() -> None:
        raise AssertionError("only its name is written")

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    for kind in KINDS:
        made = type(kind, (), {"__module__": "torch"})
        setattr(torch, kind, made)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)
    kinds = {np.dtype(kind): name for name, kind in KINDS.items()}
    stored: list[np.ndarray] = []

    class Storage:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            if not isinstance(obj, Storage):
                return None
            stored.append(obj.array)
            kind = getattr(torch, kinds[obj.array.dtype])
            return ("storage", kind, str(len(stored) - 1), "cuda:0", obj.array.size)

        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, Tensor):
                return NotImplemented
            a = obj.array
            strides = tuple(s // a.itemsize for s in a.strides)
            return _rebuild_tensor_v2, (Storage(a), 0, a.shape, strides, False, OrderedDict())

    buffer = io.BytesIO()
    Pickler(buffer, protocol=2).dump(data)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("dump/data.pkl", buffer.getvalue())
        for i, array in enumerate(stored):
            file.writestr(f"dump/data/{i}", array.tobytes())
    return path


def test_a_table_in_any_order_keeps_the_models_layer_numbers(tmp_path: Path) -> None:
    loads = read_expert_loads(table(tmp_path, "5,1,1", "3,0,3", "3,1,1", "5,0,2.5"))

    assert loads.tokens.tolist() == [[[3.0, 1.0], [2.5, 1.0]]]
    assert loads.layers == (3, 5)


def test_a_table_with_steps_is_one_array_a_step(tmp_path: Path) -> None:
    rows = [f"{step},7,{expert},{10 * step + expert}" for step in (1, 2) for expert in (0, 1)]
    loads = read_expert_loads(table(tmp_path, *rows, columns="step,layer,expert,tokens"))

    assert loads.tokens.shape == (2, 1, 2)
    assert loads.total.tolist() == [[30.0, 32.0]]


@pytest.mark.parametrize("form", ["json", "npy", "npz", "named", "object"])
def test_arrays_of_every_form_are_the_same_loads(tmp_path: Path, form: str) -> None:
    path, array = tmp_path / f"loads.{form}", np.array(TWO_LAYERS)
    if form == "json":
        written(path, json.dumps(TWO_LAYERS))
    elif form == "object":
        written(path, json.dumps({"tokens": TWO_LAYERS, "layers": [3, 4]}))
    elif form == "npy":
        with path.open("wb") as file:
            np.save(file, array)
    else:
        with path.open("wb") as file:
            np.savez(file, **({"tokens": array, "layers": [3, 4]} if form == "named" else {"any": array}))
    loads = read_expert_loads(path)

    assert loads.tokens.tolist() == [TWO_LAYERS]
    assert loads.layers == ((3, 4) if form in ("named", "object") else None)


def test_an_array_that_an_old_python_wrote_is_read_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "loads.npy"
    with path.open("wb") as file:
        np.save(file, np.array(TWO_LAYERS))
    old = path.read_bytes()
    shape = str(np.array(TWO_LAYERS).shape)
    path.write_bytes(old.replace(f"{shape}, }} ".encode(), f"{shape[:-1]}L), }}".encode(), 1))
    assert path.read_bytes() != old

    assert read_expert_loads(path).tokens.tolist() == [TWO_LAYERS]


def test_sglangs_statistics_leave_out_dense_layers_and_steps_not_yet_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = np.zeros((4, 3, 2), dtype="i4")
    count[0, 1:], count[1, 1:] = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
    data = {"rank": 0, "logical_count": Tensor(count, "i4"), "average_utilization_rate_over_window": None}
    loads = read_expert_loads(saved(tmp_path / "dump.pt", data, monkeypatch))

    assert loads.tokens.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert loads.layers == (1, 2)


def test_many_steps_of_a_dump_are_summed_in_runs(tmp_path: Path) -> None:
    counts = [[[i + 1, 1]] for i in range(3 * MOST_STEPS)]
    loads = read_expert_loads(written(tmp_path / "dump.json", json.dumps({"logical_count": counts})))

    assert loads.tokens.shape == (MOST_STEPS, 1, 2)
    assert loads.tokens[1].tolist() == [[4 + 5 + 6, 3]]


def test_sglangs_passes_add_up_over_ranks_and_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 1):
        counts = [[[1, 2, 4]], [[8, 0, 1]]]
        records = [
            {"forward_pass_id": i, "rank": rank, "global_physical_count": Tensor(c, "i4")}
            for i, c in enumerate(counts)
        ]
        data = {"records": records, "last_physical_to_logical_map": Tensor([[0, 1, 0]], "i8")}
        saved(tmp_path / f"dump_{rank}.pt", data, monkeypatch)

    assert read_expert_loads(tmp_path).tokens.tolist() == [[[10, 4]], [[18, 0]]]


def test_vllms_records_add_up_over_replicas(tmp_path: Path) -> None:
    meta = {"record_type": "eplb_load_meta", "version": 1}
    stats = {
        "record_type": "eplb_load_stats",
        "step": 7,
        "expert_load": [[10, 1, 5], [2, 8, 1]],
        "p2l_map": [[0, 1, 1], [0, 1, 0]],
    }
    path = written(tmp_path / "stats.jsonl", "\n".join(json.dumps(x) for x in (meta, stats, stats)))

    assert read_expert_loads(path).tokens.tolist() == 2 * [[[10, 6], [3, 8]]]


def test_a_dump_may_hold_plain_tensors_only(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return print, ("run",)

    with zipfile.ZipFile(tmp_path / "evil.pt", "w") as file:
        file.writestr("evil/data.pkl", pickle.dumps({"logical_count": Evil()}))

    with pytest.raises(InputError, match=r"holds a `builtins\.print`"):
        read_torch(tmp_path / "evil.pt")


def test_a_tensor_cannot_reach_beyond_its_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = Tensor([1, 2, 3], "i4")
    tensor.array = np.lib.stride_tricks.as_strided(tensor.array, (3,), (4,))
    path = saved(tmp_path / "dump.pt", {"logical_count": tensor}, monkeypatch)
    short = tmp_path / "short.pt"
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(short, "w") as cut:
        cut.writestr("dump/data.pkl", whole.read("dump/data.pkl"))
        cut.writestr("dump/data/0", whole.read("dump/data/0")[:8])

    with pytest.raises(InputError, match="beyond its storage"):
        read_torch(short)


def test_a_bare_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loads.pkl").write_bytes(pickle.dumps(TWO_LAYERS))

    with pytest.raises(InputError, match="pickle") as error:
        read_expert_loads(tmp_path / "loads.pkl")
    assert "savez" in str(error.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2], [float("nan"), 2]], "layer 1, expert 0: a load is no number"),
        ([[1, 2], [3, -2]], "layer 1, expert 1: a load is -2"),
        ([[1, 2], [0, 0]], "layer 1: no expert has any load"),
        ([[[1, 2], [1, 2]], [[0, 0], [1, 2]]], "step 1, layer 0: no expert has any load"),
        ([[1, 2], [3]], "layer 1: 1 experts, and 2 before it"),
        ([[[1, 2]], [[1, 2], [1, 2]]], "step 1: 2 layers, and 1 before it"),
        ([[1, "x"], [3, 4]], 'layer 0, expert 1: expected a number, got text "x"'),
        ([[1, 2], 3], "layer 1: expected a list of experts, got 3"),
        ([1, 2], r"want an array \[layers, experts\]"),
        ([], r"want an array \[layers, experts\]"),
        ({"tokens": TWO_LAYERS, "layers": [4, 3]}, "must number the 2 layers"),
        ({"a": TWO_LAYERS, "b": TWO_LAYERS}, "has no array `tokens`"),
        ({"record_type": "eplb_load_meta"}, "no record `eplb_load_stats`"),
    ],
)
def test_bad_arrays_are_refused_with_their_place(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_expert_loads(written(tmp_path / "loads.json", json.dumps(value)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["3,0,nan", "3,1,1"], "layer 3, expert 0: `tokens` must be 0 to 1e.18, got nan"),
        (["3,0,-1", "3,1,1"], "layer 3, expert 0: `tokens` must be 0 to 1e.18, got -1"),
        (["3,0,0", "3,1,0"], "layer 3: no expert has any load"),
        (["3,0,1", "3,1,1", "4,1,1"], "layer 4: no row for expert 0, and others have 2"),
        (["3,0,1", "3,0,1"], "layer 3, expert 0 is given twice"),
        (["3,0,1,9"], "4 cells, the header 3"),
        (["x,0,1"], "`layer` must be a number from 0 on, got x"),
    ],
)
def test_bad_rows_are_refused_with_their_layer(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_expert_loads(table(tmp_path, *rows))


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_expert_loads(tmp_path / "absent.csv")
    with pytest.raises(InputError, match=r"no \.pt file"):
        read_expert_loads(tmp_path)
    with pytest.raises(InputError, match=r"loads\.json:1:9"):
        read_expert_loads(written(tmp_path / "loads.json", "[[1, 2, x"))

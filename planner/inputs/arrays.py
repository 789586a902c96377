"""Arrays of numbers in JSON, .npy, .npz or `torch.save` files, told apart by content."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, nearest
from planner.inputs.torch_files import AGAIN, is_torch, read_torch
from planner.reading.documents import decoded, kind_of, read_bytes

Floats = NDArray[np.float64]
MAX_BYTES = 1_000_000_000
FLOAT_BYTES = 8


def read_any(path: str | Path) -> Any:
    """Lists, dicts and numpy arrays of the file; several JSON values, one a line, as a list of them.

    None where it is text of another kind. Raises InputError.
    """
    name, path = str(path), Path(path)
    start = _start(path)
    _check_size(path, name)
    if start[:2] == b"PK":
        return read_torch(path) if is_torch(path) else _loaded(path)
    if start[:6] == b"\x93NUMPY":
        return _loaded(path)
    if start[:1] == b"\x80":
        raise InputError(f"`{name}` is a pickle, which may run code when read: refused", name, AGAIN)
    text = decoded(read_bytes(path, MAX_BYTES), name)
    return _json(text, name) if text.lstrip()[:1] in ("[", "{") else None


def _check_size(path: Path, name: str) -> None:
    """Raises InputError for a file that holds more than `MAX_BYTES`, a zip unpacked: zeros take little room
    in it."""
    try:
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                size = max(size, sum(part.file_size for part in file.infolist()))
    except Exception:  # of a damaged directory zipfile raises whatever comes up; who reads it says so
        return
    if size > MAX_BYTES:
        raise InputError(f"`{name}` holds more than {MAX_BYTES // 1_000_000:,} MB", name)


def member(data: dict[str, Any], names: Sequence[str], path: str) -> Any:
    """The first of `names` that is in `data`, or its only array. Raises InputError."""
    for name in names:
        if name in data:
            return data[name]
    arrays = [key for key, value in data.items() if isinstance(value, list | np.ndarray)]
    if len(arrays) == 1:
        return data[arrays[0]]
    near = nearest(names[0], data, 3) if data else []
    hint = f"it has {', '.join(f'`{n}`' for n in near)}" if near else None
    raise InputError(f"`{path}` has no array `{names[0]}`", path, hint)


def numbers(value: Any, path: str, axes: Sequence[str]) -> Floats:
    """`value` as an array; `axes`: what its last axes are called, outermost first, as in ("layer", "expert").

    Raises InputError where rows differ in length, or hold what is no number.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        if value.size * FLOAT_BYTES > MAX_BYTES:
            raise InputError(f"`{path}` has an array of {value.size:,} numbers", path, "add some of them up")
        return np.asarray(value, dtype=float)
    try:
        if isinstance(value, list):
            return np.asarray(value, dtype=float)
    except (ValueError, TypeError, OverflowError):
        pass
    raise InputError(_ragged(value, axes), path, f"an array [{', '.join(f'{a}s' for a in axes)}] of numbers")


def _ragged(value: Any, axes: Sequence[str]) -> str:
    """What keeps nested lists from being an array, with where it stands."""
    if not isinstance(value, list):
        return f"expected an array of numbers, got {kind_of(value)}"
    depth, probe = 0, value
    while isinstance(probe, list) and probe:
        depth, probe = depth + 1, probe[0]
    words = list(axes[-depth:]) if depth <= len(axes) else ["item"] * depth

    def look(part: list[Any], at: list[str], level: int) -> str | None:
        length = None
        for i, row in enumerate(part):
            here = [*at, f"{words[level]} {i}"]
            if level == depth - 1:
                if isinstance(row, bool) or not isinstance(row, int | float):
                    return f"{', '.join(here)}: expected a number, got {kind_of(row)}"
                continue
            if not isinstance(row, list):
                return f"{', '.join(here)}: expected a list of {words[level + 1]}s, got {kind_of(row)}"
            if length is not None and len(row) != length:
                return f"{', '.join(here)}: {len(row)} {words[level + 1]}s, and {length} before it"
            length = len(row)
            if found := look(row, here, level + 1):
                return found
        return None

    return look(value, [], 0) or "the rows do not form an array of numbers"


def _start(path: Path) -> bytes:
    """The first bytes; `read_bytes` complains where there are none to read."""
    try:
        with path.open("rb") as file:
            return file.read(8)
    except (OSError, ValueError):
        return read_bytes(path)


def _loaded(path: Path) -> Any:
    """The array of a .npy file, the named arrays of a .npz file."""
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote: they are read all the same
            data = np.load(file, allow_pickle=False)
            return data if isinstance(data, np.ndarray) else {name: data[name] for name in data.files}
    except Exception as error:  # of damaged files numpy, zipfile and tokenize raise whatever comes up
        raise InputError(f"cannot read `{path}` as an array: {error}", str(path)) from None


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        first = error
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        line = f":{first.lineno}:{first.colno}" if isinstance(first, json.JSONDecodeError) else ""
        raise InputError(f"not valid JSON: {getattr(first, 'msg', first)}", f"{name}{line}") from None

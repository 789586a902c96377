"""What `torch.save` wrote, read without torch and without running code: containers, numbers, plain tensors.

The file is a zip of a pickle and one raw buffer a storage. The pickle may name a tensor's rebuilder and the
kinds of storage, both of which are ours here, and nothing else.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError

KINDS = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
MOST_REPEATED = 1000
"""Times that a tensor may hold each element of its storage, by strides of 0: more would fill the memory."""
AGAIN = "load it with torch and save the counts as an array: numpy.savez(FILE, tokens=counts.cpu().numpy())"


def is_torch(path: Path) -> bool:
    """Whether it is a zip as `torch.save` makes it."""
    try:
        with zipfile.ZipFile(path) as file:
            return any(name.endswith("/data.pkl") for name in file.namelist())
    except Exception:  # of a damaged directory zipfile raises whatever comes up
        return False


def read_torch(path: Path) -> Any:
    """What was saved; tensors as numpy arrays. Raises InputError where it holds anything but plain data."""
    try:
        with zipfile.ZipFile(path) as file:
            name = next(n for n in file.namelist() if n.endswith("/data.pkl"))
            with file.open(name) as pickled:
                return _Reader(pickled, file, name.removesuffix("data.pkl")).load()
    except Exception as error:  # of damaged files pickle, zipfile and zlib raise whatever comes up
        raise InputError(f"cannot read `{path}` without torch: {error}", str(path), AGAIN) from None


class _Reader(pickle.Unpickler):
    def __init__(self, pickled: Any, file: zipfile.ZipFile, folder: str) -> None:
        super().__init__(pickled)
        self.file, self.folder = file, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in KINDS:
            return KINDS[name]
        raise pickle.UnpicklingError(f"it holds a `{module}.{name}`")

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """A storage: ("storage", kind, key, device, elements)."""
        _, kind, key, *_ = pid
        if kind not in KINDS.values():
            raise pickle.UnpicklingError("it holds a storage of an unknown kind")
        return np.frombuffer(self.file.read(f"{self.folder}data/{key}"), dtype=f"<{kind}".replace("<?", "?"))


def _tensor(storage: NDArray[Any], start: int, shape: Any, strides: Any, *_: Any) -> NDArray[Any]:
    """A view of a storage, copied."""
    shape, strides = tuple(shape), tuple(strides)
    last = start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.zeros(shape, dtype=storage.dtype)
    if min((start, *shape, *strides)) < 0 or last >= storage.size:
        raise pickle.UnpicklingError("a tensor reaches beyond its storage")
    if prod(shape) > MOST_REPEATED * storage.size:
        raise pickle.UnpicklingError("a tensor repeats its storage without end")
    step = storage.itemsize
    view = np.lib.stride_tricks.as_strided(storage[start:], shape, [step * s for s in strides])
    return view.copy()

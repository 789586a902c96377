"""Finished cells on disk, so that a sweep killed at any moment goes on where it was.

While a sweep runs, each finished row is appended to `RESULTS.part` and forced to disk; a kill can tear only
the last line, and a torn line is a cell not done. When all are done, RESULTS appears, rows in cell order.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from planner.errors import InputError

Row = dict[str, Any]


class Journal:
    """The finished rows of the sweep that writes to `results`; one process at a time. Use it in a `with`."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.part = results.with_name(results.name + ".part")
        self.done: dict[str, Row] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> Journal:
        """Reads what is done, and makes ready to add to it. Raises InputError where it cannot be written."""
        self.done = _finished(self.results)
        try:
            self._file = self.part.open("a+b")
            _lock(self._file)
            self._file.seek(0)
            kept = _whole_lines(self._file.read())
            self._file.truncate(len(kept))
        except BlockingIOError:
            self._close()
            hint = "wait for it, or choose another file with -o"
            raise InputError(f"another sweep is writing `{self.results}`", hint=hint) from None
        except OSError as error:
            self._close()
            raise _cannot_write(self.results, error) from error
        self.done |= {row["key"]: row for row in _rows(kept, str(self.part))}
        return self

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, row: Row) -> None:
        """One more cell is done; when this returns, no kill can undo it."""
        assert self._file is not None
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[row["key"]] = row

    def finish(self, keys: list[str]) -> None:
        """Write the rows of `keys`, in this order, as the result; they must all be done."""
        whole = self.results.with_name(f".{self.results.name}.whole")
        with whole.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(self.done[key]) + "\n" for key in keys)
            file.flush()
            os.fsync(file.fileno())
        whole.replace(self.results)
        self.part.unlink()

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
        if not self.done:
            self.part.unlink(missing_ok=True)


def _finished(results: Path) -> dict[str, Row]:
    """Rows of an earlier run of a sweep with the same `-o`; a file of another kind is not written over."""
    if not results.exists():
        return {}
    try:
        if not results.is_file():
            raise OSError(f"it is a {'directory' if results.is_dir() else 'device'}")
        return {row["key"]: row for row in _rows(results.read_bytes(), str(results))}
    except OSError as error:
        raise _cannot_write(results, error) from error


def _cannot_write(results: Path, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(f"cannot write `{results}`: {reason}", hint="choose another file with -o")


def _rows(lines: bytes, path: str) -> list[Row]:
    """The rows in `lines`, but for those of an earlier form, which are planned again. Raises InputError where
    a line is no row of a sweep."""
    rows = []
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            row = json.loads(line)
            if not (isinstance(row["key"], str) and isinstance(row["cell"], dict)):
                raise ValueError
            if "question" in row:
                rows.append(row)
        except (ValueError, KeyError, TypeError, RecursionError):
            hint = "it would be written over: choose another file with -o"
            raise InputError("not a result of a sweep", where=f"{path}:{number}", hint=hint) from None
    return rows


def _whole_lines(content: bytes) -> bytes:
    """`content` up to its last complete line.

    >>> _whole_lines(b'{"key": 1}\\n{"ke')
    b'{"key": 1}\\n'
    """
    return content[: content.rfind(b"\n") + 1]


def _lock(file: BinaryIO) -> None:
    """Keep other sweeps away from `file` as long as it is open; a killed one keeps nobody away."""
    try:
        import fcntl
    except ImportError:  # not on this system: do without
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

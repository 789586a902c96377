"""Finished cells on disk, so that a sweep killed at any moment goes on where it was.

While a sweep runs, each finished row is appended to `RESULTS.part` and forced to disk; a kill can tear
only the last line, and a torn line is a cell not done. When all are done, RESULTS appears, rows in cell
order.

Answers that sweeps share lie in a folder by the digest of their question: each file whole, or absent. A
digest says all that an answer depends on, so a file never grows old. Several sweeps may write at once:
who comes last puts the same bytes in place.
"""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from planner.errors import InputError
from planner.reading import new_files

Row = dict[str, Any]


class Journal:
    """The finished rows of the sweep that writes to `results`; one process at a time. Use it in a `with`."""

    def __init__(self, results: Path) -> None:
        try:
            self.results = results.resolve()  # a link is written through, as by other commands
        except (OSError, ValueError, RuntimeError) as error:  # a circle of links: RuntimeError up to 3.12
            raise InputError(
                f"cannot write `{results}`: {error}", hint="choose another file with -o"
            ) from None
        self.part = self.results.with_name(self.results.name + ".part")
        self.done: dict[str, Row] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> Journal:
        """Reads what is done, and makes ready to add to it. Raises InputError where it cannot be written."""
        self.done = _finished(self.results)
        try:
            self._file = _open(self.part)
            _lock(self._file)
            self._file.seek(0)
            content = self._file.read()
            kept = _whole_lines(content)
            rows = _rows(kept, str(self.part))
            _check_torn(content[len(kept) :], str(self.part), len(rows) + 1)
            self._file.truncate(len(kept))
        except InputError:
            self._close()
            raise
        except BlockingIOError:
            self._close()
            hint = "wait for it, or choose another file with -o"
            raise InputError(f"another sweep is writing `{self.results}`", hint=hint) from None
        except OSError as error:
            self._close()
            raise _cannot_write(self.results, error) from error
        self.done |= {row["key"]: row for row in rows}
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
        whole = "".join(json.dumps(self.done[key]) + "\n" for key in keys)
        new_files.replace(self.results, whole.encode())
        self.part.unlink()

    def __exit__(self, *_: object) -> None:
        self._close()
        if not self.done:
            self.part.unlink(missing_ok=True)


def _open(part: Path) -> BinaryIO:
    """The file to which rows are added; never what a link leads to. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | new_files.NOFOLLOW | getattr(os, "O_NONBLOCK", 0)
    file = os.fdopen(os.open(part, flags | getattr(os, "O_BINARY", 0), 0o666), "a+b", closefd=True)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"`{part.name}` beside it is no file")
    return file


BEGINNING = b'{"key": "'
"""Of every row."""


def _check_torn(tail: bytes, path: str, number: int) -> None:
    """See that what stands behind the last whole line is the beginning of a row, which a kill has torn.
    Raises InputError."""
    if tail[: len(BEGINNING)] != BEGINNING[: len(tail)]:
        raise _not_a_result(path, number)


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
            raise _not_a_result(path, number) from None
    return rows


def _not_a_result(path: str, number: int) -> InputError:
    hint = "it would be written over: choose another file with -o"
    return InputError("not a result of a sweep", where=f"{path}:{number}", hint=hint)


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


KEPT = (0, 3, 4)
"""Exit codes of answers that are kept: no errors of ours, no want of time, and no file that a worker did not
find."""
LEFT_S = 86_400.0
"""Age from which on an unfinished file is that of a sweep that was killed."""


class Cache:
    """Answers in `folder`, which is made where it is not there. Raises InputError where that cannot be."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError(13, "permission denied")
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            hint = "give a folder, which may be a new one"
            raise InputError(f"cannot keep answers in `{folder}`: {reason}", "--cache", hint) from None
        for part in self.folder.glob("*/*.part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > LEFT_S:
                    part.unlink()

    def get(self, digest: str) -> dict[str, Any] | None:
        """The answer to a question; None where there is none, or what is there is damaged."""
        try:
            kept = json.loads(self._path(digest).read_bytes())
            found: dict[str, Any] = kept["answer"]
            if kept["question"] == digest and kept["sum"] == _sum(found):
                return found
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        return None

    def put(self, digest: str, answer: dict[str, Any]) -> None:
        """Keep an answer. Where the disk has no room it is not kept, which costs time and nothing else."""
        if answer["exit_code"] not in KEPT:
            return
        path = self._path(digest)
        whole = {"question": digest, "sum": _sum(answer), "answer": answer}
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            new_files.replace(path, (json.dumps(whole) + "\n").encode())

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / f"{digest}.json"


def _sum(answer: Any) -> str:
    """What tells an answer from one that was damaged on disk: NaN and figures are told to the last digit."""
    return sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()

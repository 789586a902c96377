"""CSV traces of gigabytes: a block of lines after another, 24 bytes kept of each request.

A block is read by numpy where all of it is plain numbers (and dates) in their ranges; else line by line, as
short traces are, which finds the line that is wrong or reads what only looked so (quotes, blanks). No
prompts' blocks are known of such traces: a `prefix_id` is left to the reader of short ones.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from planner.errors import InputError, squash
from planner.inputs.numbers import TOKENS
from planner.inputs.tables import row_of
from planner.inputs.trace_columns import COLUMNS, Floats, Ints, Request, request_of
from planner.reading.documents import decoded

LONG_BYTES = 50_000_000
"""Of a file, unpacked, from which on it is read in blocks."""

BLOCK_BYTES = 8_000_000

Tell = Callable[[str], None]
Arrays = tuple[Floats, Ints, Ints]


@dataclass(frozen=True)
class Columns:
    """Where the form's three columns stand, and the file's header."""

    path: str
    form: str
    header: tuple[str, ...]
    at: tuple[int, int, int]


def is_long(path: str | Path) -> bool:
    """Whether a file is a CSV of many requests without ids of their prompts."""
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        if not (_unpacks_long(raw) if packed else file.stat().st_size >= LONG_BYTES):
            return False
        with _opened(raw) as lines:
            found = _columns(str(path), lines.readline(BLOCK_BYTES))
    return found is not None and squash("prefix_id") not in {squash(c) for c in found.header}


def _unpacks_long(raw: IO[bytes]) -> bool:
    """Whether a packed file holds `LONG_BYTES` or more; False for one that is damaged."""
    left = LONG_BYTES
    try:
        with _opened(raw) as file:
            while left > 0 and (block := file.read(BLOCK_BYTES)):
                left -= len(block)
    except (OSError, EOFError, zlib.error):
        return False
    return left <= 0


def read_long(path: str | Path, tell: Tell | None = None) -> tuple[Arrays, int]:
    """Arrival [s], prompt and output tokens of all requests, (n,) each, as they stand in the file, and how
    many failed ones were left out. Raises InputError with the line."""
    name, whole = str(path), Path(path).stat().st_size
    parts: list[Arrays] = []
    count, line, dropped, blank = 0, 2, 0, 0
    with Path(path).open("rb") as raw, _opened(raw) as file:
        columns = _columns(name, file.readline(BLOCK_BYTES))
        assert columns is not None
        for block in _blocks(file, name):
            if not block.strip():
                line, blank = line + block.count(b"\n"), blank + len(block)
                if blank > LONG_BYTES:
                    raise InputError(f"`{name}` is mostly blank", f"{name}:{line}")
                continue
            arrays, failed = _quick(block, columns) or _slow(block, columns, line)
            parts.append(arrays)
            line += block.count(b"\n")
            count, dropped = count + len(arrays[0]), dropped + failed
            if tell is not None:
                tell(f"reading {name}: {count:,} requests, {100 * raw.tell() / whole:.0f} %")
    if not parts or not count:
        raise InputError(f"`{name}` has a header but no requests", f"{name}:2")
    at, isl, osl = (np.concatenate([p[i] for p in parts]) for i in range(3))
    return (at, isl, osl), dropped


def _opened(raw: IO[bytes]) -> IO[bytes]:
    """A file's bytes from their beginning, unpacked."""
    raw.seek(0)
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[return-value]


def _blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Whole lines, some megabytes at a time."""
    rest = b""
    try:
        while data := file.read(BLOCK_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > BLOCK_BYTES:
                raise InputError(f"`{name}` has a line of more than {BLOCK_BYTES // 1_000_000} MB", name)
            if end:
                yield data[:end]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot unpack `{name}`: {error}", name) from None
    if rest.strip():
        yield rest + b"\n"


def _columns(name: str, line: bytes) -> Columns | None:
    """Of a header; None where it is that of no form."""
    header = tuple(c.strip() for c in line.decode("utf-8-sig", "replace").strip().split(","))
    had = {squash(c): i for i, c in enumerate(header)}
    for form, names in COLUMNS.items():
        if all(squash(c) in had for c in names):
            first, second, third = (had[squash(c)] for c in names)
            return Columns(name, form, header, (first, second, third))
    return None


def _quick(block: bytes, columns: Columns) -> tuple[Arrays, int] | None:
    """A block of plain cells within their ranges; None where anything else is in it."""
    try:
        if columns.form == "azure":
            rows = [line.split(b",") for line in block.splitlines() if line.strip()]
            stamps = [row[columns.at[0]].decode("ascii").removesuffix("+00:00") for row in rows]
            at = np.array(stamps, dtype="datetime64[ns]").astype(np.int64) / 1e9
            isl, osl = (np.array([row[i] for row in rows]).astype(float) for i in columns.at[1:])
        else:
            table = np.loadtxt(io.BytesIO(block), delimiter=",", usecols=columns.at, ndmin=2, comments=None)
            at, isl, osl = table.T
    except (ValueError, IndexError, UnicodeDecodeError):
        return None
    failed = osl == 0 if columns.form == "burstgpt" else np.zeros(len(osl), dtype=bool)
    good = np.isfinite(at) & (at >= 0) if columns.form != "azure" else np.isfinite(at)
    for tokens in (isl, osl):
        good &= (tokens >= TOKENS.low) & (tokens <= TOKENS.high) & (tokens == np.floor(tokens))
    if not (good | failed).all():
        return None
    kept = ~failed
    return (at[kept], isl[kept].astype(np.int64), osl[kept].astype(np.int64)), int(failed.sum())


def _slow(block: bytes, columns: Columns, first: int) -> tuple[Arrays, int]:
    """Line by line; `first`: the number of its first line. Raises InputError."""
    rows: list[Request] = []
    failed = 0
    reader = csv.reader(io.StringIO(decoded(block, columns.path), newline=""), strict=True)
    names = [columns.header[i] for i in columns.at]
    try:
        for cells in reader:
            if any(c.strip() for c in cells):
                row = row_of(columns.path, first + reader.line_num - 1, columns.header, cells)
                made = request_of(row, columns.form, names)
                failed += made is None
                rows += [] if made is None else [made]
    except csv.Error as error:
        where = f"{columns.path}:{first + reader.line_num - 1}"
        raise InputError(f"not a valid CSV line: {error}", where) from None
    at = np.array([r.arrival_s for r in rows])
    isl, osl = (np.array([getattr(r, n) for r in rows], dtype=np.int64) for n in ("isl", "osl"))
    return (at, isl, osl), failed

"""Request traces: when requests came, how long they were, and which blocks of their prompts are alike.

| form | told by | blocks |
| --- | --- | --- |
| CSV `arrival_s, isl, osl` | columns | of requests with the same `prefix_id`: all of the shorter prompt |
| Azure 2023, 2024 | `TIMESTAMP, ContextTokens, GeneratedTokens` | none |
| BurstGPT | `Timestamp, Request tokens, Response tokens` | none; failed requests (no response) are left out |
| Mooncake JSONL | `timestamp` [ms], `input_length, output_length, hash_ids` | of 512 tokens |
| Qwen-Bailian JSONL | the same in seconds, with `chat_id` | of 16 tokens |
| Parquet | `arrival_s, prompt_tokens, output_tokens, prefix_blocks` | of 512 or 16 tokens; needs pyarrow |

Each may be compressed with gzip. A CSV of more than 50 MB is read in blocks (`long_traces.py`). Equal block
ids mean equal tokens up to and including the block. Mooncake's stamps are multiples of 3 s: fine for reuse
after minutes, not for burstiness.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

import numpy as np

from planner.errors import InputError, squash
from planner.inputs.long_traces import Tell, is_long, read_long
from planner.inputs.numbers import NOT_NEGATIVE, TOKENS, number, whole
from planner.inputs.parquet import BLOCKS, NEEDED, block_ids, read_columns
from planner.inputs.tables import MAX_BYTES, parse_csv
from planner.inputs.trace_columns import (
    COLUMNS,
    FORMS,
    MOONCAKE,
    QWEN,
    Floats,
    Ints,
    Request,
    adds_up,
    request_of,
    requests_of,
)
from planner.reading.documents import decoded, read_bytes, refuse_blank

OWN_BLOCK = 16
"""Tokens of the blocks that a `prefix_id` is cut into."""

MOST_BLOCKS = 20_000_000
"""Blocks of all prompts together at most: memory for them, and a minute to read them."""

BLANK_BYTES = 1_000_000
"""That are unpacked at once where a file begins with blank lines."""

MOST_LINES = 5_000_000
"""Of a packed file or of Parquet, which are not read in blocks: some 1 GB of memory."""


@dataclass(frozen=True, eq=False)
class Trace:
    """n requests in order of arrival: arrays (n,). Blocks of request i: `block[start[i] : start[i + 1]]`, ids
    in order of the prompt, each of `block_tokens` (the last may be shorter); 0: no blocks are known.
    `dropped`: failed requests that were left out. `unordered`: those that the file has after a later one,
    which are put in order, and which of its requests is the first of them, from 1 on."""

    path: str
    arrival_s: Floats
    isl: Ints
    osl: Ints
    block_tokens: int
    block: Ints
    start: Ints
    dropped: int = 0
    unordered: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.isl)

    @property
    def span_s(self) -> float:
        """From the first request to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def rate_rps(self) -> float:
        return (len(self) - 1) / self.span_s

    def at_rate(self, rate_rps: float) -> Trace:
        """With all its times stretched to a mean rate."""
        return replace(self, arrival_s=self.arrival_s * (self.rate_rps / rate_rps))


def read_trace(path: str | Path, tell: Tell | None = None) -> Trace:
    """The requests of a file, told apart by its content; `tell` hears how far a long one is. Raises
    InputError, with the line."""
    name = str(path)
    if is_long(path):
        (at, isl, osl), dropped = read_long(path, tell)
        return _ordered(name, at, isl, osl, dropped)
    raw = _unpacked(read_bytes(path, MAX_BYTES, binary=True), name)
    if raw[:4] == b"PAR1":
        return _parquet(raw, name)
    if b"\0" in raw:
        raise InputError(f"`{name}` is binary, and no Parquet or gzip", name, FORMS)
    refuse_blank(raw, name)
    text = decoded(raw, name)
    return _json_lines(text, name) if text.lstrip()[:1] == "{" else _csv(text, name)


def _unpacked(raw: bytes, name: str) -> bytes:
    """Without gzip."""
    if raw[:2] != b"\x1f\x8b":
        return raw
    too_large = InputError(f"`{name}` holds more than {MAX_BYTES // 1_000_000:,} MB", name)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while (text := file.read(BLANK_BYTES)) and not text.strip():  # blank lines are not kept
                if file.tell() > MAX_BYTES:
                    raise too_large
            text += file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot unpack `{name}`: {error}", name) from None
    if len(text) > MAX_BYTES:
        raise too_large
    if text.count(b"\n") > MOST_LINES:
        raise InputError(f"`{name}` holds more than {MOST_LINES:,} lines", name)
    return text


def _csv(text: str, name: str) -> Trace:
    table = parse_csv(text, name, ())
    columns, had = table.columns, {squash(c) for c in table.columns}
    form = next((f for f, names in COLUMNS.items() if {squash(c) for c in names} <= had), None)
    if form is None:
        raise InputError(f"no trace has the columns {', '.join(columns)[:80]}", f"{name}:1", _rename(columns))
    if not table.rows:
        raise InputError(f"`{name}` has a header but no requests", f"{name}:2")
    spelt = {squash(c): c for c in table.columns}
    named = [spelt[squash(c)] for c in COLUMNS[form]]
    rows = [request_of(row, form, named) for row in table.rows]
    prefix = spelt.get(squash("prefix_id"))
    if form == "own" and prefix:
        groups = [row.cells[prefix] or f"\n{row.line}" for row in table.rows]
        return _shared(name, [r for r in rows if r], groups)
    kept = [row for row in rows if row is not None]
    if not kept:
        raise InputError(f"all {len(rows)} requests of `{name}` failed", name)
    return _trace(name, kept, 0, len(rows) - len(kept))


def _rename(columns: Sequence[str]) -> str:
    """What to write in place of columns of no form: of the form that has most of them."""
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
        return "part the columns with commas"
    had = {squash(c) for c in columns}
    names = max(COLUMNS.values(), key=lambda form: sum(squash(c) in had for c in form))
    lacking = [c for c in names if squash(c) not in had]
    close = get_close_matches(lacking[0], [c for c in columns if c not in names], 1)
    return f"rename column `{close[0]}` to `{lacking[0]}`?" if close else FORMS


def _json_lines(text: str, name: str) -> Trace:
    rows, size = requests_of(text, name)
    return _trace(name, rows, size if any(row.blocks for row in rows) else 0)


def _parquet(raw: bytes, name: str) -> Trace:
    columns = read_columns(raw, name, MOST_LINES, MOST_BLOCKS)
    at, isl, osl = (columns[c] for c in NEEDED)
    where = [f"{name}, row {i + 1}" for i in range(len(at))]
    rows = [
        Request(
            number(t, "arrival_s", place, NOT_NEGATIVE),
            whole(a, "prompt_tokens", place, TOKENS),
            whole(b, "output_tokens", place, TOKENS),
            block_ids(own, place),
        )
        for t, a, b, own, place in zip(
            at, isl, osl, columns.get(BLOCKS, [None] * len(at)), where, strict=True
        )
    ]
    sizes = (s for s in (MOONCAKE, QWEN) if all(adds_up(row.blocks, row.isl, s) for row in rows))
    if BLOCKS not in columns:
        return _trace(name, rows, 0)
    if size := next(sizes, 0):
        return _trace(name, rows, size)
    text = "`prefix_blocks` are neither of 512 nor of 16 tokens: they do not add up to the prompts"
    raise InputError(text, name)


def _shared(name: str, rows: Sequence[Request], groups: Sequence[str]) -> Trace:
    """Prompts of one group begin alike, as far as the shorter one goes."""
    _count(sum(row.isl // OWN_BLOCK for row in rows), OWN_BLOCK, name)
    longest: dict[str, int] = {}
    for row, group in zip(rows, groups, strict=True):
        longest[group] = max(longest.get(group, 0), row.isl // OWN_BLOCK)
    first = dict(zip(longest, np.cumsum([0, *longest.values()]).tolist(), strict=False))
    made = [
        Request(row.arrival_s, row.isl, row.osl, range(first[group], first[group] + row.isl // OWN_BLOCK))
        for row, group in zip(rows, groups, strict=True)
    ]
    return _trace(name, made, OWN_BLOCK)


def _trace(name: str, rows: Sequence[Request], size: int, dropped: int = 0) -> Trace:
    """Requests by arrival, from second 0 on; block ids from 0 on."""
    if len(rows) < 2:
        raise InputError(f"`{name}` has {len(rows)} request: a rate needs two", name)
    order = sorted(range(len(rows)), key=lambda i: rows[i].arrival_s)
    by_time = [rows[i] for i in order]
    arrival = np.array([r.arrival_s for r in by_time])
    if arrival[-1] == arrival[0]:
        raise InputError(f"all requests of `{name}` come at the same time", name)
    counts = np.array([len(r.blocks) for r in by_time]) if size else np.zeros(len(rows), dtype=np.int64)
    _count(int(counts.sum()), size, name)
    return Trace(
        name,
        arrival - arrival[0],
        _ints(by_time, lambda r: r.isl),
        _ints(by_time, lambda r: r.osl),
        size,
        _numbered([r.blocks for r in by_time if size]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        dropped,
        _unordered(np.array([row.arrival_s for row in rows])),
    )


def _ordered(name: str, at: Floats, isl: Ints, osl: Ints, dropped: int) -> Trace:
    """Arrays (n,) by arrival, from second 0 on."""
    if len(at) < 2 or at.max() == at.min():
        raise InputError(f"all requests of `{name}` come at the same time", name)
    late = _unordered(at)
    if late[0]:
        order = np.argsort(at, kind="stable")
        at, isl, osl = at[order], isl[order], osl[order]
    none = np.zeros(0, dtype=np.int64)
    return Trace(name, at - at[0], isl, osl, 0, none, np.zeros(1, dtype=np.int64), dropped, late)


def _unordered(at: Floats) -> tuple[int, int]:
    """How many arrivals (n,) come after a later one, and the first of them, from 1 on."""
    late = np.flatnonzero(at < np.maximum.accumulate(at))
    return len(late), int(late[0]) + 1 if len(late) else 0


def _numbered(blocks: Sequence[Sequence[int]]) -> Ints:
    """Ids from 0 on."""
    try:
        ids = np.fromiter(chain.from_iterable(blocks), dtype=np.int64)
    except OverflowError:  # hashes of 64 bits and more
        number: dict[int, int] = {}
        return np.array([number.setdefault(b, len(number)) for b in chain.from_iterable(blocks)])
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def _count(blocks: int, size: int, name: str) -> None:
    """Raises InputError where there are too many to be looked at."""
    if blocks > MOST_BLOCKS:
        many = f"the prompts of `{name}` have {blocks:,} blocks of {size} tokens, {MOST_BLOCKS:,} at most"
        raise InputError(many, name, "give a part of the trace, or leave `prefix_id` out")


def _ints(rows: Sequence[Request], of: Callable[[Request], int]) -> Ints:
    return np.array([of(r) for r in rows], dtype=np.int64)

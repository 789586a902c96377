"""`python -m benchmarks.fuzz [--cases 20000] [--minutes 20] [--seed 0] [--jobs N] [--only KIND] [--keep
FOLDER]`.

Prints a table of what was tried and what was wrong; each failure is made as small as it goes and written to
FOLDER with its command. Exits with 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.fuzz.breaking import broken
from benchmarks.fuzz.judging import memory
from benchmarks.fuzz.kinds import KINDS, Kind
from benchmarks.fuzz.rewording import places
from benchmarks.fuzz.writing import written

CHUNK = 40
NEWER = ("script", "manifest", "several", "schedule", "prices", "simulate", "explain", "report", "export",
         "replan", "curve")  # fmt: skip
"""Parts of the names of kinds whose commands came last."""

Failure = tuple[str, int, str, bytes]


def case(kind: Kind, seed: int, number: int) -> tuple[Any, bytes]:
    """The broken value of a case, and its bytes."""
    return broken(kind.good(), kind.file, random.Random(f"{seed}/{kind.name}/{number}"))


def chunk(kind_at: int, seed: int, start: int, end: float) -> tuple[str, int, list[Failure]]:
    """Cases start … start + CHUNK of a kind: (its name, how many were tried, those that failed, made
    small)."""
    kind, failures, tried = KINDS[kind_at], [], 0
    kind.good()
    for number in range(start, start + CHUNK):
        if time.time() > end:
            break
        tried += 1
        value, data = case(kind, seed, number)
        if said := kind.fault(data):
            small = data if said.startswith("hang") else smallest(kind, value, data, said)
            failures.append((kind.name, number, said, small))
    return kind.name, tried, failures


def smallest(kind: Kind, value: Any, data: bytes, said: str, tries: int = 120) -> bytes:
    """The least of the failing file that still fails alike: entries of a tree go, or lines of a text."""
    alike = said[:25]

    def fails(tried: bytes) -> bool:
        return (kind.fault(tried) or "").startswith(alike)

    tree = value if isinstance(value, dict | list) else None
    for _ in range(tries):
        for less, new in _less(kind, tree) if tree is not None else _fewer(data):
            if (tries := tries - 1) < 0:
                return data
            if fails(new):
                tree, data = less, new
                break
        else:
            return data
    return data


def _less(kind: Kind, tree: Any) -> Iterator[tuple[Any, bytes]]:
    """The tree without one of its entries, large ones first."""
    import copy

    count = len(list(places(tree)))
    for at in range(count):
        less = copy.deepcopy(tree)
        holder, key = list(places(less))[at]
        del holder[key]
        yield less, written(kind.file, less)


def _fewer(data: bytes) -> Iterator[tuple[None, bytes]]:
    """The text without some of its lines: half of them, a quarter, …"""
    lines = data.splitlines(keepends=True)
    size = len(lines) // 2
    while size:
        for at in range(0, len(lines), size):
            yield None, b"".join(lines[:at] + lines[at + size :])
        size //= 2


def main() -> int:
    """Tries, tells, and keeps what failed."""
    parser = argparse.ArgumentParser(description="Broken files of every kind that a command reads.")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--only",
        metavar="KIND",
        help="kinds whose name contains this, or one of several parted by `|`; `newer`: those of `NEWER`",
    )
    parser.add_argument("--keep", metavar="FOLDER", type=Path, default=Path("fuzz-failures"))
    given = parser.parse_args()
    only = NEWER if given.only == "newer" else (given.only or "").split("|")
    kinds = [i for i, kind in enumerate(KINDS) if any(part in kind.name for part in only)]
    tried, failures = tried_all(kinds, given)
    print("| kind | tried | wrong |\n|---|---|---|")
    wrong = Counter(name for name, *_ in failures)
    for i in kinds:
        print(f"| {KINDS[i].name} | {tried[KINDS[i].name]:,} | {wrong[KINDS[i].name]} |")
    print(f"| **all** | {sum(tried.values()):,} | {len(failures)} |\n")
    for said, count in Counter(_class_of(failure) for failure in failures).most_common():
        print(f"- {count} x {said}")
    return int(bool(failures))


def tried_all(kinds: list[int], given: argparse.Namespace) -> tuple[Counter[str], list[Failure]]:
    """How many cases of each kind were tried, and those that failed."""
    end = time.time() + 60 * given.minutes
    tried: Counter[str] = Counter()
    failures: list[Failure] = []
    each = -(-given.cases // len(kinds))
    with ProcessPoolExecutor(given.jobs, initializer=memory, initargs=(6,)) as pool:
        chunks = [(kind, start) for start in range(0, each, CHUNK) for kind in kinds]
        running: list[Future[tuple[str, int, list[Failure]]]] = [
            pool.submit(chunk, kind, given.seed, start, end) for kind, start in chunks
        ]
        for done in as_completed(running):
            name, count, failed = done.result()
            tried[name] += count
            failures += failed
            for failure in failed:  # a run may be broken off
                keep(failure, given.keep)
                print(f"{name} {failure[1]}: {failure[2]}", file=sys.stderr, flush=True)
    return tried, sorted(failures, key=lambda failure: failure[:2])


def _class_of(failure: Failure) -> str:
    """Failures that say the same of other values are of one class."""
    return re.sub(r"`[^`]*`|'[^']*'|\d+", "…", f"{failure[0]}: {failure[2].splitlines()[0]}")[:150]


def keep(failure: Failure, folder: Path) -> None:
    """The smallest file that fails alike, and a script that shows it."""
    name, number, said, data = failure
    kind = next(kind for kind in KINDS if kind.name == name)
    short, mark = re.sub(r"\W+", "-", name), hashlib.sha1(said.encode()).hexdigest()[:6]
    place = folder / f"{short}-{mark}-{number}"
    place.mkdir(parents=True, exist_ok=True)
    for file, value in kind.beside().items():
        (place / file).write_bytes(written(file, value))
    (place / kind.file).write_bytes(data)
    (place / "run.sh").write_text(f"# {said}\nmeshwright {kind.command}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

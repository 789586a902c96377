"""Plans every cell of a grid, over all cores; a cell that fails is a row too; a killed run goes on.

A cell is known by the hash of its options, of the files they name, and of our version: what is done and
unchanged is never done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from planner.errors import MeshwrightError
from planner.plans.schema import Plan
from planner.studies.grid import FILE_OPTIONS, Cell
from planner.studies.journal import Journal, Row

WORK_LIMIT_NODES = 10_000
"""Nodes of branch and bound a cell; about a minute where one is hard."""
TIME_LIMIT_S = 600.0

Planner = Callable[..., Plan]
Progress = Callable[[int, int, int], None]


def run(cells: list[Cell], results: Path, planner: Planner, jobs: int, progress: Progress) -> list[Row]:
    """Rows of all `cells`, in order, also written to `results` (JSONL). InputError where that can't be.

    `planner` takes a cell's options by name; `progress` hears (done, of, found done) after each cell.
    """
    keys = [key(cell) for cell in cells]
    with Journal(results) as journal:
        todo = {k: cell for k, cell in zip(keys, cells, strict=True) if k not in journal.done}
        found = len(set(keys)) - len(todo)
        progress(found, len(set(keys)), found)
        for count, row in enumerate(_rows(todo, planner, jobs), start=found + 1):
            journal.add(row)
            progress(count, len(set(keys)), found)
        journal.finish(keys)
        return [journal.done[k] for k in keys]


def plan_cell(**cell: Any) -> Plan:
    """`api.plan` for a cell, whose options are named as on the command line.

    Limited by work, so that a cell has the same answer on a busy machine; the clock only ends the endless.
    """
    from planner import api

    options = {"work_limit": WORK_LIMIT_NODES, **cell}
    time_limit_s = options.pop("time_limit", TIME_LIMIT_S)
    return api.plan(options.pop("cluster", None), options.pop("model"), time_limit_s=time_limit_s, **options)


def cores() -> int:
    """Cores this process may use (control groups and affinity counted)."""
    from joblib import cpu_count

    return int(cpu_count())


def key(cell: Cell) -> str:
    """What a cell's answer depends on, hashed: its options, content of the files they name, our version."""
    from planner.version import __version__

    files = {name: _digest(cell[name]) for name in FILE_OPTIONS if name in cell}
    content = json.dumps([__version__, cell, files], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def _digest(name: str) -> str | None:
    """Hash of the file `name`; None where it is no file but a name from a catalog."""
    try:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None


def row(key: str, cell: Cell, planner: Planner) -> Row:
    """The answer to one cell, or why there is none. An interrupt is no answer: it goes through."""
    start = time.perf_counter()
    plan: Plan | None = None
    error: dict[str, str | None] | None = None
    try:
        plan = planner(**cell)
        exit_code = plan.proof.exit_code
        if plan.proof.status == "interrupted":
            raise KeyboardInterrupt
    except MeshwrightError as failure:
        exit_code, error = failure.exit_code, failure.as_json()["error"]
    except Exception as failure:  # a bug in one cell must not lose the others
        message = f"unexpected {type(failure).__name__}: {failure}"
        exit_code, error = 1, {"code": "error", "message": message, "where": None, "hint": None}
    seconds = round(time.perf_counter() - start, 6)
    return {
        "key": key,
        "cell": cell,
        "exit_code": exit_code,
        **_answer(plan),
        "error": error,
        "seconds": seconds,
    }


def _answer(plan: Plan | None) -> Row:
    """The figures of a plan that a row keeps."""
    if plan is None:
        return {"status": None, "objective": None, "gap": None, "predicted": None, "replicas": []}
    from planner.plans.text import rounded
    from planner.reports.short import short

    told = {
        "status": plan.proof.status,
        "objective": plan.proof.objective,
        "gap": plan.proof.gap,
        "predicted": plan.predicted.model_dump(),
    }
    return {**rounded(told), "replicas": [short(r) for r in plan.replicas]}


def _rows(todo: dict[str, Cell], planner: Planner, jobs: int) -> Iterator[Row]:
    """Rows of `todo` as they finish, from `jobs` processes (one: this one)."""
    if jobs == 1 or len(todo) < 2:
        yield from (row(k, cell, planner) for k, cell in todo.items())
        return
    from joblib import Parallel, delayed

    parallel = Parallel(
        n_jobs=jobs,
        backend="loky",
        batch_size=1,
        return_as="generator_unordered",
        initializer=_as_worker,
    )
    yield from parallel(delayed(row)(k, cell, planner) for k, cell in todo.items())


def _as_worker() -> None:
    """In a worker: end when the sweep was killed, rather than wait; leave stderr to the sweep."""
    parent = os.getppid()
    warnings.simplefilter("ignore")

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.05)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""Questions answered in this process, one after another, or by processes of this machine; where one of
these is killed, its question is asked again."""

from __future__ import annotations

import os
import threading
import time
import warnings
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from planner.errors import MeshwrightError
from planner.studies.pools import AHEAD, GOES_ON, Work

MOST_LOST = 3
"""Times that processes may be killed before the sweep gives up."""


class Local:
    """`jobs` processes, started with the first question."""

    def __init__(self, work: Work, jobs: int) -> None:
        self.work, self.jobs, self.broken = work, jobs, 0
        self.asked: dict[Future[Any], tuple[str, Any]] = {}
        self.executor: Any = None

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        if self.executor is not None:
            self.executor.shutdown(wait=True, kill_workers=True)

    @property
    def full(self) -> bool:
        return len(self.asked) >= AHEAD * self.jobs

    def submit(self, name: str, question: Any) -> None:
        if self.executor is None:
            from joblib.externals.loky import ProcessPoolExecutor

            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            self.executor = ProcessPoolExecutor(self.jobs, initializer=_as_worker, env=threads)
        try:
            future = self.executor.submit(self.work, question)
        except BrokenProcessPool:  # a process was killed since the last answer
            self._again()
            self.submit(name, question)
        else:
            self.asked[future] = (name, question)

    def next(self) -> tuple[str, Any]:
        while True:
            landed, _ = wait(self.asked, return_when=FIRST_COMPLETED)
            first = next(iter(landed))
            try:
                found = first.result()
            except BrokenProcessPool:
                self._again()
                continue
            name, _ = self.asked.pop(first)
            return name, found

    def _again(self) -> None:
        """New processes for what those that broke down had not answered. Raises MeshwrightError."""
        self.broken += 1
        if self.broken > MOST_LOST:
            hint = f"is there memory enough for as many --jobs? {GOES_ON}"
            raise MeshwrightError(f"processes that plan cells were killed {self.broken} times", hint=hint)
        self.executor.shutdown(wait=True, kill_workers=True)
        self.executor = None
        unanswered = [future for future in self.asked if not future.done() or future.exception() is not None]
        for future in unanswered:
            self.submit(*self.asked.pop(future))


def cores() -> int:
    """Cores this process may use (control groups and affinity counted)."""
    from joblib import cpu_count

    return int(cpu_count())


def _as_worker() -> None:
    """In a worker: end when the sweep was killed, rather than wait; leave stderr to the sweep."""
    parent = os.getppid()
    warnings.simplefilter("ignore")

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.05)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Here:
    def __init__(self, work: Work) -> None:
        self.work, self.left = work, list[tuple[str, Any]]()

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        self.left.clear()

    @property
    def full(self) -> bool:
        return bool(self.left)

    def submit(self, name: str, question: Any) -> None:
        self.left.append((name, question))

    def next(self) -> tuple[str, Any]:
        name, question = self.left.pop(0)
        return name, self.work(question)

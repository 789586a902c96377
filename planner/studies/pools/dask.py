"""Questions answered by the workers of a Dask cluster, which asks those of a lost worker again."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from planner.errors import MeshwrightError
from planner.studies.pools import AHEAD, CONNECT_S, KILLED, LOOK_S, Work, knock, lost, missing, unreachable

START = "dask scheduler --port 8786 & dask worker 127.0.0.1:8786 --nworkers 2 --nthreads 1"
ALONE_S = 300.0
"""How long the sweep waits for a worker where all are gone."""


class Dask:
    """The workers at `address`, such as "10.0.0.1:8786". Raises InputError where nobody answers there."""

    def __init__(self, work: Work, address: str) -> None:
        if find_spec("distributed") is None:
            raise missing("dask")
        import distributed

        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters of it is an error here
        self.work, self.address, self.asked = work, address, dict[Any, tuple[str, Any]]()
        try:
            knock(address)
            self.client = distributed.Client(address, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            raise unreachable("Dask", address, str(error) or type(error).__name__, START) from None
        self.workers, self.looked = 0, 0.0
        if not self._count():
            self.client.close()
            raise unreachable("Dask", address, "it has no workers", START)

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.asked.clear()
        with suppress(Exception):
            self.client.close(timeout=5)

    def _count(self) -> int:
        """Cells that can be planned at a time, looked up now and then."""
        if time.monotonic() - self.looked > LOOK_S:
            self.workers, self.looked = sum(self.client.nthreads().values()), time.monotonic()
        return self.workers

    @property
    def full(self) -> bool:
        return len(self.asked) >= AHEAD * max(self._count(), 1)

    def submit(self, name: str, question: Any) -> None:
        future = self.client.submit(self.work, question, key=f"meshwright-{name}", pure=False)
        self.asked[future] = (name, question)

    def next(self) -> tuple[str, Any]:
        future = self._landed()
        name, _ = self.asked.pop(future)
        try:
            return name, future.result()
        except MeshwrightError:
            raise
        except Exception as error:
            raise lost("Dask", _said(error)) from None

    def _landed(self) -> Any:
        """A future that is done, or never will be. Raises MeshwrightError where all workers stay away."""
        import distributed

        alone = None
        while True:
            try:
                distributed.wait(list(self.asked), timeout=LOOK_S, return_when="FIRST_COMPLETED")
            except TimeoutError:
                pass
            except Exception:  # all are cancelled
                raise lost("Dask", f"the scheduler at {self.address} is gone") from None
            for future in self.asked:
                if future.status != "pending":
                    return future
            alone = None if self._count() else (alone or time.monotonic())
            if alone and time.monotonic() - alone > ALONE_S:
                raise lost("Dask", f"there have been no workers for {ALONE_S / 60:.0f} minutes")


def _said(error: Exception) -> str:
    """What a task's failure means."""
    kind = type(error).__name__
    if kind == "KilledWorker":
        return KILLED
    if isinstance(error, ImportError):
        return f"its workers lack Meshwright ({error}): install it there, with `pip install meshwright[dask]`"
    return f"{kind}: {error}"

"""Questions answered by the nodes of a Ray cluster, a core each. Ray asks those of a lost worker again."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from planner.errors import MeshwrightError
from planner.studies.pools import AHEAD, KILLED, LOOK_S, Work, knock, lost, missing, unreachable

START = "ray start --head"
RETRIES = 3


class Ray:
    """The cluster at `address`, such as "10.0.0.1:6379". Raises InputError where nobody answers there."""

    def __init__(self, work: Work, address: str) -> None:
        if find_spec("ray") is None:
            raise missing("ray")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of a change to come
        import ray

        self.ray, self.address, self.asked = ray, address, dict[Any, tuple[str, Any]]()
        try:
            knock(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (OSError, ValueError, RuntimeError) as error:
            raise unreachable("Ray", address, str(error).splitlines()[0], START) from None
        self.task, self.work = ray.remote(num_cpus=1, max_retries=RETRIES)(_done), work
        self.cores, self.looked = 0, 0.0

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        self.asked.clear()
        with suppress(Exception):
            self.ray.shutdown()

    @property
    def full(self) -> bool:
        if time.monotonic() - self.looked > LOOK_S:
            self.cores, self.looked = int(self.ray.cluster_resources().get("CPU", 0)), time.monotonic()
        return len(self.asked) >= AHEAD * max(self.cores, 1)

    def submit(self, name: str, question: Any) -> None:
        self.asked[self.task.remote(self.work, question)] = (name, question)

    def next(self) -> tuple[str, Any]:
        landed, _ = self.ray.wait(list(self.asked), num_returns=1)
        name, _ = self.asked.pop(landed[0])
        try:
            return name, self.ray.get(landed[0])
        except MeshwrightError:
            raise
        except Exception as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, MeshwrightError):
                raise cause from None
            raise lost("Ray", _said(error)) from None


def _done(work: Work, question: Any) -> Any:
    """The work, as a function that Ray takes."""
    return work(question)


def _said(error: Exception) -> str:
    """What a task's failure means."""
    kind = type(error).__name__
    if kind in ("WorkerCrashedError", "OutOfMemoryError", "NodeDiedError"):
        return KILLED
    if "No module named" in str(error):
        return "its nodes lack Meshwright: install it there, with `pip install meshwright[ray]`"
    return f"{kind}: {str(error).splitlines()[-1]}"

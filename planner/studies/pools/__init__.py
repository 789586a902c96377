"""Who answers the questions of a sweep: this process, others on this machine, or a cluster; one file each.

The sweep hands out questions one by one and takes answers as they come, so that a pool decides neither what
is planned nor in which order it is written.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Protocol

from planner.errors import InputError, MeshwrightError

Work = Callable[[Any], Any]
"""From a question to its answer, in any process."""
AHEAD = 2
"""Questions handed out for each that can be answered at a time, so that nobody waits for the sweep."""
CONNECT_S = 20.0
"""How long a cluster may take to answer at first."""
LOOK_S = 10.0
"""Between looks at how much a cluster has."""
KILLED = "several workers in a row were lost while they planned it; is their memory enough?"
GOES_ON = "what is done is kept: the same command goes on from here"


class Pool(Protocol):
    """Takes questions under a name, and gives their answers in any order. What stands in a `with` ends it."""

    def __enter__(self) -> Pool: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def full(self) -> bool:
        """Whether enough questions are handed out for now."""

    def submit(self, name: str, question: Any) -> None:
        """Hand out one more question."""

    def next(self) -> tuple[str, Any]:
        """Wait for an answer to one of those handed out: its name, and the answer. Raises what the work
        raised, and MeshwrightError where those who answer are gone."""


Start = Callable[[Work], Pool]
"""A pool that does this work."""


def knock(address: str) -> None:
    """Raises OSError or ValueError where nobody listens at HOST:PORT, at once: libraries try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError("an address is HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def missing(library: str) -> InputError:
    """The error where a backend's library is not installed."""
    hint = f"install it with `pip install meshwright[{library}]`, on the workers, too"
    return InputError(
        f"--backend {library} needs the package {library}, which is not installed", "--backend", hint
    )


def unreachable(backend: str, address: str, why: str, start: str) -> InputError:
    """The error where no cluster answers at an address; `start`: the command that starts one."""
    return InputError(
        f"no {backend} cluster answers at `{address[:200]}`: {why}", "--address", f"start one with `{start}`"
    )


def lost(backend: str, why: object) -> MeshwrightError:
    """The error where a cluster does not answer any more, or its workers cannot plan."""
    return MeshwrightError(f"the {backend} cluster gave up on a cell: {why}", hint=GOES_ON)

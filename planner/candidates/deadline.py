"""Until when candidates are looked for; what is found by then is planned with.

It stands in a context variable, as every kind of replica, every variant and every search for a load would
have to hand it on otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from planner.errors import LONGER, OutOfTime

_UNTIL: ContextVar[float] = ContextVar("until", default=inf)


@contextmanager
def deadline(until: float) -> Iterator[None]:
    """In this block candidates are looked for until then (`time.perf_counter`), or until an earlier end that
    is in force already."""
    token = _UNTIL.set(min(until, _UNTIL.get()))
    try:
        yield
    finally:
        _UNTIL.reset(token)


@contextmanager
def share(of_what_is_left: float) -> Iterator[None]:
    """In this block candidates are looked for that share of what is left until the deadline."""
    with deadline(time.perf_counter() + of_what_is_left * left_s()):
        yield


def in_time() -> None:
    """Raises OutOfTime beyond the deadline."""
    if time.perf_counter() > _UNTIL.get():
        raise late()


def left_s() -> float:
    """Seconds until the deadline, never less than nothing; inf where there is none."""
    return max(_UNTIL.get() - time.perf_counter(), 0.0)


def late() -> OutOfTime:
    """The error where the time was over before there was any plan."""
    hint = f"{LONGER}, one --engine, or fewer buckets"
    return OutOfTime("time limit reached before any plan was found", hint=hint)

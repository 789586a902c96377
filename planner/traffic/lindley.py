"""The rate that recorded arrivals need: one queue in order of arrival, its server as fast as a whole fleet.

Request j arrives at a_j and brings the work s_j, in mean requests; served at c requests/s it waits

    W_{j+1} = max(0, W_j + s_j / c - (a_{j+1} - a_j))                     (Lindley 1952)

which in whole is X - min(0, the least X so far) of the running sum X of those differences. A fleet whose
servers share their queue waits about as long, and no rate that looks at means alone knows of it: the worst
minutes of a trace decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.inputs.trace_columns import Floats, Ints

SHARES: Final = {"mean": 0.5, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Of requests that are to be in time, by the percentile of a limit; of a mean half of them."""

WAITING: Final = 0.5
"""Of a limit on TTFT, what a queue may take of it: the rest is the prompt's own."""

ANSWER_TOKEN: Final = 4.0
"""Tokens of prompts that take a server as long as one of an answer, where no server is known: 2 to 8 on the
servers of the fit."""

CLOSE = 1e-4
"""Relative width at which the rate is found."""


@dataclass(frozen=True)
class Needed:
    """The least `rate_rps` at which enough requests wait short enough, and what sized it: the seconds
    `from_s` to `to_s` of the busy period in which waits are longest, with its `requests`."""

    rate_rps: float
    from_s: float
    to_s: float
    requests: int


def waits_s(arrival_s: Floats, work: Floats, rate_rps: float) -> Floats:
    """Seconds that each request waits (n,), of arrivals (n,) in order and their `work` (n,) in mean requests.

    >>> waits_s(np.array([0.0, 1.0, 1.5]), np.array([2.0, 1.0, 1.0]), 1.0).tolist()
    [0.0, 1.0, 1.5]
    """
    steps = work[:-1] / rate_rps - np.diff(arrival_s)
    x = np.concatenate([[0.0], np.cumsum(steps)])
    return np.asarray(x - np.minimum.accumulate(np.minimum(x, 0.0)))


def needed(arrival_s: Floats, work: Floats, wait_s: float, share: float) -> Needed:
    """The least rate at which a `share` of the requests wait no longer than `wait_s`; `work` (n,) in any
    unit, as only its proportions count. For one request: 0."""
    work = work / work.mean()
    late = int((1 - share) * len(work) + 1e-9)  # requests that may wait longer

    def good(rate: float) -> bool:
        return int((waits_s(arrival_s, work, rate) > wait_s).sum()) <= late

    span_s = float(arrival_s[-1] - arrival_s[0])
    low, high = 0.0, max(len(work) / max(span_s, 1e-9), 1e-9)
    if len(work) <= late + 1:
        return Needed(0.0, 0.0, 0.0, len(work))
    while not good(high):
        low, high = high, 2 * high
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return Needed(high, *_worst(arrival_s, waits_s(arrival_s, work, high)))


def needed_by_slot(
    arrival_s: Floats, work: Floats, ends_s: Floats, wait_s: float, share: float
) -> list[float]:
    """`needed` of the requests of each slot by themselves; slots end at `ends_s` (t,), arrivals count from 0.
    What waits from the slot before is not counted: servers of that slot are for its own peak."""
    slot = np.minimum(np.searchsorted(ends_s, arrival_s, side="right"), len(ends_s) - 1)
    found = []
    for t in range(len(ends_s)):
        own = slot == t
        found.append(needed(arrival_s[own], work[own], wait_s, share).rate_rps if own.any() else 0.0)
    return found


def tokens(isl: Ints, osl: Ints) -> Floats:
    """The work of requests (n,) in tokens of prompts, where no server is known."""
    return np.asarray(isl + ANSWER_TOKEN * osl, dtype=float)


def _worst(arrival_s: Floats, waits: Floats) -> tuple[float, float, int]:
    """The busy period of the longest wait: its first and last arrival, and how many there are."""
    top = int(waits.argmax())
    idle: Sequence[int] = np.flatnonzero(waits <= 0.0).tolist()
    first = max((i for i in idle if i <= top), default=0)
    after = min((i for i in idle if i > top), default=len(waits))
    return float(arrival_s[first]), float(arrival_s[after - 1]), after - first

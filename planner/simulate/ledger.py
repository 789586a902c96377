"""Lengths and times of requests, as servers share them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["mixed", "prefill", "decode"]


@dataclass(slots=True, kw_only=True)
class Clock:
    """Where a server of a replay stands. `now_s`: the end of its last step, when the next one may begin;
    `due_s`: when it next has to be looked at (inf: never, by itself); `inside`: requests sent to it and not
    finished, those that the step in progress finishes not among them; `held`: KV tokens."""

    now_s: float = 0.0
    due_s: float = math.inf
    inside: int = 0
    steps: int = 0
    preemptions: int = 0
    busy_s: float = 0.0
    held: float = 0
    held_peak: float = 0


@dataclass
class Ledger:
    """Lengths of the requests, which servers read, and their times, which servers write: lists by request."""

    isl: list[int]
    osl: list[int]
    new: list[int]
    entry_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)  # times each request was

    def __post_init__(self) -> None:
        self.entry_s, self.first_s, self.end_s = ([math.nan] * len(self.isl) for _ in range(3))
        self.preempted = [0] * len(self.isl)

"""Lengths and times of requests, as servers share them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["mixed", "prefill", "decode"]


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

"""What searches that run side by side have found of a schedule, and when they end."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np

from solvers.linear import EXACT, Limits, Status, gap, judge
from solvers.schedule.types import Problem, Solution, reserve

NAME = "HiGHS, by blocks and windows"


@dataclass
class Ends:
    """When a search ends: a time (`time.perf_counter`; infinite where work is limited), or once `stopped`."""

    at: float
    stopped: bool = False

    def over(self) -> bool:
        return self.stopped or time.perf_counter() >= self.at

    def share(self, of: int) -> float:
        """Seconds of one of so many that are left to do."""
        return max((self.at - time.perf_counter()) / max(of, 1), 0.05)


@dataclass
class Race:
    """What both searches have found, and when they end."""

    problem: Problem
    limits: Limits
    ends: Ends
    best: np.ndarray | None = None
    value: float = np.inf
    bound: float | None = None
    infeasible: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bounded(self, bound: float | None) -> None:
        """No schedule costs less."""
        with self.lock:
            if bound is not None:
                self.bound = bound if self.bound is None else max(self.bound, bound)
            self._judge()

    def offer(self, n: np.ndarray | None) -> bool:
        """A schedule, if it is one; whether the best is good enough."""
        if n is not None and self.problem.keeps(n):
            value = self.problem.cost(n, reserve(self.problem, n))
            with self.lock:
                if value < self.value:
                    self.best, self.value = n.copy(), value
                self._judge()
        return self.ends.stopped

    def _judge(self) -> None:
        if self.best is not None and self.bound is not None:
            near = gap(self.value, self.bound) <= max(self.limits.gap, EXACT)
            self.ends.stopped = self.ends.stopped or near

    def solution(self, stopped: Status = "time_limit") -> Solution:
        if self.best is None:
            return Solution(None, (), None, self.bound, "infeasible" if self.infeasible else stopped, NAME)
        assert self.bound is not None
        r = tuple(reserve(self.problem, self.best))
        bound = min(self.bound, self.value)
        return Solution(self.best, r, self.value, bound, judge(self.value, bound, self.limits, stopped), NAME)

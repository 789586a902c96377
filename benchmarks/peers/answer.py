"""What an adapter answers, and where adapters are found."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from planner.errors import InputError

Case = dict[str, Any]
NOT_ADAPTERS = {"__init__", "__main__", "answer", "measured", "table"}
FAMILIES = {"hexgen3": "hexgen", "layer-placement": "helix"}
"""How the `family` of a case that names no peer begins, and whose it is."""
SIMULATORS = {"own step simulator", "DistServe simdistserve", "splitwise-sim"}
"""Peers that replay requests, as their cases name them; they have one adapter."""


@dataclass(frozen=True)
class Answer:
    """`objective` and `bound` in the case's unit, None: there is none; `solution` in the scorer's form."""

    objective: float | None
    bound: float | None
    status: str
    solution: Any
    solve_seconds: float


class Adapter(Protocol):
    """What each peer's module offers."""

    OBJECTIVES: tuple[str, ...]

    def solve(self, case: Case, objective: str, seconds: float) -> Answer: ...

    def peer_value(self, case: Case) -> float | None: ...


@dataclass
class Clock:
    """Seconds of the blocks measured with it."""

    seconds: float = field(default=0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began


def peers() -> list[str]:
    """Peers that have an adapter."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in NOT_ADAPTERS)


def stated(case: Case) -> Case:
    """`case` with `peer`, `problem` and `known.best_known`, which those of a `family` lay out flat; schedules
    have no peer and are told by their slots."""
    if case.get("peer") in SIMULATORS:
        return {**case, "peer": "simulate", "simulator": case["peer"]}
    if case.get("peer") == "none" and "slot_minutes" in case.get("problem", {}):  # no other planner does it
        return {**case, "peer": "schedule"}
    family = str(case.get("family", ""))
    peer = next((peer for start, peer in FAMILIES.items() if family.startswith(start)), None)
    if peer is None or "problem" in case:
        return case
    known = case.get("known", {})
    problem = {key: value for key, value in case.items() if key != "known"}
    return {"peer": peer, "problem": problem, "known": {**known, "best_known": known.get("best")}}


def adapter(peer: object) -> Adapter:
    """The module of `peer`. Raises InputError with those there are."""
    if peer not in peers():
        raise InputError(f"no adapter for peer `{peer}`", hint=f"there are {', '.join(peers())}")
    module: Any = importlib.import_module(f"benchmarks.peers.{peer}")
    return module  # type: ignore[no-any-return]

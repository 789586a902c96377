"""`python -m benchmarks.large_programs [--seconds 20]`: HiGHS alone, and with what OR-tools finds before it.

Programs of whole fleets, as plans state them for the bound, of 4,000 columns and more, and fleets without
tangents in which flows need only be enough. Each is solved to 1 % on one thread, both ways in the same
process: CPU seconds, and what was proven. Behind docs/decisions/0027-ortools.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.solver_building import problem
from planner.asked import read
from planner.posed import pose
from solvers import fleet, linear
from solvers.fleet import FleetProblem
from solvers.linear import INF, Limits, Outcome

GAP = 0.01

ASKED = (
    ("448xH100", "kimi-k2", "cost", 100.0),
    ("448xH100", "kimi-k2", "energy", 100.0),
    ("256xH100,512xA100,1024xL40S", "llama-3.1-70b", "throughput", None),
    ("256xH100,512xA100,1024xL40S", "llama-3.1-70b", "energy", 200.0),
)
"""GPUs, model, objective and requests/s of the plans' programs."""

RANDOM = ((5, 1000, 1), (2, 3000, 1), (3, 400, 4), (7, 600, 2))
"""Classes, designs a class and buckets of the random ones."""


def programs() -> Iterator[tuple[str, FleetProblem]]:
    """Each with what it is called."""
    for gpus, model, objective, rate in ASKED:
        options = {"engine": "any", "objective": objective}
        _, pool, question = pose(read(None, model, gpus, "chat", {"rate": rate} if rate else {}, options))
        yield f"{model}, {gpus}, {objective}", question.state(pool, "bound")
    for classes, designs, buckets in RANDOM:
        yield f"{classes * designs:,} random designs, {buckets} buckets", problem(classes, designs, buckets)


def solved(p: FleetProblem, seconds: float, alone: bool) -> tuple[Outcome, float]:
    """The program's outcome and the CPU seconds it took."""
    model, usual = fleet.build(p).model, linear.LARGE
    linear.LARGE = sys.maxsize if alone else usual
    try:
        began = time.process_time()
        outcome = model.solve(Limits(gap=GAP, seconds=seconds))
        return outcome, time.process_time() - began
    finally:
        linear.LARGE = usual


def main() -> None:
    """Print one line a program."""
    parser = argparse.ArgumentParser(description="Large programs: HiGHS alone, and with OR-tools before it.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each solve (20)")
    seconds = parser.parse_args().seconds
    print(
        f"{'program':<55} {'columns':>8} {'HiGHS s':>8} {'gap':>7} {'ours s':>7} {'gap':>7} {'ratio':>6}  by"
    )
    for name, p in programs():
        p = replace(p, most_kinds=None)
        columns = len(fleet.build(p).model.lower)
        (one, one_s), (two, two_s) = (solved(p, seconds, alone) for alone in (True, False))
        print(
            f"{name:<55} {columns:>8,} {one_s:>8.2f} {_gap(one):>7} {two_s:>7.2f} {_gap(two):>7}"
            f" {one_s / max(two_s, 1e-9):>6.1f}  {two.solver}",
            flush=True,
        )


def _gap(outcome: Outcome) -> str:
    """As a percentage; a dash without a plan."""
    if outcome.value is None or outcome.bound is None:
        return "-"
    share = linear.gap(outcome.value, outcome.bound)
    return f"{share:.2%}" if share < INF else "-"


if __name__ == "__main__":
    main()

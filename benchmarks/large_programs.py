"""`python -m benchmarks.large_programs [--seconds 20]`: HiGHS alone, with what OR-tools finds before it, and
with columns left out by their prices.

Programs of whole fleets, as plans state them for the bound, and fleets without tangents in which flows need
only be enough. Each is solved to 1 % on one thread, all ways in the same process: CPU seconds, stating the
program included, and what was proven. Behind docs/decisions/0027-ortools.md and 0028-prices.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.solver_building import problem
from planner.question.asked import read
from planner.question.posed import pose
from solvers import fleet, linear
from solvers.fleet import prices as fleet_prices
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import INF, Limits

GAP = 0.01

WAYS = ("HiGHS", "OR-tools", "prices")

ASKED = (
    ("448xH100", "kimi-k2", "cost", 100.0),
    ("448xH100", "kimi-k2", "energy", 100.0),
    ("256xH100,512xA100,1024xL40S", "llama-3.1-70b", "throughput", None),
    ("256xH100,512xA100,1024xL40S", "llama-3.1-70b", "energy", 200.0),
    ("400xH100,400xH200,400xB200,400xA100,200xMI300X", "deepseek-v3", "throughput", None),
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


def solved(p: FleetProblem, seconds: float, way: str) -> tuple[FleetSolution, float]:
    """The program's answer one of the `WAYS`, and the CPU seconds it took."""
    usual = linear.LARGE, fleet_prices.MANY
    linear.LARGE = sys.maxsize if way == "HiGHS" else usual[0]
    fleet_prices.MANY = 0 if way == "prices" else sys.maxsize
    try:
        began = time.process_time()
        s = fleet.solve(p, Limits(gap=GAP, seconds=seconds))
        return s, time.process_time() - began
    finally:
        linear.LARGE, fleet_prices.MANY = usual


def main() -> None:
    """Print one line a program."""
    parser = argparse.ArgumentParser(
        description="Large programs: HiGHS alone, OR-tools before it, and prices."
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each solve (20)")
    seconds = parser.parse_args().seconds
    heads = "".join(f" {way + ' s':>10} {'gap':>7}" for way in WAYS)
    print(f"{'program':<55} {'columns':>8}{heads}")
    for name, p in programs():
        p = replace(p, most_kinds=None)
        found = [solved(p, seconds, way) for way in WAYS]
        cells = "".join(f" {took_s:>10.2f} {_gap(s):>7}" for s, took_s in found)
        print(f"{name:<55} {len(p.columns):>8,}{cells}", flush=True)


def _gap(s: FleetSolution) -> str:
    """As a percentage; a dash without a plan."""
    if s.objective is None or s.bound is None:
        return "-"
    share = linear.gap(s.objective, s.bound)
    return f"{share:.2%}" if share < INF else "-"


if __name__ == "__main__":
    main()

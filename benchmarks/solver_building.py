"""`python -m benchmarks.solver_building [--markdown]`: seconds to state a fleet by PuLP and by our own lists.

The same rows are stated both ways at three sizes and solved by the same HiGHS with the same settings. CPU
seconds of the process, the least of several runs. Behind docs/decisions/0001-solvers.md.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

from solvers import fleet
from solvers.fleet.goals import COST
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.linear import Limits, Linear, cbc, highs

GAP = 0.01
SAME = (
    "mip_abs_gap",
    "mip_feasibility_tolerance",
    "primal_feasibility_tolerance",
    "mip_allow_restart",
    "mip_heuristic_run_feasibility_jump",
    "mip_heuristic_run_root_reduced_cost",
    "mip_heuristic_run_rins",
)

SIZES = {
    "8 designs, 1 class": (1, 8, 2),
    "150 designs, 3 classes": (3, 50, 4),
    "1,400 designs, 7 classes": (7, 200, 8),
}
HEADS = ("fleet", "rows", "terms", "ours: state", "solve", "PuLP: state", "solve", "state", "all")


def problem(classes: int, designs: int, buckets: int, seed: int = 1) -> FleetProblem:
    """Random designs of 1 to 8 GPUs on 8-GPU nodes, at the least price for a demand of some of them."""
    r = random.Random(seed)
    share = {f"w{i}": 1.0 / buckets for i in range(buckets)}
    columns, stocks = {}, {}
    for g in range(classes):
        speed = r.uniform(0.5, 4.0)
        stocks[f"g{g}"] = Stock(100, 8, round(8 * speed * r.uniform(0.8, 1.25), 2))
        for i in range(designs):
            gpus = r.choice([1, 2, 4, 8])
            busy = {w: r.uniform(0.8, 1.6) / (speed * gpus) for w in share}
            use = {"busy": busy, "kv": {w: u * r.uniform(0.3, 1.3) for w, u in busy.items()}}
            columns[f"c{g}-{i}"] = Column(f"g{g}", gpus, use)
    return FleetProblem(columns, stocks, share, COST, demand=400.0 * classes)


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser(
        description="Seconds to state a fleet: PuLP's expressions against our lists."
    )
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    lines = [HEADS, *(line(name, problem(*size), options.runs) for name, size in SIZES.items())]
    if options.markdown:
        lines.insert(1, ("---",) * len(HEADS))
    for cells in lines:
        print("| " + " | ".join(cells) + " |" if options.markdown else "  ".join(c.rjust(24) for c in cells))


def line(name: str, p: FleetProblem, runs: int) -> tuple[str, ...]:
    """Seconds to state and to solve, ours and PuLP's, and how many times longer PuLP's take."""
    model = fleet.build(p).model
    terms = sum(len(row.terms) for row in model.rows.values())
    ours = least(lambda: _ours(p), runs)
    theirs = least(lambda: _pulp(model), runs)
    seconds = (f"{s:.4f}" for s in (*ours, *theirs))
    ratios = theirs[0] / ours[0], sum(theirs) / sum(ours)
    return name, str(len(model.rows)), str(terms), *seconds, *(f"{r:.1f}x" for r in ratios)


def least(run: Callable[[], tuple[float, float]], runs: int) -> tuple[float, float]:
    """The least seconds to state and to solve among `runs`."""
    took = [run() for _ in range(runs)]
    return min(state for state, _ in took), min(solve for _, solve in took)


def _ours(p: FleetProblem) -> tuple[float, float]:
    began = time.process_time()
    model = fleet.build(p).model
    stated_at = time.process_time()
    model.solve(Limits(gap=GAP))
    return stated_at - began, time.process_time() - stated_at


def _pulp(model: Linear) -> tuple[float, float]:
    """PuLP is given the coefficients ready-made: only its expressions and its way to HiGHS are timed."""
    import pulp

    settings = highs.settings(Limits(gap=GAP))
    solver: Any = pulp.HiGHS(msg=False, gapRel=GAP, threads=1, **{k: settings[k] for k in SAME})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PuLP 3.3 announces what 4.0 will rename
        began = time.process_time()
        problem, _ = cbc.stated(model)
        stated_at = time.process_time()
        problem.solve(solver)
    return stated_at - began, time.process_time() - stated_at


if __name__ == "__main__":
    main()

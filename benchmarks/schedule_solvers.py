"""Schedules: which search proves most in 20 seconds.

    python -m benchmarks.schedule_solvers [CASE.json ...] [--seconds 20]

The stored cases (`../shared/cases/schedule`, or those named), each by HiGHS's branch and bound on the stated
program, by CP-SAT on the same with all columns whole (starts and machines beyond reserved ones are whole
where counts are), and by what is shipped. Gaps are against a search's own bound; the CPU's seconds stand
beside those of the clock, as a machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.peers.schedule import problem
from solvers import schedule
from solvers.linear import Limits, highs
from solvers.schedule import Problem, Stated

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "schedule"
Found = tuple[float | None, float | None]
CENTS = 1e4
"""CP-SAT's goal is of whole numbers: ten thousandths of a dollar."""


def by_highs(p: Problem, seconds: float) -> Found:
    """Branch and bound on all of it."""
    found = highs.solve(Stated(p, range(p.slots)).m, Limits(gap=1e-6, seconds=seconds), None)
    return found.value, found.bound


def by_cp_sat(p: Problem, seconds: float) -> Found:
    """CP-SAT with two workers, on the same rows, in whole thousandths of capacity."""
    from ortools.sat.python import cp_model

    stated = Stated(p, range(p.slots))
    cost, _, upper, _ = stated.m.columns()
    starts, index, data, lower, row_upper = stated.m.matrix()
    model = cp_model.CpModel()
    x = [model.new_int_var(0, int(u), f"x{j}") for j, u in enumerate(upper)]
    for i, (low, high) in enumerate(zip(lower, row_upper, strict=True)):
        at = slice(starts[i], starts[i + 1])
        scale = 1 if np.allclose(data[at], np.round(data[at])) and float(low).is_integer() else 1000
        whole = [round(float(a) * scale) for a in data[at]]
        row = sum(a * x[j] for a, j in zip(whole, index[at], strict=True))
        if np.isfinite(low):
            model.add(row >= int(np.ceil(low * scale - 1e-6)))
        if np.isfinite(high):
            model.add(row <= int(np.floor(high * scale + 1e-6)))
    model.minimize(sum(round(float(c) * CENTS) * v for c, v in zip(cost, x, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    status = solver.solve(model)
    value = solver.objective_value / CENTS if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
    return value, solver.best_objective_bound / CENTS


def by_blocks(p: Problem, seconds: float) -> Found:
    """What is shipped."""
    found = schedule.solve(p, Limits(gap=1e-6, seconds=seconds))
    return found.value, found.bound


WAYS: dict[str, Callable[[Problem, float], Found]] = {
    "HiGHS": by_highs,
    "CP-SAT": by_cp_sat,
    "blocks and windows": by_blocks,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", type=Path, metavar="CASE.json")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    cases = options.cases or sorted(CASES.glob("*.json"))
    if not cases:
        print("no cases: they lie in ../shared/cases/schedule, beside the repository")
        return 2
    print("| case | search | cost | bound | gap | s | CPU s | best known |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for path in cases:
        case = json.loads(path.read_text())
        for name, way in WAYS.items():
            began, cpu = time.perf_counter(), time.process_time()
            value, bound = way(problem(case["problem"]), options.seconds)
            took, used = time.perf_counter() - began, time.process_time() - cpu
            far = "-" if value is None or bound is None else f"{100 * (value - bound) / value:.3f} %"
            figures = ["-" if x is None else f"{x:.2f}" for x in (value, bound)]
            cells = [
                path.stem,
                name,
                *figures,
                far,
                f"{took:.1f}",
                f"{used:.1f}",
                case["known"]["best_known"],
            ]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""HiGHS in process: arrays in, `Outcome` out; Ctrl-C stops the search and keeps the best solution so far.

highspy is pinned to the HiGHS that OR-tools bundles (pyproject.toml says why).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from solvers.linear import Limits, Linear, Outcome, Status, judge


def solve(model: Linear, limits: Limits, start: np.ndarray | None, relaxed: bool = False) -> Outcome:
    """Minimise `model`; `start` is a full solution to begin from; `relaxed` drops integrality and returns duals."""
    import highspy

    solver = highspy.Highs()
    for name, value in _options(limits).items():
        solver.setOptionValue(name, value)
    solver.passModel(_program(model, relaxed))
    if start is not None and not relaxed:
        warm = highspy.HighsSolution()
        warm.col_value = list(start)
        solver.setSolution(warm)
    interrupted = _run(solver)
    return _outcome(model, solver, limits, relaxed, interrupted)


def _options(limits: Limits) -> dict[str, object]:
    options: dict[str, object] = {
        "output_flag": False,
        "time_limit": float(limits.seconds),
        "threads": limits.threads,
        "random_seed": limits.seed,
        "mip_rel_gap": limits.gap,
        "mip_abs_gap": 1e-9,
        "mip_feasibility_tolerance": 1e-7,
        "primal_feasibility_tolerance": 1e-8,
    }
    if limits.work is not None:
        options["mip_max_nodes"] = limits.work
    return options


def _program(model: Linear, relaxed: bool) -> Any:
    import highspy

    cost, lower, upper, integer = model.columns()
    starts, indices, data, row_lower, row_upper = model.matrix()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(cost), len(row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, lower, upper
    lp.row_lower_, lp.row_upper_ = row_lower, row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, indices, data
    if not relaxed and integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(k)] for k in integer]
    return lp


def _run(solver: Any) -> bool:
    """Run in a thread so that Ctrl-C reaches Python; True when it did."""
    solver.HandleUserInterrupt = True
    worker = threading.Thread(target=solver.run, daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.2)
        return False
    except KeyboardInterrupt:
        solver.cancelSolve()
        worker.join()
        return True


def _outcome(model: Linear, solver: Any, limits: Limits, relaxed: bool, interrupted: bool) -> Outcome:
    import highspy

    status, info = solver.getModelStatus(), solver.getInfo()
    name = f"HiGHS {solver.version()}"
    ended: dict[Any, Status] = {
        highspy.HighsModelStatus.kInfeasible: "infeasible",
        highspy.HighsModelStatus.kUnbounded: "unbounded",
        highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",
    }
    if status in ended:
        return Outcome(ended[status], None, None, None, name)
    stopped: Status = "interrupted" if interrupted else "time_limit"
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    mip = not relaxed and any(model.integer)
    value = float(info.objective_function_value) if found else None
    bound: float | None = value
    if mip:
        bound = float(info.mip_dual_bound) if np.isfinite(info.mip_dual_bound) else None
    elif status != highspy.HighsModelStatus.kOptimal:
        bound = None
    solution = solver.getSolution()
    values = np.array(solution.col_value) if found else None
    duals = dict(zip(model.rows, solution.row_dual, strict=True)) if relaxed and found else {}
    return Outcome(judge(value, bound, limits, stopped), value, bound, values, name, duals)

"""HiGHS in process: arrays in, `Outcome` out; Ctrl-C stops the search and keeps the best solution so far.

highspy is pinned to the HiGHS that OR-tools bundles (pyproject.toml says why).
Settings that differ from HiGHS's own: docs/decisions/0001-solvers.md.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from solvers.linear.program import Floats, Limits, Outcome, Program, Status, judge, met

FEASIBLE = 1e-8
"""How far a row may be off, in its own unit. Not less: at 1e-9 HiGHS 1.12 lost feasible nodes and stated
a false bound (70.64 where a plan of 71.46 exists: three classes, two buckets, pairs; one seed of eight)."""

INTEGRAL = 1e-7
"""How far an integer may be off."""


AGGREGATOR = 1 << 12
"""Bit of the presolve rule that lost the optimum of a fleet of three columns: 11 GPUs stated as optimal where
5 do (`tests/solvers/test_fleet.py`). Off; it saved no time on fleets."""


WIDE = 1000
"""Columns for each row (of ten rows at least): beyond them, presolve compares columns with one another and
looks at no clock meanwhile (50 s for 7 rows of 34,040 columns, of which branch and bound needs 0.2 s)."""


ROOM = 10.0
"""Times what a model fixes it at that a column's room is looked for."""

LONG = 1000
"""Nodes after which a search takes long: what is near enough then ends it (`Limits.enough`)."""

SHORT = 5_000
"""Terms of a program without integers up to which it is solved in the caller's thread, and Ctrl-C waits for
its end (0.1 s at most): a thread takes as long as the simplex steps of most of them."""

C = ctypes.CDLL(None) if os.name == "posix" else None
"""The C library of this process."""

ARENA_MAX = -8
"""Number of the setting of glibc's `mallopt` that limits its heaps (malloc.h: M_ARENA_MAX)."""


MOST_NODES = 2**31 - 1
"""Nodes of a search that HiGHS takes as a limit."""


def _one_heap() -> None:
    """One heap for all threads: glibc gives a thread that solves one of its own, and keeps what solves free
    there (31 MB more after 5,000 plans in one process: `benchmarks.soak`). Elsewhere nothing is done."""
    if C is not None and platform.libc_ver()[0] == "glibc":
        C.mallopt(ARENA_MAX, 1)


_one_heap()


def solve(
    model: Program, limits: Limits, start: Floats | None, relaxed: bool = False, nodes: int | None = None
) -> Outcome:
    """Minimise `model`; `start` is a full solution to begin from; `relaxed` drops integers, returns duals.
    After so many `nodes` the search ends as it does when time is over. Ctrl-C ends it with what it has; in a
    relaxation of at most SHORT terms, which soon ends by itself, it raises KeyboardInterrupt."""
    import highspy

    solver = highspy.Highs()
    options = settings(limits) | shaped(len(model.rows), len(model.integer))
    if nodes is not None:
        options["mip_max_nodes"] = min(nodes, MOST_NODES)
    for name, value in options.items():
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise ValueError(f"HiGHS refuses {name} = {value}")
    if solver.passModel(_program(model, relaxed)) == highspy.HighsStatus.kError:
        raise ValueError(f"HiGHS refuses the model {model.name}")
    if start is not None and not relaxed:
        warm = highspy.HighsSolution()
        warm.col_value = list(start)
        solver.setSolution(warm)
    if limits.enough is not None and not relaxed:
        solver.cbMipInterrupt += _ends_when_met(limits)
    short = relaxed and solver.getNumNz() <= SHORT
    interrupted = _run(solver, short)
    if not interrupted and solver.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        solver.setOptionValue("presolve", "off")  # only presolve says "one of the two"
        interrupted = _run(solver, short)
    return _outcome(model, solver, limits, relaxed, interrupted)


def _ends_when_met(limits: Limits) -> Callable[[Any], None]:
    """Ends a search that takes long once it is near enough."""

    def look(event: Any) -> None:
        at = event.data_out
        if at.mip_node_count >= LONG and met(at.mip_primal_bound, at.mip_dual_bound, limits):
            event.interrupt()

    return look


class Relaxation:
    """A model without its integers, solved again and again between other limits of some of its columns; with
    `room`, for the most that this column can be, whatever its own limits."""

    def __init__(self, model: Program, columns: Sequence[int], room: int | None = None) -> None:
        import highspy

        self.columns = np.array(columns, np.int32)
        self.solver = highspy.Highs()
        for name, value in settings(Limits()).items():
            self.solver.setOptionValue(name, value)
        if self.solver.passModel(_program(model, relaxed=True)) == highspy.HighsStatus.kError:
            raise ValueError(f"HiGHS refuses the model {model.name}")
        if room is not None:
            every = np.arange(len(model.lower), dtype=np.int32)
            self.solver.changeColsCost(len(every), every, np.where(every == room, -1.0, 0.0))
            self.solver.changeColBounds(room, 0.0, ROOM * max(1.0, model.lower[room]))

    def within(self, lower: Floats, upper: Floats) -> tuple[float, Floats] | None:
        """The least value and what the columns are there; None where nothing is within the limits. Raises
        ArithmeticError where HiGHS has no answer, KeyboardInterrupt."""
        import highspy

        self.solver.changeColsBounds(len(self.columns), self.columns, lower, upper)
        if self.solver.getNumNz() <= SHORT:
            self.solver.run()
        elif interruptible(self.solver.run, lambda: None):
            raise KeyboardInterrupt
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise ArithmeticError(self.solver.modelStatusToString(status))
        values = np.array(self.solver.getSolution().col_value)[self.columns]
        return float(self.solver.getInfo().objective_function_value), values


def settings(limits: Limits) -> dict[str, object]:
    """The options that HiGHS is given, by name."""
    options: dict[str, object] = {
        "output_flag": False,
        "time_limit": float(limits.seconds),
        "threads": limits.threads,
        "random_seed": limits.seed,
        "mip_rel_gap": limits.gap,
        "mip_abs_gap": 1e-9,
        "mip_feasibility_tolerance": INTEGRAL,
        "primal_feasibility_tolerance": FEASIBLE,
        "presolve_rule_off": AGGREGATOR,
        # what fleets do better without, measured: docs/decisions/0001-solvers.md
        "mip_allow_restart": False,
        "mip_heuristic_run_feasibility_jump": False,
        "mip_heuristic_run_root_reduced_cost": False,
        "mip_heuristic_run_rins": False,
    }
    if limits.work is not None:
        options["mip_max_nodes"] = min(limits.work, MOST_NODES)
    return options


def shaped(rows: int, columns: int) -> dict[str, object]:
    """The options that depend on the shape of the program, by name."""
    return {"presolve": "off"} if columns > WIDE * max(rows, 10) else {}


def _program(model: Program, relaxed: bool) -> Any:
    import highspy

    cost, lower, upper, integer = model.columns()
    starts, indices, data, row_lower, row_upper = model.matrix()
    if not (np.isfinite(cost).all() and np.isfinite(data).all()) or np.isnan([*row_lower, *row_upper]).any():
        raise ValueError(f"the model {model.name} has a coefficient that is not a number")
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


def _run(solver: Any, short: bool) -> bool:
    """Run the solver; True when Ctrl-C ended it. Python hears of Ctrl-C after a `short` run, which has no
    integers and prints nothing."""
    if short:
        solver.run()
        return False
    solver.HandleUserInterrupt = True
    with _mute():
        return interruptible(solver.run, solver.cancelSolve)


def interruptible(work: Callable[[], object], stop: Callable[[], object]) -> bool:
    """Do `work` in a thread so that Ctrl-C reaches Python, which then asks it to `stop`; True when it did.

    An event tells when the thread is done: Python 3.11 takes a thread whose `join` was interrupted for ended.
    """
    done = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            done.set()

    interrupted = False
    threading.Thread(target=run, daemon=True).start()
    while not done.is_set():
        try:
            done.wait(0.2)
        except KeyboardInterrupt:
            interrupted = True
            stop()
    return interrupted


class _Muted:
    """How many solves now keep C's stdout shut, and where it led before the first of them."""

    lock = threading.Lock()
    depth = 0
    kept = -1


@contextmanager
def _mute() -> Iterator[None]:
    """Keep C's stdout shut: HiGHS 1.12 prints a line of its own there whatever `output_flag` says
    ("HighsMipSolverData::transformNewIntegerFeasibleSolution ..."), which would break `--json`."""
    with _Muted.lock:
        _Muted.depth += 1
        if _Muted.depth == 1:
            _flush()
            _Muted.kept = os.dup(1)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.close(null)
    try:
        yield
    finally:
        with _Muted.lock:
            _Muted.depth -= 1
            if _Muted.depth == 0:
                _flush()
                os.dup2(_Muted.kept, 1)
                os.close(_Muted.kept)


def _flush() -> None:
    """Write out what C has buffered, so that it lands on the side of the switch it was printed on."""
    if C is not None:
        C.fflush(None)


def _outcome(model: Program, solver: Any, limits: Limits, relaxed: bool, interrupted: bool) -> Outcome:
    import highspy

    status, info = solver.getModelStatus(), solver.getInfo()
    word, name = highspy.HighsModelStatus, f"HiGHS {solver.version()}"
    ended: dict[Any, Status] = {word.kInfeasible: "infeasible", word.kUnbounded: "unbounded"}
    if status in ended:
        return Outcome(ended[status], None, None, None, name)
    if solver.modelStatusToString(status).lower().endswith("error"):
        raise RuntimeError(f"HiGHS failed on {model.name}: {solver.modelStatusToString(status)}")
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    value = float(info.objective_function_value) if found else None
    bound = _bound(model, solver, relaxed, value)
    solution = solver.getSolution()
    values = np.array(solution.col_value) if found else None
    duals = dict(zip(model.rows, solution.row_dual, strict=True)) if relaxed and found else {}
    stopped: Status = "interrupted" if interrupted else "time_limit"
    return Outcome(judge(value, bound, limits, stopped), value, bound, values, name, duals)


def _bound(model: Program, solver: Any, relaxed: bool, value: float | None) -> float | None:
    """What HiGHS has proven: the dual bound of a MIP, the value of a solved LP."""
    import highspy

    if not relaxed and any(model.integer):
        bound = float(solver.getInfo().mip_dual_bound)
        return bound if np.isfinite(bound) else None
    return value if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal else None

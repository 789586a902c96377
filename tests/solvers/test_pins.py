"""ortools bundles a HiGHS of its own: with another highspy in the process, one of the two fails to load."""

import subprocess
import sys

import pytest

HIGHSPY = """
import highspy
h = highspy.Highs()
h.setOptionValue("output_flag", False)
x = h.addVariable(lb=0, ub=4, obj=-1)
h.addRow(0, 3, 1, [0], [1.0])
h.run()
assert abs(h.getInfo().objective_function_value + 3) < 1e-9
"""
ORTOOLS = """
from ortools.sat.python import cp_model
m = cp_model.CpModel()
y = m.new_int_var(0, 9, "y")
m.add(2 * y <= 7)
m.maximize(y)
s = cp_model.CpSolver()
s.solve(m)
assert s.objective_value == 3
from ortools.linear_solver import pywraplp
p = pywraplp.Solver.CreateSolver("HIGHS") or pywraplp.Solver.CreateSolver("GLOP")
z = p.NumVar(0, 5, "z")
p.Maximize(z)
assert p.Solve() == 0 and abs(z.solution_value() - 5) < 1e-9
"""
PULP = """
import pulp
assert "HiGHS" in pulp.listSolvers(onlyAvailable=True)
m = pulp.LpProblem("m", pulp.LpMinimize)
w = pulp.LpVariable("w", 2, 7, cat="Integer")
m += w
m.solve(pulp.HiGHS(msg=False))
assert w.value() == 2
"""


@pytest.mark.parametrize(
    "order",
    [(HIGHSPY, ORTOOLS), (ORTOOLS, HIGHSPY), (PULP, ORTOOLS), (ORTOOLS, PULP)],
    ids=["highspy-ortools", "ortools-highspy", "pulp-ortools", "ortools-pulp"],
)
def test_both_solver_libraries_load_and_solve_in_one_process(order: tuple[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", "".join(order)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr

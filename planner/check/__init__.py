"""The independent verifier: recomputes from the Plan alone, with arithmetic of its own.

It shares no code with planner.cost, candidates, problems or solvers; it reads the Plan and the schemas of
inputs, model zoo and clusters. The door is `check`.
"""

from planner.check.rules import RULES, check
from planner.check.violation import Violation

__all__ = ["RULES", "Violation", "check"]

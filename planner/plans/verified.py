"""Every plan is checked before anyone sees it, by code that shares nothing with what made it."""

from __future__ import annotations

from pathlib import Path

from planner.check import Violation, check
from planner.check.several import check as check_all
from planner.errors import InputError, MeshwrightError
from planner.plans.reading import read_any, read_plan
from planner.plans.schema import Plan
from planner.plans.schema.several import Several


def read_sound(path: str | Path) -> Plan:
    """A plan of a file that passes its check. Raises InputError."""
    found = read_plan(path)
    _sound("this plan does", check(found), path)
    return found


def read_sound_any(path: str | Path) -> Plan | Several:
    """A plan of a file, or plans of several models, that pass their check. Raises InputError."""
    found = read_any(path)
    if not isinstance(found, Several):
        return read_sound(path)
    _sound("these plans do", check_all(found), path)
    return found


def _sound(what: str, violations: list[Violation], path: str | Path) -> None:
    """Raises InputError with the first of the violations."""
    for first in violations:
        hint = "plan again, or see all that is wrong: meshwright check"
        raise InputError(f"{what} not hold: {first.message}", f"{path}, {first.where}", hint)


class Unsound(MeshwrightError):
    """A plan that we made fails its check: our mistake."""


def verified(result: Plan) -> None:
    """Raises Unsound where the plan fails its check."""
    violations = check(result)
    if violations:
        first = violations[0]
        raise Unsound(
            f"the plan failed its own check: {first.message}",
            where=first.where,
            hint="this is a mistake in the planner, not in your input: please report it",
        )

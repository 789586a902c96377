"""Every plan is checked before anyone sees it, by code that shares nothing with what made it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from planner.check import Violation, check
from planner.check.several import check as check_all
from planner.errors import InputError, MeshwrightError
from planner.plans.reading import read_any, read_plan
from planner.plans.schema import Plan, PlanWarning
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


BESIDE = re.compile(r"(alternatives|assumptions)\[(\d+)\]")
"""Where a violation is of a line beside the plan, which holds without that line."""


def verified(made: Plan) -> Plan:
    """The plan, without the lines beside it that fail their check, and a warning where there are any. Raises
    Unsound where the plan itself fails."""
    beside: dict[tuple[str, int], Violation] = {}
    for violation in check(made):
        line = BESIDE.match(violation.where)
        if line is None:
            raise Unsound(
                f"the plan failed its own check: {violation.message}",
                where=violation.where,
                hint="this is a mistake in the planner, not in your input: please report it",
            )
        beside.setdefault((line[1], int(line[2])), violation)
    return _without(made, beside) if beside else made


def _without(made: Plan, beside: Mapping[tuple[str, int], Violation]) -> Plan:
    """The plan without these lines, and a word on each."""
    kept = {
        name: [line for i, line in enumerate(getattr(made, name)) if (name, i) not in beside]
        for name in ("alternatives", "assumptions")
    }
    told = [
        PlanWarning(
            code="line_left_out",
            message=f'"{getattr(made, name)[i].what}" beside the plan failed its check and is left out:'
            f" {violation.message}; the plan itself holds; please report this",
        )
        for (name, i), violation in beside.items()
    ]
    return made.model_copy(update={**kept, "warnings": [*made.warnings, *told]})

"""`meshwright check PLAN.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from planner.cli import options as o

if TYPE_CHECKING:
    from planner.check import Violation
    from planner.plans.schema import Plan
    from planner.plans.schema.several import Several

UNSOUND_EXIT = 2  # a plan that does not hold is bad input


def check(plan: o.PlanArg = None, json: o.JsonOpt = False) -> None:
    """Check a plan from its own figures alone, with arithmetic that shares no code with the planner.

    Example: meshwright check plan.json

    Exit codes: 0 sound, 2 not sound (each broken limit by name) or not readable as a plan.
    """
    from planner.check import check as violations_of
    from planner.check.several import check as violations_of_all
    from planner.cli.kept import last
    from planner.cli.output import note, print_json, say
    from planner.plans.reading import read_any
    from planner.plans.schema.several import Several

    plan = last(plan)
    found = read_any(plan)
    several = isinstance(found, Several)
    violations = violations_of_all(found) if isinstance(found, Several) else violations_of(found)
    unlike = _differences(found)
    if json:
        print_json(as_json(plan, violations, several, unlike, _room(found)))
    elif not violations:
        say(*sound_lines(plan, several), *believed_lines(unlike, _room(found)))
    for violation in violations:
        note(f"error: {violation}")
    if violations:
        raise typer.Exit(UNSOUND_EXIT)


def sound_lines(path: str, several: bool = False) -> list[str]:
    """The answer for a sound plan: the word, and what was verified."""
    return [f"sound: {path}", *(f"  {name:<10} {what}" for name, what in verified(several).items())]


def believed_lines(unlike: Sequence[str], room: Sequence[str] = ()) -> list[str]:
    """What is said in a sound plan and cannot be checked, how far its speed is from what would be refused,
    and what the catalogs say otherwise."""
    from planner.plans.trusted import SAID_ONLY

    lines = ["said, not checked:"]
    for name, what in SAID_ONLY.items():
        lines += [f"  {name:<12} {what}", *(f"  {'':<12} {line}" for line in room if name == "speed")]
    return lines + ["other than in the catalogs:"] * bool(unlike) + [f"  {line}" for line in unlike]


def _room(found: Plan | Several) -> list[str]:
    """How much faster steps might be told and still pass, of one plan or of all."""
    from planner.check.room import room
    from planner.plans.schema.several import Several

    plans = found.plans if isinstance(found, Several) else [found]
    return [line for each in plans for line in room(each)]


def _differences(found: Plan | Several) -> list[str]:
    """Of one plan, or of all, each line once."""
    from planner.plans.schema.several import Several
    from planner.plans.trusted import differences

    plans = found.plans if isinstance(found, Several) else [found]
    return list(dict.fromkeys(line for each in plans for line in differences(each)))


def verified(several: bool) -> dict[str, str]:
    """What is looked at, by name: of a plan, or of plans of several models."""
    from planner.check import RULES
    from planner.check.several import JOINT

    return dict(JOINT) if several else {rule.name: rule.what for rule in RULES}


def as_json(
    path: str,
    violations: list[Violation],
    several: bool = False,
    unlike: Sequence[str] = (),
    room: Sequence[str] = (),
) -> dict[str, object]:
    """{"sound", "violations", "verified", "said_only", "unlike_catalog", "speed_above_least"};
    where it is not sound also the common {"error": …} of exit 2."""
    found = [{"code": v.code, "where": v.where, "message": v.message} for v in violations]
    answer: dict[str, object] = {"sound": not violations, "violations": found}
    if not violations:
        from planner.plans.trusted import SAID_ONLY

        believed = {"said_only": dict(SAID_ONLY), "unlike_catalog": list(unlike)}
        return answer | {"verified": verified(several), **believed, "speed_above_least": list(room)}
    first = violations[0]
    message = f"the plan is not sound: {len(violations)} broken limits, the first: {first.message}"
    error = {"code": first.code, "message": message, "where": f"{path}, {first.where}", "hint": None}
    return answer | {"error": error}

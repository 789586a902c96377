"""Every plan is checked before anyone sees it, by code that shares nothing with what made it."""

from __future__ import annotations

from planner.check import check
from planner.errors import MeshwrightError
from planner.plans.schema import Plan


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

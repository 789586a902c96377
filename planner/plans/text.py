"""A plan as JSON text: figures to the digits that mean something."""

from __future__ import annotations

import json

from planner.plans.schema import Plan
from planner.plans.schema.several import Several
from planner.reading.figures import rounded


def text(plan: Plan | Several) -> str:
    """The form of a plan, or of several (contracts, Plan JSON), one space a level."""
    return json.dumps(rounded(plan.model_dump(mode="json", by_alias=True)), indent=1, ensure_ascii=False)

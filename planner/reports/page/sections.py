"""The sections of a plan, in the order of the page. A section is a function of the Plan in a module of this
folder, which tells nothing where it does not apply; its line is here."""

from __future__ import annotations

from collections.abc import Callable

from planner.plans.schema import Plan
from planner.reports.page import flow, money, times, told
from planner.reports.page.blocks import Section

SECTIONS: tuple[Callable[[Plan], Section | None], ...] = (
    told.cluster,
    flow.section,
    money.expected,
    money.spent,
    told.again,
    told.memory,
    times.section,
    told.balanced,
    told.lost,
    told.longest,
    money.simpler,
    money.more,
    money.instead,
    told.proven,
    told.supposed,
    told.started,
)


def sections(plan: Plan) -> tuple[Section, ...]:
    """All that apply."""
    return tuple(found for section in SECTIONS if (found := section(plan)) is not None)

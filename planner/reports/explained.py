"""Why a plan is as it is: what holds it back, what its answer hangs on, and other designs beside it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.text import Text

from planner.plans.schema import Alternative, Plan
from planner.reports import words as say
from planner.reports.defaults import decisive
from planner.reports.proven import price_list
from planner.reports.terminal import alternatives, headline, section, worth


def explained(plan: Plan, lines: Sequence[Alternative], console: Console) -> None:
    """Print it; `lines`: of designs that were asked about."""
    console.print(headline(plan))
    if plan.prices:
        section(console, "Bottleneck", Group(*(Text(line) for line in worth(plan)), *_marginal(plan)))
    elif not lines:
        section(console, "Bottleneck", Text("The plan says nothing of it: it was made without explanations."))
    if told := decisive(plan):
        section(console, "The answer hangs on", Group(*(Text(line) for line in told)))
    if len(plan.proof.kinds) > 1:
        section(console, "Kinds of replica", price_list(plan))
    if lines:
        beside = plan.model_copy(update={"alternatives": list(lines)})
        section(console, "Why not", alternatives(beside))
    elif plan.alternatives:
        section(console, "Alternatives considered", alternatives(plan))


def _marginal(plan: Plan) -> list[Text]:
    """Dual values, which are of the relaxation: beside what solving again found."""
    known = [p for p in plan.prices if p.marginal is not None and p.worth > 0]
    if not known:
        return []
    each = ", ".join(f"{p.limit.replace('_', ' ')} {say.number(p.marginal or 0.0)} {p.unit}" for p in known)
    return [Text(f"At the margin, by the linear relaxation, one more unit: {each}.", style="dim")]

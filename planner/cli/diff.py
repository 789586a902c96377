"""`meshwright diff BEFORE.json AFTER.json`."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o

if TYPE_CHECKING:
    from planner.plans.diff import Change

BeforeArg = Annotated[str, typer.Argument(metavar="BEFORE.json", help="A plan, as `plan -o` writes it.")]
AfterArg = Annotated[str, typer.Argument(metavar="AFTER.json", help="Another one.")]


def diff(before: BeforeArg, after: AfterArg, json: o.JsonOpt = False) -> None:
    """Show what differs between two plans. Ids, node names, order and timing don't count.

    Example: meshwright diff monday.json tuesday.json

    Exit codes: 0 whether or not they differ, 2 bad input.
    """
    from planner.plans.diff import diff as changes_between
    from planner.plans.reading import read_plan

    changes = changes_between(read_plan(before), read_plan(after))
    if json:
        rows = [{"where": c.where, "before": c.before, "after": c.after, "ratio": c.ratio} for c in changes]
        typer.echo(json_.dumps({"changes": rows}, indent=1))
        return
    for line in [line_of(change) for change in changes] or ["no difference"]:
        typer.echo(line)


def line_of(change: Change) -> str:
    """One change in one line.

    >>> from planner.plans.diff import Change
    >>> line_of(Change("predicted.rps", 4.0, 5.0))
    'predicted.rps: 4 -> 5 (+25.0 %)'
    """
    ratio = "" if change.ratio is None else f" ({100 * change.ratio:+.1f} %)"
    return f"{change.where}: {_shown(change.before)} -> {_shown(change.after)}{ratio}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

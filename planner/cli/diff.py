"""`meshwright diff BEFORE.json AFTER.json`."""

from __future__ import annotations

import json as json_
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o

if TYPE_CHECKING:
    from planner.plans.diff import Change
    from planner.plans.moves import Move

BeforeArg = Annotated[str, typer.Argument(metavar="BEFORE.json", help="A plan, as `plan -o` writes it.")]
AfterArg = Annotated[str, typer.Argument(metavar="AFTER.json", help="Another one.")]


def diff(before: BeforeArg, after: AfterArg, json: o.JsonOpt = False) -> None:
    """Show what differs between two plans, the sum of it first, and which replicas move to other nodes.

    Ids, order and timing don't count.

    Example: meshwright diff monday.json tuesday.json

    Exit codes: 0 whether or not they differ, 2 bad input.
    """
    from planner.plans.diff import diff as changes_between
    from planner.plans.moves import moves, summary
    from planner.plans.reading import read_plan

    old, new = read_plan(before), read_plan(after)
    changes, moved = changes_between(old, new), moves(old, new)
    summed = summary(old, new, moved)
    if json:
        rows = [asdict(c) | {"ratio": c.ratio} for c in changes]
        told = {"summary": summed, "changes": rows, "moves": [asdict(m) for m in moved]}
        typer.echo(json_.dumps(told, indent=1))
        return
    lines = [line_of(change) for change in changes] + [line_of_move(move) for move in moved]
    for line in [summed, "", *lines] if lines else ["no difference"]:
        typer.echo(line)


def line_of(change: Change) -> str:
    """One change in one line.

    >>> from planner.plans.diff import Change
    >>> line_of(Change("predicted.rps", 4.0, 5.0, "req/s"))
    'predicted.rps: 4 -> 5 req/s (+25.0 %)'
    >>> line_of(Change("predicted.utilisation", 0.5, 0.6, "%"))
    'predicted.utilisation: 50 -> 60 %'
    """
    ratio = "" if change.ratio is None or change.unit == "%" else f" ({100 * change.ratio:+.1f} %)"
    sides = (_shown(value, change.unit) for value in (change.before, change.after))
    return f"{change.where}: {' -> '.join(sides)}{' ' * bool(change.unit)}{change.unit}{ratio}"


def line_of_move(move: Move) -> str:
    """Replicas that move, come or go in one line.

    >>> from planner.plans.moves import Move
    >>> line_of_move(Move(2, "mixed tp1 on l40s", ("l40s-0",), ("l40s-1",)))
    'moves: 2 x mixed tp1 on l40s, from l40s-0 to l40s-1'
    """
    before, after = " + ".join(move.before), " + ".join(move.after)
    what = f"{move.count} x {move.design}"
    if not before:
        return f"new: {what}, on {after}"
    return f"moves: {what}, from {before} to {after}" if after else f"gone: {what}, from {before}"


def _shown(value: object, unit: str) -> str:
    if value is None:
        return "none"
    if unit == "%" and isinstance(value, float):
        return f"{100 * value:.3g}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

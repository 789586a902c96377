"""`meshwright diff BEFORE.json AFTER.json…`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from planner.cli import options as o
from planner.cli.help import arg

if TYPE_CHECKING:
    from planner.migration.compared import Compared

WIDE = 120
"""Columns of a table that goes into a file or a pipe."""


def diff(
    before: Annotated[str, arg("BEFORE.json", "A plan, or plans of several models, as `plan -o` writes.")],
    after: Annotated[list[str], arg("AFTER.json…", "Another one; several: a table against the first.")],
    json: o.JsonOpt = False,
) -> None:
    """Show what differs between plans, the sum of it first, and what it takes to come from one to the other:
    which servers go on, what is loaded from where, how long that takes at least, what is served meanwhile.

    Ids, order and timing don't count.

    \b
    Examples:
      meshwright diff monday.json tuesday.json
      meshwright diff now.json cheaper.json faster.json

    Exit codes: 0 whether or not they differ, 2 bad input.
    """
    from planner.cli.output import print_json, say, stdout
    from planner.migration.compared import compared
    from planner.plans.reading import read_any

    files = {name: read_any(name) for name in (before, *after)}
    found = {name: compared(files[before], files[name]) for name in dict.fromkeys(after)}
    if json:
        told = [form(one) for one in found.values()]
        each = [{"file": name} | one for name, one in zip(found, told, strict=True)]
        print_json(told[0] if len(after) == 1 else {"before": before, "plans": each})
        return
    from planner.reports.migrated import lines, table

    if len(after) == 1:
        say(*lines(found[after[0]]))
    else:
        console = stdout()
        if not console.is_terminal:
            console.width = max(console.width, WIDE)
        console.print(table(files, found))


def form(found: Compared) -> dict[str, Any]:
    """One comparison as JSON."""
    rows = [asdict(c) | {"ratio": c.ratio} for c in found.changes]
    m = found.migration
    moved = None if m is None else asdict(m)
    more = {} if m is not None else {"migration_unknown": found.unknown}
    moves = [asdict(move) for move in found.moves]
    return {"summary": found.summary, "changes": rows, "moves": moves, "migration": moved, **more}

"""How the servers of a plan are started: commands and files to copy, and what is to be known of them."""

from __future__ import annotations

from planner.errors import InputError
from planner.launch.words import commands
from planner.plans.schema import Plan
from planner.reports.page.blocks import Block, Command, Commands, Folded, Listed, Section
from planner.reports.started import MANY, SHOWN, files, notes

FEW = 4
"""Commands that are shown; the others when they are asked for."""


def section(plan: Plan) -> Section | None:
    """Nothing where no launch is told."""
    if not any(r.launch for r in plan.replicas):
        return None
    typed, said = [], list[str]()
    try:
        typed = [Command(f"on {node}", text) for node, text in commands(plan, MANY)]
    except InputError as error:
        said.append(f"not written: {error.message}")
    said += notes(plan, bool(typed))
    typed += [Command(f"file {name}", text) for name, text in files(plan).items()]
    short = tuple(c for c in typed if len(c.text) <= SHOWN)
    said += [
        f"{c.where}: {len(c.text):,} characters, which `meshwright export` writes"
        for c in typed
        if c not in short
    ]
    found: list[Block] = [Commands(short[:FEW])] if short else []
    if rest := short[FEW:]:
        found.append(Folded(f"{len(rest):,} more", (Commands(rest),)))
    if said:
        found.append(Listed(tuple(said)))
    return Section("start", "How it is started", tuple(found))

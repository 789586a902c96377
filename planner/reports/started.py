"""How a plan's servers are started: one command a line, whole however narrow the screen is."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from planner.errors import InputError
from planner.launch.words import commands
from planner.plans.schema import Plan

MANY = 16
"""Equal servers whose commands are printed."""

SHOWN = 4_000
"""Characters of a file that are printed."""


def starting(plan: Plan) -> Iterator[str]:
    """Commands by node, those of the first few of equal servers; then what is to be known."""
    try:
        told = list(commands(plan, MANY))
    except InputError as error:
        told = []
        yield f"not written: {error.message}"
    for node, words in told:
        yield f"# {node}"
        yield (
            words if len(words) <= SHOWN else f"# {len(words):,} characters, which `meshwright export` writes"
        )
    for note in notes(plan, bool(told)):
        yield f"# {note}"
    for name, text in files(plan).items():
        if len(text) > SHOWN:
            yield f"# {name}: {len(text):,} characters, which `meshwright export` writes"
            continue
        yield f"# {name}:"
        yield from text.splitlines()


def notes(plan: Plan, written: bool) -> Iterator[str]:
    """Servers whose commands are left out, where any are `written`; what is to be known of each launch."""
    for r in plan.replicas:
        if written and r.launch and r.launch.argv and r.count > MANY:
            yield f"{r.count - MANY:,} more of {r.id} start alike: `meshwright export` writes all commands"
    yield from dict.fromkeys(n for r in plan.replicas if r.launch for n in r.launch.notes)


def files(plan: Plan) -> dict[str, str]:
    """What commands read, by name."""
    return {name: text for r in plan.replicas if r.launch for name, text in r.launch.files.items()}


def show(plan: Plan, console: Console) -> None:
    """Print it under a heading; nothing where the plan has no commands."""
    if not any(r.launch for r in plan.replicas):
        return
    console.print()
    console.print(Text("Start", style="bold cyan"))
    for line in starting(plan):
        console.print(Text(line, style="dim" if line.startswith("#") else ""), soft_wrap=True)

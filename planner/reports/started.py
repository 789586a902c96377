"""Which nodes a plan takes and which it does not need; how its servers are started: one command a line,
whole however narrow the screen is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from cluster_configs.unlike import machines
from planner.errors import InputError
from planner.launch.instances import PLACED, instances
from planner.launch.server import machine_of
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


LISTED = 4
"""Names of a class that are listed; of more the first and the last."""


def rented(plan: Plan) -> list[str]:
    """A line with the nodes in use, one with the others; nothing where all are in use or none is placed."""
    if plan.chains:
        return []
    try:
        used = _used(plan)
    except InputError:
        return []
    there = {name: [machine_of(n) for n in names] for name, names in nodes_of(plan).items()}
    left = {name: [n for n in names if n not in used] for name, names in there.items()}
    if not any(left.values()):
        return []
    taken = {name: [n for n in names if n in used] for name, names in there.items()}
    lines = [f"nodes in use: {_listed(taken)}", f"not needed: {_listed(left)}"]
    return lines if any(taken.values()) else []


def _used(plan: Plan) -> set[str]:
    """Nodes that servers stand on. Of very many servers those that their stages name: they fill these. Raises
    InputError where they find no room."""
    if sum(r.count for r in plan.replicas) > PLACED:
        return {machine_of(node) for r in plan.replicas for stage in r.stages for node in stage.nodes}
    return {node for i in instances(plan) for node, _ in i.gpus}


def nodes_of(plan: Plan) -> dict[str, list[str]]:
    """Names of all nodes by the entry of the cluster."""
    found: dict[str, list[str]] = {}
    for node in plan.problem.cluster["nodes"]:
        name, count = node.get("name") or node["device"], int(node.get("count") or 1)
        found[name] = machines(name, count) if node.get("gpus") else [f"{name}-{i}" for i in range(count)]
    return found


def _listed(groups: dict[str, list[str]]) -> str:
    """`2 h100-sxm (h100-sxm-0, h100-sxm-1)`, by class."""
    said = [f"{len(names):,} {name} ({shortened(names)})" for name, names in groups.items() if names]
    return ", ".join(said)


def shortened(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= LISTED else f"{names[0]} … {names[-1]}"

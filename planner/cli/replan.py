"""`meshwright replan PLAN.json --without NODE`."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.help import arg, opt


def replan(
    plan: Annotated[str, arg("PLAN.json", "A plan of chains, as `plan -o` writes it.")],
    without: Annotated[str, opt("--without", "Nodes that left: NODE[,NODE…].")],
    copies: Annotated[int, opt("--copies", "Nodes that each layer should be on.", min=1)] = 1,
    json: o.JsonOpt = False,
    output: o.PlanFileOpt = None,
) -> None:
    """Repair a plan of chains after nodes have left: few layers move, most of the traffic is kept.

    Example: meshwright replan plan.json --without t-3 -o repaired.json

    Exit codes: 0 repaired, 2 bad input, 3 the other nodes do not hold all layers.
    """
    from planner.chains.repair import without as repaired
    from planner.cli.output import say, write
    from planner.plans.text import text
    from planner.plans.verified import read_sound

    left = repaired(read_sound(plan), [name.strip() for name in without.split(",") if name.strip()], copies)
    told = text(left.plan)
    if output is not None:
        write(output, told + "\n")
    if json:
        typer.echo(told)
        return
    for node, layers in left.loaded.items():
        say(f"{node} loads {layers} layers")
    say(f"{sum(left.loaded.values())} layers are loaded on {len(left.loaded)} nodes")
    say(f"{100 * left.kept:.0f} % of the requests/s are kept ({left.seconds:.2f} s)")
    for warning in left.plan.warnings:
        if warning.code == "slo_relaxed":
            say(warning.message)
    if left.thin and copies > 1:
        say(f"{len(left.thin)} layers are on fewer than {copies} nodes")

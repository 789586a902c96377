"""A probe in a terminal: what to run and what comes of it, then the commands to paste; or all as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.calibration import commands
from planner.calibration.probe import Bands, Probe
from planner.cost.bands import Z80
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.terminal import section
from planner.reports.words import TELLS, grid


def render(found: Probe, console: Console) -> None:
    """Print the list, and below it the commands, one a line however long."""
    console.print(headline(found))
    if not found.sessions:
        return
    console.print()
    console.print(table(found))
    console.print(
        Text("±: 80 % band of what a plan would choose, after the run and all above it", style="dim")
    )
    section(console, "Paste where the GPUs are", Text(""))
    for line in commands.script(found.sessions):
        console.print(Text(line), soft_wrap=True)


def headline(found: Probe) -> Text:
    """What it is for, what it costs and what it brings."""
    asked, before, after = found.asked, found.before, found.after
    text = Text.assemble((asked.card.name, "bold"), " on ", (asked.cluster.name, "bold"))
    buckets = asked.workload.buckets
    lengths = f", {buckets[0].isl:,} in, {buckets[0].osl:,} out" if len(buckets) == 1 else ""
    text.append(f", {asked.workload.name}{lengths}\n")
    if not found.sessions:
        return text.append("no run would narrow the bands by 2 %")
    runs = counted(sum(len(session.runs) for session in found.sessions), "run")
    minutes = counted(round(sum(session.minutes for session in found.sessions)), "minute")
    pairs = (("TPOT", before.tpot, after.tpot), ("TTFT", before.ttft, after.ttft))
    told = ", ".join(f"{name} {width(was)} → {width(now)}" for name, was, now in pairs if was > 0)
    return text.append(f"{runs} on {counted(len(found.sessions), 'server')}, {minutes}: {told}")


def table(found: Probe) -> Table:
    """Servers with their starts, and the runs on each with the bands after it."""
    rows = grid("", ">in", ">out", ">at once", ">min", ">TPOT", ">TTFT", "tells most of")
    rows.add_row(Text("now", style="dim"), "", "", "", "", *bands(found.before))
    several = len({session.server.group.node_class.device.name for session in found.sessions}) > 1
    number = 0
    for session in found.sessions:
        group = session.server.group
        device = f", {group.node_class.device.name}" if several else ""
        start = say.number(session.server.start_minutes, 2)
        rows.add_row(Text(f"{group.engine} {session.server.design}{device}", style="bold"), "", "", "", start)
        for run in session.runs:
            number += 1
            t = run.trial
            load = (f"{n:,}" for n in (t.isl, t.osl, t.requests))
            minutes = say.number(run.minutes, 2)
            rows.add_row(f"  {number}", *load, minutes, *bands(run.bands), TELLS.get(run.tells, run.tells))
    return rows


def bands(these: Bands) -> tuple[str, str]:
    """Bands of TPOT and TTFT; nothing where there is none."""
    return width(these.tpot), width(these.ttft)


def width(sigma: float) -> str:
    """The upper edge of the 80 % band.

    >>> width(0.1), width(0.6)
    ('±14 %', '±116 %')
    """
    return f"±{100 * np.expm1(Z80 * sigma):.0f} %" if sigma > 0 else ""


def as_document(found: Probe) -> dict[str, Any]:
    """All of it in plain values; bands as standard deviations of log(measured / predicted)."""
    servers, number = [], 0
    for session in found.sessions:
        server, runs = session.server, []
        for run in session.runs:
            number += 1
            runs.append(
                {
                    "command": commands.benchmark(server, run, number),
                    "isl": run.trial.isl,
                    "osl": run.trial.osl,
                    "concurrency": run.trial.requests,
                    "prompts": run.prompts,
                    "minutes": run.minutes,
                    "tells": {"parameter": run.tells, "before": run.deviation[0], "after": run.deviation[1]},
                    "bands": asdict(run.bands),
                }
            )
        servers.append(
            {
                "device": server.group.node_class.device.name,
                "node_class": server.group.node_class.id,
                "engine": server.group.engine,
                **server.design.sizes,
                "start_minutes": server.start_minutes,
                "serve": commands.serve(server, [run.trial for run in session.runs]),
                "runs": runs,
            }
        )
    return {
        "model": found.asked.card.name,
        "cluster": found.asked.cluster.name,
        "workload": found.asked.workload.name,
        "before": asdict(found.before),
        "after": asdict(found.after),
        "servers": servers,
        "script": commands.script(found.sessions),
    }

"""A calibration in a terminal: what it is worth, what it changed, and what is still off. A probe in a
terminal: what to run and what comes of it, then the commands to paste; or all as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.calibration import commands
from planner.calibration.bench import TPOT, TTFT, Mask
from planner.calibration.bold import Bold
from planner.calibration.calibrate import FELT, Calibrated, Change, off
from planner.calibration.probe import Bands, Probe
from planner.cost.bands import Z80
from planner.cost.calibration import Traits
from planner.designs.shape import Floats
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.terminal import section
from planner.reports.words import TELLS, grid

CHANGES, WORST = 4, 5
"""Most that are listed: of a kind of server, of rows."""

FAR = 0.1
"""A time that is off by less is not worth a line."""


def render(found: Calibrated, refused: int, console: Console) -> None:
    """Print it: rows, errors and changes by kind of server, the worst rows."""
    rows = f"{len(found.measurements):,} rows used, {refused:,} refused"
    console.print(Text(rows, style="bold"))
    section(console, "Median errors of rows held back, and 80 % bands", worth(found))
    console.print(Text("  before: as shipped; after: by what other rows say, in five folds", style="dim"))
    section(console, "What changed", Text("\n".join(changed(found)) or "nothing that would be felt"))
    if worst := still_off(found):
        section(console, "Still off", Text("\n".join(worst)))


def worth(found: Calibrated) -> Table:
    """Errors before and after by kind of server, bias after, and the bands."""
    table = grid("", ">rows", ">before", ">after", ">bias", ">band")
    kinds = list(dict.fromkeys(found.servers))
    for traits in kinds:
        table.add_row(Text(server(traits, found.models), style="bold"))
        _add(table, found, np.array([other == traits for other in found.servers]))
    if len(kinds) > 1:
        table.add_row(Text("all", style="bold"))
        _add(table, found, np.ones(len(found.servers), dtype=bool))
    return table


def _add(table: Table, found: Calibrated, of: Mask) -> None:
    """The lines of some rows."""
    for name, kind in (("TPOT", TPOT), ("TTFT", TTFT)):
        was, now = (found.measured - x for x in (found.before, found.held_back))
        rows = of & np.isfinite(now[:, kind])
        if not rows.any():
            continue
        medians = (say.percent(float(np.median(off(x[rows, kind])))) for x in (was, now))
        bias = f"{100 * np.median(np.expm1(-now[rows, kind])):+.1f} %"
        band = " → ".join(width(x[rows, kind]) for x in (found.sigma_before, found.sigma))
        table.add_row(f"  {name}", f"{rows.sum():,}", *medians, bias, f"±{band} %")


def width(sigma: Floats) -> str:
    """The upper edge of a mean band, in percent."""
    return f"{100 * np.expm1(Z80 * sigma.mean()):.0f}"


def changed(found: Calibrated) -> list[str]:
    """By kind of server, what is felt most."""
    lines = []
    for traits in dict.fromkeys(found.servers):
        if own := [change for change in found.changes if change.server == traits]:
            lines += [server(traits, found.models), *(f"  {sentence(change)}" for change in own[:CHANGES])]
    return lines


def sentence(change: Change) -> str:
    """One change in words."""
    effects = (("TPOT", change.effect[TPOT]), ("TTFT", change.effect[TTFT]))
    felt = [f"{name} {100 * np.expm1(x):+.0f} %" for name, x in effects if abs(x) >= FELT]
    return f"{TELLS.get(change.parameter, change.parameter)} ×{change.factor:.2f}: {', '.join(felt)}"


def server(traits: Traits, models: Mapping[str, str]) -> str:
    """A kind of server in words; `models`: names of their shapes."""
    precision = traits.gemm if traits.experts in ("none", traits.gemm) else f"{traits.gemm}/{traits.experts}"
    return f"{models[traits.model]} {precision} on {traits.device} under {traits.engine}"


def still_off(found: Calibrated) -> list[str]:
    """The rows, held back, that are farthest from what was measured."""
    errors = np.nan_to_num(found.measured - found.held_back)
    order = np.argsort(-np.abs(errors), axis=None)[:WORST]
    lines = []
    for row, kind in zip(*np.unravel_index(order, errors.shape), strict=True):
        error = errors[row, kind]
        if abs(error) < FAR:
            break
        name = "TPOT" if kind == TPOT else "TTFT"
        seen, said = (np.exp(x[row, kind]) for x in (found.measured, found.held_back))
        values = f"{say.milliseconds(seen)} measured, {say.milliseconds(said)} predicted"
        m = found.measurements[row]
        lines.append(f"{m.where}: {name} {values} ({load(m.cells)})")
    return lines


def load(cells: Mapping[str, str]) -> str:
    """Lengths, concurrency and parallelism of a row."""
    sizes = [f"{x}{cells[x]}" for x in ("tp", "pp", "attn_dp", "ep") if cells.get(x, "1") not in ("", "1")]
    lengths = f"{cells.get('isl', '?')}/{cells.get('osl', '?')}"
    return ", ".join([lengths, f"{cells.get('concurrency', '1')} at once", *sizes])


def render_probe(found: Probe, console: Console) -> None:
    """Print the list, and below it the commands, one a line however long."""
    console.print(headline(found))
    if not found.sessions:
        return
    console.print()
    console.print(table(found))
    if bold := next((run.bold for session in found.sessions for run in session.runs if run.bold), None):
        console.print(Text(f"run 1 settles the bold choice: {settles(bold)}"))
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
    told = ", ".join(f"{name} {edge(was)} → {edge(now)}" for name, was, now in pairs if was > 0)
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
            tells = TELLS.get(run.tells, run.tells)
            rows.add_row(f"  {number}", *load, minutes, *bands(run.bands), tells)
    return rows


def settles(bold: Bold) -> str:
    """What the bold choice would bring, and how sure it is."""
    gain = (
        "nothing else keeps the limits" if bold.gain is None else f"+{say.percent(bold.gain)} output tokens"
    )
    return f"{gain}, the limits kept with a chance of {100 * bold.kept:.0f} %"


def bands(these: Bands) -> tuple[str, str]:
    """Bands of TPOT and TTFT; nothing where there is none."""
    return edge(these.tpot), edge(these.ttft)


def edge(sigma: float) -> str:
    """The upper edge of the 80 % band.

    >>> edge(0.1), edge(0.6)
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
                    **({"bold": {"gain": run.bold.gain, "kept": run.bold.kept}} if run.bold else {}),
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

"""An expert map in a terminal: balance before and after, the way there, a heat map, the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.expert_maps.formats import as_document
from planner.expert_maps.schema import Drift, Found, Hops, Moves, State
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.proven import good
from planner.reports.terminal import section
from planner.reports.words import grid

MEGA = 1e6


def render(found: Found, console: Console) -> None:
    """Print the answer. Warnings are not in it."""
    console.print(headline(found))
    section(console, "Balance: hottest GPU / mean", balance(found))
    if found.hops:
        section(console, "Hops of tokens from layer to layer", hops(found.hops))
    if found.moves:
        section(console, "Moves", moves(found.moves))
    if found.drift:
        section(console, "Drift", drift(found.drift, found.steps))
    if any(hot.replicas > 1 for hot in found.hottest):
        section(console, "Busiest experts", hottest(found))
    maps = [(state.what, state.heat) for state in (found.before, found.after)]
    names = [str(layer) for layer in found.map.layers]
    section(console, "Load of GPUs (across) in layers (down)", panels(maps, names, console.width - 2))
    section(console, "Proof", proof(found))


def as_json(found: Found) -> dict[str, Any]:
    """Our map form, and beside it what `render` says."""
    return as_document(found.map) | {
        "goal": found.goal,
        "proof": {
            "objective": found.objective,
            "bound": found.bound,
            "gap": found.gap,
            "status": found.status,
            "seconds": round(found.seconds, 3),
        },
        "before": _state(found.before),
        "after": _state(found.after),
        "moves": asdict(found.moves) if found.moves else None,
        "hops": asdict(found.hops) if found.hops else None,
        "drift": asdict(found.drift) if found.drift else None,
        "warnings": list(found.warnings),
    }


def _state(state: State) -> dict[str, Any]:
    return {
        "what": state.what,
        "balance_mean": float(state.balance.mean()),
        "balance_worst": float(state.balance.max()),
        "nodes_per_token": state.nodes_per_token,
    }


def headline(found: Found) -> Text:
    """What was placed on what, and what came of it."""
    m = found.map
    nodes = f" in {len(m.nodes)} nodes" if len(m.nodes) > 1 else ""
    slots = "/".join(str(s) for s in sorted(set(m.slots), reverse=True))
    extra = sum(m.slots) - m.experts
    replicas = f", {extra} of {sum(m.slots)} for replicas" if extra else ""
    text = Text.assemble((m.model, "bold"), ": ") if m.model else Text()
    text.append(
        f"{counted(len(m.layers), 'layer')} of {m.experts} experts on {m.gpus} GPUs{nodes}, {slots} slot"
        f"{'' if slots == '1' else 's'} each{replicas}\n"
    )
    text.append(f"hottest GPU {ratio(found.after.balance.mean())} × mean", style="bold green")
    text.append(f", was {ratio(found.before.balance.mean())} with {found.before.what}")
    if found.after.nodes_per_token is not None and len(m.nodes) > 1:
        text.append(f" · {say.number(found.after.nodes_per_token)} nodes a token", style="bold green")
        text.append(f", was {say.number(found.before.nodes_per_token or 0.0)}")
    return text


def balance(found: Found) -> Table:
    """Before and after, mean over layers and the worst layer, and what no map is below."""
    traffic = found.after.nodes_per_token is not None and len(found.map.nodes) > 1
    table = grid("", ">mean", ">worst", "", *([">nodes a token"] if traffic else []))
    for state in (found.before, found.after):
        worst = int(state.balance.argmax())
        cells = [
            state.what,
            ratio(state.balance.mean()),
            ratio(state.balance[worst]),
            f"layer {found.map.layers[worst]}",
        ]
        table.add_row(*cells, *([say.number(state.nodes_per_token or 0.0)] if traffic else []))
    bound = found.map.bound
    table.add_row("no map is below", ratio(sum(bound) / len(bound)), ratio(max(bound)), style="dim")
    return table


def hops(h: Hops) -> Table:
    table = grid("", ">in order", ">this map")
    table.add_row("stay on the GPU", *(say.percent(x) for x in h.same_gpu))
    table.add_row("stay on the node", *(say.percent(x) for x in h.same_node))
    cut = say.percent(1 - h.after / h.before) if h.before else "0 %"
    table.add_row("tokens × cost of their ways", say.number(h.before), f"{say.number(h.after)}, {cut} less")
    table.add_row("no map is below", "", say.number(h.bound), style="dim")
    return table


def moves(m: Moves) -> Text:
    least = "no map takes fewer" if m.bound == m.copies else f"at least {m.bound:,} needed"
    lines = [
        f"{m.copies:,} weights are copied ({least}); the best balance takes {m.fresh:,}",
        f"balance kept within {say.percent(m.within)} of the best, layer by layer",
    ]
    if m.bytes is not None and m.worst_gpu_bytes is not None:
        lines.append(f"{size(m.bytes)} in all, {size(m.worst_gpu_bytes)} into the busiest GPU")
    else:
        lines.append(f"{m.worst_gpu} into the busiest GPU; --model tells bytes")
    if m.pause_s is not None:
        lines.append(f"{say.milliseconds(1000 * m.pause_s)} of copying, at {m.links}")
    elif m.bytes is not None:
        lines.append("--gb-per-s, or GPUs by name in --gpus, tells how long that takes")
    return Text("\n".join(lines))


def drift(d: Drift, steps: int) -> RenderableType:
    table = grid("map", ">first half", ">second half")
    for what, first, second in d.rows:
        table.add_row(what, ratio(first), ratio(second))
    text = f"{steps} steps; the first half's map loses {say.percent(d.loss)} in the second half"
    return Group(table, Text(text, style="dim"))


def hottest(found: Found) -> Table:
    table = grid(">layer", ">expert", ">of its tokens", ">replicas")
    for hot in found.hottest:
        table.add_row(str(hot.layer), str(hot.expert), say.percent(hot.share), str(hot.replicas))
    return table


def proof(found: Found) -> Text:
    loose = found.status == "time_limit"
    why = "not proven nearer: " if loose else ""
    text = Text(f"{why}{good(found.gap)}", style="bold yellow" if loose else "bold green")
    text.append(f", {say.number(found.seconds, 2)} s\n")
    text.append(f"{found.goal}: {found.objective:.6g}, no map is below {found.bound:.6g}", style="dim")
    if "step" in found.goal:
        text.append(f" ({found.steps} steps as {found.windows})", style="dim")
    return text


def ratio(x: float) -> str:
    """Hottest over mean.

    >>> ratio(1.6249), ratio(1.00412), ratio(12.3)
    ('1.62', '1.004', '12.3')
    """
    return f"{x:.3f}" if x < 1.1 else say.number(x)


def size(count: float) -> str:
    """Bytes.

    >>> size(44.05e6), size(9.4e9)
    ('44.0 MB', '9.40 GB')
    """
    return f"{say.number(count / 1e9)} GB" if count >= 1e9 else f"{say.number(count / MEGA)} MB"


Floats = NDArray[np.float64]
SHADES = (
    (0.75, " ", ""),
    (0.95, "░", "blue"),
    (1.05, "▒", "green"),
    (1.25, "▓", "yellow"),
    (np.inf, "█", "red"),
)
"""Up to what, as what, in what colour."""
MOST_ROWS, WIDEST, GAP = 30, 4, 3


def panels(maps: Sequence[tuple[str, Floats]], names: Sequence[str], width: int) -> Group:
    """Maps (rows, columns) of values around 1 side by side, under their titles, rows named.

    Where there is no room for all, a cell is the highest of several.
    """
    rows, columns = maps[0][1].shape
    tall = -(-rows // MOST_ROWS)
    parts = [names[at : at + tall] for at in range(0, rows, tall)]
    labels = [part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    margin = max(map(len, labels))
    room = max(8, (width - margin - 2 - GAP * (len(maps) - 1)) // len(maps))
    wide = -(-columns // room)
    cell = max(1, min(WIDEST, room // -(-columns // wide)))
    cells = [_highest(values, tall, wide) for _, values in maps]
    filled = cells[0].shape[1] * cell
    span = max(filled, min(room, max(len(title) for title, _ in maps)))
    titles = (" " * GAP).join(title[:span].ljust(span) for title, _ in maps)
    lines = [Text((" " * (margin + 2) + titles).rstrip(), style="dim", no_wrap=True)]
    for at, label in enumerate(labels):
        line = Text(f"{label:>{margin}}  ", style="dim", no_wrap=True)
        for i, values in enumerate(cells):
            line.append(" " * (GAP + span - filled) if i else "")
            for value in values[at].tolist():
                _, shade, colour = next(s for s in SHADES if value <= s[0])
                line.append(shade * cell, style=f"not dim {colour}".strip())
        lines.append(line)
    return Group(*lines, Text(_legend(tall, wide), style="dim"))


def _highest(values: Floats, tall: int, wide: int) -> Floats:
    """The highest of each `tall` x `wide` cells.

    >>> _highest(np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]), 2, 2).tolist()
    [[4.0, 3.0]]
    """
    high = np.maximum.reduceat(values, np.arange(0, values.shape[0], tall), axis=0)
    return np.asarray(np.maximum.reduceat(high, np.arange(0, values.shape[1], wide), axis=1))


def _legend(tall: int, wide: int) -> str:
    steps = [f"{shade} to {edge:g}" for edge, shade, _ in SHADES[1:-1]]
    text = f"blank to {SHADES[0][0]:g} of the mean, {', '.join(steps)}, {SHADES[-1][1]} above"
    if tall * wide > 1:
        text += f"; a cell is the hottest of {tall} layers x {wide} GPUs"
    return text

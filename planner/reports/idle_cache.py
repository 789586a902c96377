"""KV cache that replicas keep between requests: where, how long, what it finds, what more room is worth."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from planner.plans.schema import Kept, Plan, Replica
from planner.reports import words as say
from planner.reports.words import grid

PLACES = {"hbm": "GPU memory", "host": "host memory", "nvme": "NVMe", "remote": "remote storage"}
FOREVER_S = 86_400.0
SMALL = 0.005
"""Share of what is saved below which a gain is not worth a line."""

ROUTERS = {
    "vllm": "vLLM's production-stack router: --routing-logic prefixaware, or session",
    "sglang": "sglang_router.launch_router: --policy cache_aware",
}


def keeping(plan: Plan) -> list[RenderableType]:
    """A table of the groups that keep cache, times to live and prices; nothing where none
    does."""
    told = [(r, r.kept) for r in plan.replicas if r.kept is not None]
    if not told:
        return []
    table = grid("", "kept in", ">GB", ">shared", ">found", ">for", ">lasts")
    for r, k in told:
        sizes = (f"{k.bytes / 1e9:,.1f}", f"{k.shared_bytes / 1e9:,.1f}" if k.shared_bytes else "")
        table.add_row(r.id, PLACES[k.place], *sizes, say.percent(k.hit), span(k.keep_s), span(k.lasts_s))
    note = (
        "idle cache of a replica; shared: beginnings, in GPU memory; found: of prompt tokens, kept so long; "
        "lasts: in all the room there is"
    )
    lines: list[RenderableType] = [table, Text(note, style="dim")]
    for r, k in told:
        lines += [Text(line) for line in sentences(r, k)]
    routers = [ROUTERS[e] for e in dict.fromkeys(r.engine for r, _ in told) if e in ROUTERS]
    if routers and sum(r.count for r, _ in told) > 1:
        lines.append(Text("sessions stay on their replica: " + "; ".join(routers), style="dim"))
    return [Group(*lines)]


def sentences(r: Replica, k: Kept) -> list[str]:
    """The best times to live, what they would add, and what more room is worth."""
    lines = []
    best = [
        f"{t.kind} {' then '.join(stays)}"
        for t in k.times
        if (stays := [f"{span(s)} in {PLACES[tier]}" for tier, s in t.seconds.items() if s >= 0.05])
    ]
    if k.best_adds > SMALL:
        lines.append(
            f"{r.id}: times to live by kind instead of one for all would save {say.percent(k.best_adds)} more"
        )
    if best and len(best) <= SHOWN:
        lines.append(f"{r.id}: best kept: {'; '.join(best)}")
    worth = [
        f"{PLACES[p.limit.split(' ')[0]]} {say.rate(p.worth, p.unit)}" for p in k.prices if p.worth > 0.0005
    ]
    if worth:
        lines.append(f"{r.id}: one more GB here is worth, by the time it saves: {', '.join(worth)}")
    else:
        lines.append(f"{r.id}: one more GB of any tier for idle cache would bring nothing")
    return lines


SHOWN = 6
"""Kinds that are listed."""


def span(seconds: float) -> str:
    """A time in seconds or minutes, or for good.

    >>> span(4.2), span(150.0), span(9000.0), span(1e6)
    ('4.20 s', '150 s', '150 min', 'for good')
    """
    if seconds >= FOREVER_S:
        return "for good"
    return f"{say.number(seconds)} s" if seconds < 600 else f"{say.number(seconds / 60)} min"

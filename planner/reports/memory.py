"""What a GPU's memory is taken by, as bars; what of a plan lies beside its GPUs, and what a token then waits
for; KV cache that replicas keep between requests: where, how long, what it finds, what more room is
worth."""

from __future__ import annotations

from fractions import Fraction

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.plans.schema import Kept, Plan, Replica, StageMemory, Tiered
from planner.reports import words as say
from planner.reports.words import grid

PARTS = (
    ("weights", "█", "blue"),
    ("KV", "▓", "green"),
    ("activ.", "▒", "yellow"),
    ("reserve", "░", "magenta"),
)
"""Part, the character it is drawn with (told apart without colour), its colour."""
FREE = "·"

GIB = 2**30
"""Vendors and drivers count a GPU's memory so: an 80 GB card has 80 of them."""

FIGURES_WIDTH = 51
"""Columns of the figures beside the bar, with the space between them."""


def memory(replicas: list[Replica], width: int) -> Table:
    """A bar for each replica group and device, in `width` columns, with the GiB of each part."""
    rows = [(f"{r.id} {device}", m) for r in replicas for device, m in fullest(r).items()]
    bar_width = max(4, min(40, width - FIGURES_WIDTH - max(len(label) for label, _ in rows)))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for name, mark, colour in PARTS:
        table.add_column(Text(f"{mark} {name}", style=colour), justify="right", no_wrap=True)
    table.add_column(Text("of", style="dim"), justify="right", no_wrap=True)
    for label, m in rows:
        sizes = [f"{part / GIB:.1f}" for part in parts(m)]
        table.add_row(label, bar(m, bar_width), *sizes, f"{m.capacity_bytes / GIB:.0f} GiB")
    return table


def fullest(replica: Replica) -> dict[str, StageMemory]:
    """By device, the stage with the least room left: the one to look at."""
    found: dict[str, StageMemory] = {}
    for stage in replica.memory:
        device = replica.stages[stage.stage].device
        if device not in found or sum(parts(stage)) > sum(parts(found[device])):
            found[device] = stage
    return found


def parts(stage: StageMemory) -> tuple[float, float, float, float]:
    """Bytes of each of `PARTS`, in their order."""
    return stage.weights_bytes, stage.kv_bytes, stage.activation_bytes, stage.reserve_bytes


def bar(stage: StageMemory, width: int) -> Text:
    """The bar: each part's share of the capacity in characters, cut at the running total, so that it adds up.

    >>> m = StageMemory(stage=0, weights_bytes=40e9, kv_bytes=20e9, activation_bytes=5e9, reserve_bytes=5e9,
    ...                 capacity_bytes=80e9)
    >>> bar(m, 16).plain
    '████████▓▓▓▓▒░··'
    """
    text, total, drawn = Text(), 0.0, 0
    for size, (_, mark, colour) in zip(parts(stage), PARTS, strict=True):
        total += size
        end = min(width, round(width * total / stage.capacity_bytes)) if stage.capacity_bytes else 0
        text.append(mark * (end - drawn), style=colour)
        drawn = max(drawn, end)
    return text.append(FREE * (width - drawn), style="dim")


PLACES = {
    "hbm": "GPU memory",
    "host": "host memory",
    "cxl": "CXL memory",
    "nvme": "NVMe",
    "remote": "remote storage",
}
"""What memories are called."""
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


WAYS = {"cpu": "computed on the CPU", "pcie": "copied to the GPU in every step"}

NAMED = 0.05
"""Share of a step from which on what it goes to is named."""


def beside(plan: Plan) -> Group:
    """What lies where; what a token waits for; how pages are dealt to memories so."""
    layers = sum(run["times"] * len(run["of"]) for run in plan.problem.model["layers"])
    experts = max((ffn.get("experts", 0) for ffn in plan.problem.model["ffns"].values()), default=0)
    table = grid("", "", "", "")
    for part in weights(plan):
        way = WAYS[part.way] if part.tier != "nvme" else "read when it is met"
        said = what(part, layers, experts > 0) + of_node(part, plan)
        table.add_row(part.replica, said, f"{part.bytes / 1e9:,.1f} GB", way)
    lines = []
    for r in plan.replicas:
        mine = [part for part in weights(plan) if part.replica == r.id]
        if mine:
            lines.append(Text(f"{r.id}: {bound(r)}"))
            lines += [Text(text, style="dim") for text in interleave(mine)]
    return Group(table, *lines)


def weights(plan: Plan) -> list[Tiered]:
    """All there but idle cache (`kept`)."""
    return [part for part in plan.tiers if part.what != "cache"]


def what(part: Tiered, layers: int, moe: bool) -> str:
    """`experts of 34 of 36 layers in host memory`, a share of them where not all are there."""
    many = sum(end - first for first, end in part.layers)
    some = "" if part.share > 0.9995 else f"{say.percent(part.share)} of the "
    if part.what == "weights":
        some = some and f"{some}weights of "
        return f"{some}{many} of {layers} layers in {PLACES[part.tier]}, their cache on the GPU"
    if some and part.what == "layers":
        moe, some = False, f"{some}weights of "
    rest = "the rest of " if moe else ""
    kind = f"{some}experts of {many}" if part.what == "experts" else f"{rest}{many}"
    cache = " and their cache" if part.what == "layers" else ""
    if some and part.what == "layers":
        kind = f"{some}{many}"
    return f"{kind} of {layers} layers{cache} in {PLACES[part.tier]}"


def interleave(parts: list[Tiered]) -> list[str]:
    """How pages are dealt to host memory and CXL memory so: Linux from 6.9 on, numactl from 2.0.19 on."""
    held = {tier: sum(part.bytes for part in parts if part.tier == tier) for tier in ("host", "cxl")}
    if not held["cxl"]:
        return []
    host, cxl = page_weights(held["host"] / (held["host"] + held["cxl"]))
    return [
        f"before it, numactl --weighted-interleave=all, with {host} in /sys/kernel/mm/mempolicy/"
        f"weighted_interleave/nodeN of each node of host memory and {cxl} in those of CXL memory"
    ]


def page_weights(share: float) -> tuple[int, int]:
    """Small whole numbers in the ratio of `share` to the rest, none 0.

    >>> page_weights(0.75), page_weights(0.8235), page_weights(0.0)
    ((3, 1), (14, 3), (1, 20))
    """
    ratio = Fraction(share).limit_denominator(20)
    host, both = ratio.numerator, ratio.denominator
    if 0 < host < both:
        return host, both - host
    return (20, 1) if host else (1, 20)


def of_node(part: Tiered, plan: Plan) -> str:
    """Which node's memory, where the replica stands on several: its name, of several replicas the first's."""
    r = next(r for r in plan.replicas if r.id == part.replica)
    if len({(s.node_class, *s.nodes) for s in r.stages}) < 2:
        return ""
    return f" of {r.stages[-1 if part.stage is None else part.stage].nodes[0]}"


def bound(r: Replica) -> str:
    """What a token waits for, the most first."""
    ranked = sorted(r.step.by.items(), key=lambda item: -item[1])
    shares = [(name, seconds / max(r.step.decode_s, 1e-12)) for name, seconds in ranked]
    named = [f"{name} {say.percent(share)}" for name, share in shares if share >= NAMED]
    if not named:
        return "one token is the prompt's own: no step decodes"
    return f"a token is bound by {named[0]}" + (f"; {', '.join(named[1:])}" if named[1:] else "")

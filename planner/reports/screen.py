"""The first screen of a plan: the answer, what to expect, what to run, the best other way, how sure that is,
and what to do next, in an 80 x 24 window (`fitted`). `terminal` prints everything else (`plan --details`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from planner.plans.schema import Cap, Plan, Replica
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.defaults import assumed_briefly, untried
from planner.reports.figures import Figure, by_device, figures, owned, used
from planner.reports.fitted import WIDTH, Section, fitted, titled
from planner.reports.instead import instead
from planner.reports.proven import LEAST, ended
from planner.reports.replayed import replayed_briefly, surviving

ROLES = {
    "mixed": "prefill and decode",
    "prefill": "prefill",
    "decode": "decode",
    "attention": "attention",
    "ffn": "FFN",
    "chain": "chain",
}
"""What a group of replicas does, in words."""

DEVICES = 3
"""Kinds of device that the first line lists; of more it counts them."""


def render(plan: Plan, console: Console, kept: bool = False) -> None:
    """Print it. `kept`: whether the plan is kept as the last one, so that other commands find it."""
    for line in fitted(sections(plan, kept)):
        console.print(line, soft_wrap=True)


def sections(plan: Plan, kept: bool) -> list[Section]:
    """All there is to be told, in order, before it is made to fit."""
    run = running(plan)
    told = [
        Section("", [headline(plan)]),
        Section("", expected(plan), least=4, lead=True),
        Section("", run, least=min(len(run), 4), lead=True),
        Section("Start", starting_line(plan), least=0),
        Section("Replayed", titled("Replayed", promised(plan))),
        Section("Survives", titled("Survives", lasting(plan))),
        Section("Instead", titled("Instead", list(instead(plan)))),
        Section("Untried", titled("Untried", list(untried(plan)))),
        Section("Proof", titled("Proof", [proven(plan)])),
        Section("Assumed", titled("Assumed", list(filter(None, [assumed_briefly(plan)])))),
        Section("Next", titled("Next", following(plan, kept))),
    ]
    return [section for section in told if section.lines]


def headline(plan: Plan) -> Text:
    """Which model on which GPUs, how many of them it takes, and what they cost."""
    p, total, taken = plan.predicted, owned(plan), used(plan)
    gpus = f"use {taken:,} of {total:,} GPUs"
    if taken == total:
        gpus = {1: "use its one GPU", 2: "use both GPUs"}.get(total, f"use all {total:,} GPUs")
    price = f", {say.money(p.usd_per_hour.value)}/h" if p.usd_per_hour else ""
    name = str(plan.problem.model.get("name") or "measured replicas")
    room = WIDTH - len(name) - len(" on : ") - len(gpus) - len(price)
    return Text.assemble((name, "bold"), f" on {where(plan, room)}: ", (gpus + price, "bold green"))


def where(plan: Plan, room: int) -> str:
    """The cluster in words: its GPUs by device where these are few, its name where it has one of its own."""
    cluster, gpus = plan.problem.cluster, dict[str, int]()
    for node in cluster["nodes"]:
        for device, many in by_device(node, plan.problem.devices):
            gpus[device] = gpus.get(device, 0) + many * int(node.get("count") or 1)
    name = str(cluster.get("name", "cluster"))
    listed = " + ".join(f"{many:,} x {device}" for device, many in gpus.items())
    if len(gpus) > DEVICES or len(listed) > room:
        listed = counted(len(gpus), "kind") + " of GPU"
    if any(c.isdigit() for c in name.split(",")[0].split("x")[0]) and "x" in name:
        return listed  # named after what `--gpus` said
    return f"{name} ({listed})" if len(name) + len(listed) + 3 <= room else name


WIDEST = 3
"""Blanks between columns, where there is room for so many."""


def expected(plan: Plan) -> list[Text]:
    """Predictions with their bands, limits, and the chances that these are kept."""
    rows = list(_rows(plan))
    cells = [("Expect", "predicted", "80 % band", "limit", "chance kept"), *map(_cells, rows)]
    shown = [i for i in range(5) if i < 2 or any(row[i] for row in cells[1:])]
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    between = (WIDTH - sum(widths[i] for i in shown)) // (len(shown) - 1)
    gap = min(max(between, 1), WIDEST)
    lines = list[Text]()
    for at, row in enumerate(cells):
        line = Text(row[0].ljust(widths[0]), style="bold cyan" if at == 0 else "")
        for i in shown[1:]:
            style = "dim" if at == 0 else "bold" if i == 1 else ""
            line.append(" " * gap + row[i].rjust(widths[i]), style=style)
        line.rstrip()
        lines.append(line)
    return lines


def _cells(f: Figure) -> tuple[str, str, str, str, str]:
    odds = "" if f.kept is None else say.odds(f.kept)
    return f"  {f.label}", f.shown, f.edges.replace("–", "-"), f.limited, odds


def _rows(plan: Plan) -> Iterator[Figure]:
    """The figures that decide, of all that there are."""
    known = {f.label: f for f in figures(plan)}
    workload, s = plan.problem.workload, plan.saturated
    comes = "as asked" if workload.get("rate_rps") is not None else "random arrivals"
    if workload.get("rate_rps") is None and workload.get("arrivals") == "closed":
        comes = "closed loop"
    yield replace(known["requests"], label=f"requests, {comes}")
    if s is not None:
        band = known["requests"].band.model_copy(update={"value": s.rps, "low": s.rps, "high": s.rps})
        many = say.number(s.in_flight) if s.in_flight < 1e6 else f"{say.number(s.in_flight / 1e6)} M"
        label = f"saturated, {many} in flight"
        yield Figure(label, band, "/s")
    yield from (f for label, f in known.items() if label.startswith("time "))
    if plan.proof.unit == "W":
        yield known["power of all GPUs"]
    cost = known.get("cost of 1M output tokens")
    yield cost if cost is not None else known["output tokens"]


def running(plan: Plan) -> list[Text]:
    """What to run: a line a group of replicas, what all have in common in the title."""
    if plan.chains:
        return [_title("Run", "chains of nodes"), *map(Text, _chains(plan))]
    engines = {r.engine_name for r in plan.replicas}
    formats = {say.precision(r) for r in plan.replicas}
    both = [" and ".join(sorted(engines))] + (list(formats) if len(formats) == 1 else [])
    cells = [_group(r, len(engines) > 1, len(formats) > 1) for r in plan.replicas]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    whose = "measured replicas" if engines == {MEASURED} else f"with {', '.join(both)}"
    lines = [_title("Run", whose)]
    for row in cells:
        padded = [cell.ljust(w) for cell, w in zip(row, widths, strict=True) if w]
        lines.append(Text(_clipped("  " + "   ".join(padded).rstrip())))
    return lines


def _title(name: str, rest: str) -> Text:
    return Text.assemble((name, "bold cyan"), f" {rest}")


def _clipped(line: str) -> str:
    """A line that fits: whole columns are left out from its end."""
    while len(line) > WIDTH:
        line = line.rpartition("   ")[0].rstrip() if "   " in line.strip() else line[: WIDTH - 1] + "…"
    return line


def _group(r: Replica, engine: bool, precision: bool) -> list[str]:
    """Count and layout, GPUs, what it does, what it has of its own, its batch and load."""
    gpus = " + ".join(f"{n} x {device}" for device, n in say.gpus_by_device(r).items())
    extra = [r.engine_name] * engine + [say.precision(r)] * precision
    extra += [f"GPU limit {r.power_limit_watts:g} W"] if r.power_limit_watts else []
    extra += [f"drafts by {r.draft.kind}"] if r.draft else []
    return [
        f"{r.count:,} x {say.layout(r)}",
        f"on {gpus}",
        ROLES.get(r.role, r.role),
        ", ".join(extra),
        f"batch {r.max_batch:,}",
        f"{say.percent(r.utilisation)} busy",
    ]


CHAINS = 3


def _chains(plan: Plan) -> Iterator[str]:
    ranked = sorted(plan.chains, key=lambda chain: -chain.share)
    for chain in ranked[:CHAINS]:
        hops = " -> ".join(f"{hop.node} {hop.layers[0]}:{hop.layers[1]}" for hop in chain.hops)
        yield _clipped(f"  {say.percent(chain.share)} of requests   {hops}")
    if rest := ranked[CHAINS:]:
        yield f"  {say.percent(sum(c.share for c in rest))} of requests   {len(rest)} more chains (--details)"


def starting_line(plan: Plan) -> list[Text]:
    """The command of a server that stands alone, as a shell takes it."""
    one = plan.replicas[0] if len(plan.replicas) == 1 and plan.replicas[0].count == 1 else None
    if one is None or one.launch is None or not one.launch.argv or one.launch.files:
        return []
    return titled("Start", [shlex.join(one.launch.argv)])


def promised(plan: Plan) -> list[str]:
    """What a replay of the arrivals achieved, where one sized the plan."""
    return [replayed_briefly(plan, plan.replayed)] if plan.replayed else []


def lasting(plan: Plan) -> list[str]:
    """What is left after a loss of nodes, where the plan was to survive it."""
    return surviving(plan, plan.survives)[:1] if plan.survives else []


BETTER = {"USD/h": "cheaper", "W": "with less power", "s": "quicker", "GPUs": "with fewer GPUs"}
"""What a better plan would be, by the unit of the goal."""


def proven(plan: Plan) -> str:
    """How much better another plan may be, among what."""
    p = plan.proof
    tried = f"{p.space.considered:,} designs"
    if plan.chains:
        tried = f"placements on {p.space.considered:,} units"
    if p.status == "joint":
        return f"planned with other models, whose proof is of all together, among {tried}"
    gap = abs(p.bound - p.own) / abs(p.own) if p.own else p.gap
    left = _left_out(p.space.caps)
    better = BETTER.get(p.unit, "better")
    far = f"nothing {better}" if gap < LEAST else f"at most {say.percent(gap)} {better}"
    said = f"{far} among {tried}{left}"
    if p.status in ("optimal", "within_gap"):
        return said
    limit_s = float(plan.problem.options.get("time_limit_s", 0.0))
    why = p.why or ended(p, limit_s).removesuffix(": ")
    return f"{said}; not closed: {why}"


def _left_out(caps: Sequence[Cap]) -> str:
    """`; 33 of unusual size were not tried`."""
    unusual = sum(cap.left_out or 0 for cap in caps if cap.what.startswith("designs of usual sizes"))
    return f"; {unusual:,} of unusual size {'was' if unusual == 1 else 'were'} not tried" if unusual else ""


def following(plan: Plan, kept: bool) -> list[str]:
    """Commands that go on from here."""
    if not kept:
        return ["write the plan with -o plan.json; --details says all of it"]
    target = next((r.engine for r in plan.replicas), "vllm")
    others = "meshwright explain, simulate, report: of this plan, which is kept"
    if plan.chains or not any(r.launch and r.launch.argv for r in plan.replicas):
        return [others]
    return [f"meshwright export --to {TARGETS.get(target, target)}", others]


MEASURED = "measured"
"""The engine of replicas that a table of one's own measured."""

TARGETS = {"trtllm": "tensorrt-llm"}
"""What `export --to` calls an engine, where it is not the engine's own name."""

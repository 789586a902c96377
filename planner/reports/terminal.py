"""A plan in a terminal: what to run, what it will deliver, why this and not another, and how sure that is.

Reads at 80 columns, uses more where there are more; says all it says without colour too.
"""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from planner.plans.schema import Experts, Plan, Price, Route
from planner.reports import words as say
from planner.reports.defaults import assumed, decisive, untried
from planner.reports.figures import figures, owned, used
from planner.reports.memory import beside, keeping, memory, weights
from planner.reports.proven import in_order, phases, price_list, proof, verdict
from planner.reports.replayed import replayed, surviving
from planner.reports.started import rented, show
from planner.reports.words import grid

SHOWN = 6
"""Chains that are listed."""


def render(plan: Plan, console: Console) -> None:
    """Print the answer. Warnings are not in it: `warnings` prints them, on stderr."""
    console.print(headline(plan))
    paid = phases(plan)
    told = [*([paid] if paid else []), *rented(plan)]
    section(console, "Run", Group(replicas(plan), *(Text(line, style="dim") for line in told)))
    section(console, "Expect", expected(plan))
    if plan.replayed:
        section(console, "In the replay", replayed(plan, plan.replayed))
    section(console, "Memory per GPU", memory(plan.replicas, console.width - 2))
    if weights(plan):
        section(console, "Beside the GPUs", beside(plan))
    if any(r.cache or r.kept for r in plan.replicas):
        section(console, "KV cache", Group(caches(plan), *keeping(plan)))
    if len(plan.problem.workload["buckets"]) > 1 or len(plan.replicas) > 1:
        section(console, "Traffic", routing(plan))
    if plan.experts and any(e.ep > 1 for e in plan.experts.replicas):
        section(console, "Experts", experts(plan.experts))
    if plan.survives:
        words = (Text(line) for line in surviving(plan, plan.survives))
        section(console, "If nodes are lost", Group(*words))
    if plan.chains:
        section(console, "Chains", chains(plan))
    if plan.long_prompts:
        longest = max(b["isl"] for b in plan.problem.workload["buckets"])
        section(console, f"A prompt of {longest:,} tokens by itself", long_prompts(plan))
    if plan.alternatives:
        section(console, "Alternatives considered", alternatives(plan))
    if plan.prices:
        section(console, "Bottleneck", Group(*(Text(line) for line in worth(plan))))
    if len(plan.proof.kinds) > 1:
        section(console, "Kinds of replica", price_list(plan))
    if plan.evidence:
        section(console, "Beyond what was measured", Group(*(Text(line) for line in untried(plan))))
    show(plan, console)
    section(console, "Proof", proof(plan))
    if plan.problem.defaulted:
        told = [", ".join(assumed(plan.problem)), *decisive(plan)]
        section(console, "Not asked for, so assumed", Group(*map(Text, told)))


def warnings(plan: Plan, console: Console) -> None:
    """Print what a user should know before trusting the plan: one line each."""
    if plan.warnings and console.is_terminal:
        console.print()
    for w in plan.warnings:
        console.print(Text.assemble(("warning: ", "bold yellow"), say.noted(w)))


def section(console: Console, title: str, body: RenderableType) -> None:
    """A heading and what belongs to it, set in by two."""
    console.print()
    console.print(Text(title, style="bold cyan"))
    console.print(Padding(body, (0, 0, 0, 2), expand=False))


COMING = {"open": ", random arrivals", "closed": ", a closed loop"}
"""How requests come where no rate was asked for."""


def coming(plan: Plan) -> str:
    """How requests come, for the end of a line; nothing where a rate was asked for."""
    workload = plan.problem.workload
    return "" if workload.get("rate_rps") is not None else COMING.get(workload.get("arrivals", ""), "")


def headline(plan: Plan) -> Text:
    """The answer in two lines: what runs where, and what comes of it."""
    problem, p = plan.problem, plan.predicted
    parts = [f"{say.number(p.out_tok_per_s.value)} output tok/s", f"{say.number(p.rps.value)} requests/s"]
    asked = problem.workload.get("rate_rps") is not None
    first, second = reversed(parts) if asked else parts
    text = Text.assemble(
        (str(problem.model["name"]), "bold"),
        " on ",
        (str(problem.cluster.get("name", "cluster")), "bold"),
        f", {used(plan):,} of {owned(plan):,} GPUs{coming(plan)}\n",
        (first, "bold green"),
        f" · {second} · TTFT {say.milliseconds(p.ttft_ms.value)}",
        f" · TPOT {say.milliseconds(p.tpot_ms.value)}" if p.tpot_ms.value else "",
    )
    if p.usd_per_hour:
        text.append(f" · {say.money(p.usd_per_hour.value)}/h", style="bold green" if asked else "")
    return text


def replicas(plan: Plan) -> RenderableType:
    """One row a replica group; what is the same for all of them stands below, once."""
    facts: dict[str, list[str]] = {
        "role": [r.role for r in plan.replicas],
        "each on": [say.hardware(r) for r in plan.replicas],
        "layout": [say.layout(r) for r in plan.replicas],
        "engine": [r.engine for r in plan.replicas],
        "precision": [say.precision(r) for r in plan.replicas],
        "chunks": [say.chunks(r) for r in plan.replicas],
        "drafts": [say.drafted(r) for r in plan.replicas],
        "GPU limit": [f"{r.power_limit_watts:g} W" if r.power_limit_watts else "" for r in plan.replicas],
    }
    for name in ("chunks", "drafts", "GPU limit"):
        if not any(facts[name]):
            del facts[name]
    alike = ("engine", "precision", "chunks", "drafts", "GPU limit")
    common = [name for name in alike if name in facts and len(set(facts[name])) == 1]
    if set(facts["role"]) == {"mixed"}:
        del facts["role"]
    table = grid(">", "", *(name for name in facts if name not in common), ">batch", ">busy")
    for i, r in enumerate(plan.replicas):
        about = [values[i] for name, values in facts.items() if name not in common]
        count = Text(f"{r.count:,} ×", style="bold green")
        table.add_row(count, r.id, *about, f"{r.max_batch:,}", say.percent(r.utilisation))
    below = ", ".join(f"{'GPUs limited to ' * (name == 'GPU limit')}{facts[name][0]}" for name in common)
    return Group(table, Text(f"with {below}", style="dim")) if below else table


def expected(plan: Plan) -> RenderableType:
    """Predicted figures, their 80 % bands, the limits that were to be kept, and the chance that they are."""
    p = plan.predicted
    sure = p.chance_ttft is not None or p.chance_tpot is not None
    rows = figures(plan)
    wide = any(f.edges for f in rows)
    table = grid("", ">", ">80 % band" if wide else ">", ">limit", ">kept" if sure else ">")
    for f in rows:
        odds = "" if f.kept is None else say.odds(f.kept)
        table.add_row(f.label, Text(f.shown, style="bold"), f.edges, f.limited, odds)
    notes = ["band: four measurements of five lie inside"] * wide
    notes += ["kept: the chance that a measurement is within the limit"] * sure
    told = [Text("; ".join(notes), style="dim")] if notes else []
    if plan.saturated:
        s = plan.saturated
        told.append(
            Text(
                f"in a closed loop, {say.number(s.in_flight)} in flight: {say.number(s.rps)} requests/s,"
                f" {say.number(s.out_tok_per_s)} output tok/s"
            )
        )
    return Group(table, *told)


def caches(plan: Plan) -> RenderableType:
    """Room and use of each group's cache, blocks that are not full, and requests that do not find room."""
    table = grid("", ">tokens", ">a GPU", ">used", ">unfilled", ">waiting", ">preempted")
    told = [(r, r.cache) for r in plan.replicas if r.cache]
    for r, c in told:
        sizes = (say.number(r.kv_tokens), say.number(c.tokens_per_gpu))
        chances = (say.percent(x) for x in (c.used, c.block_waste, c.delayed, c.preempted))
        table.add_row(r.id, *sizes, *chances)
    if not told:
        return Group()
    limit = say.percent(told[0][1].preempted_limit)
    note = f"tokens of a replica; at most {limit} of requests are preempted"
    return Group(table, Text(note, style="dim"))


def routing(plan: Plan) -> Table:
    """Where the requests of each bucket go."""
    table = grid("requests", ">of all", "go to")
    buckets = plan.problem.workload["buckets"]
    total = sum(b["share"] for b in buckets)
    for index, bucket in enumerate(buckets):
        ways = [way(r) for r in plan.routing if r.bucket == index]
        label = f"{bucket['isl']:,} in, {bucket['osl']:,} out"
        table.add_row(label, say.percent(bucket["share"] / total), "\n".join(ways) or "nowhere")
    return table


def experts(told: Experts) -> RenderableType:
    """How full the fullest rank is, with and without balancing, and what that rests on."""
    table = grid("", ">on a rank", ">copies", "placed", ">fullest rank", ">in order")
    for e in told.replicas:
        if e.ep > 1:
            full = [f"{x:.2f} × mean" for x in (e.hottest, e.in_order)]
            placed = {"balancer": "by the engine's balancer", "map": "by the plan's map"}
            how = placed.get(e.placement, e.placement)
            table.add_row(e.replica, f"{e.slots_per_rank}", f"{e.redundant or '-'}", how, *full)
    note = f"by the loads in {told.loads}" if told.tokens else "loads are assumed: --expert-loads takes yours"
    return Group(table, Text(note, style="dim"))


def chains(plan: Plan) -> Table:
    """The nodes that requests pass, the most used chains first."""
    table = grid(">of all", "nodes and the layers they run")
    ranked = sorted(plan.chains, key=lambda chain: -chain.share)
    for chain in ranked[:SHOWN]:
        hops = (f"{hop.node} {hop.layers[0]}:{hop.layers[1]}" for hop in chain.hops)
        table.add_row(say.percent(chain.share), " → ".join(hops))
    if rest := ranked[SHOWN:]:
        table.add_row(say.percent(sum(c.share for c in rest)), f"{len(rest)} more chains")
    return table


def way(route: Route) -> str:
    """One way of a bucket's requests: `70 % p1 then d1, 1.90 GB/s of KV cache between them`."""
    if route.chains:
        return f"{say.percent(route.share)} chains"
    if route.replica:
        return f"{say.percent(route.share)} {route.replica}"
    link = f", {say.number(route.kv_gb_per_s)} GB/s of KV cache between" if route.kv_gb_per_s else ""
    return f"{say.percent(route.share)} {route.prefill} then {route.decode}{link}"


def long_prompts(plan: Plan) -> Table:
    """Ways to compute a long prompt over many GPUs: first token and room for cache."""
    table = grid(">", ">", "")
    table.add_row(Text("first token", "dim"), Text("cache, tokens", "dim"))
    for way in plan.long_prompts:
        said = f"started by {way.started_by}" if way.started_by else "no engine starts it as it comes"
        words = Text.assemble(way.what, "\n", (f"{said}; {way.why}" if way.why else said, "dim"))
        table.add_row(f"{way.ttft_ms / 1e3:,.1f} s", f"{way.kv_tokens:,.0f}", words)
    return table


def alternatives(plan: Plan) -> Table:
    """The runners-up, each with what it loses and why it lost."""
    table = grid(">", ">", "")
    for a in in_order(plan):
        amount = "" if a.objective is None else say.rate(a.objective, plan.proof.unit)
        words = Text.assemble(a.what, "\n" if a.why else "", (a.why, "dim"))
        table.add_row(verdict(plan, a), amount, words)
    return table


def worth(plan: Plan) -> list[str]:
    """What holds the plan back and what one more of each limit brings, the most valuable first."""
    ordered = sorted(plan.prices, key=lambda price: -price.worth)
    smallest = 1e-9 * abs(plan.proof.own)
    lines = [sentence(plan, price) for price in ordered if price.worth > smallest]
    if lines:
        lines[0] = f"Limited by {lines[0]}"
    if idle := ", ".join(limit_words(price) for price in ordered if price.worth <= smallest):
        lines.append(f"More of these would bring nothing: {idle}.")
    return lines


BUDGETS = {"usd_per_hour": "dollars an hour", "gpus": "GPUs"}
"""Budgets in words, where their name is none."""


def limit_words(price: Price) -> str:
    """`gpus h100-sxm` → `h100-sxm GPUs`, `budget usd_per_hour` → `the budget in dollars an hour`."""
    family, _, name = price.limit.partition(" ")
    if family == "budget":
        return f"the budget in {BUDGETS.get(name, name)}"
    kind = {"gpus": "GPUs", "nodes": "nodes", "memory": "memory"}.get(family)
    return f"{name} {kind}" if kind and name else price.limit.replace("_", " ")


def sentence(plan: Plan, price: Price) -> str:
    """What one more of a limit brings, in words."""
    gain = say.rate(price.worth, price.unit)
    verb = "bring" if plan.proof.sense == "max" else "save"
    share = say.percent(price.worth / abs(plan.proof.own)) if plan.proof.own else "all"
    return f"{limit_words(price)}: {price.one_more} more would {verb} {gain} ({share})."

"""Sections that say what the terminal says, in its words: replicas, cache, experts, losses, proof,
assumptions."""

from __future__ import annotations

from planner.errors import InputError
from planner.launch.words import commands
from planner.plans.schema import Plan
from planner.reports.defaults import assumed, decisive, untried
from planner.reports.memory import GIB, beside, fullest, keeping, parts, weights
from planner.reports.page.adapted import blocks
from planner.reports.page.answer import how_good
from planner.reports.page.blocks import (
    Bar,
    Bars,
    Block,
    Command,
    Commands,
    Folded,
    Listed,
    Section,
    Words,
    in_row,
)
from planner.reports.page.drawing import MEMORY, MEMORY_KEYS, drawing, in_words
from planner.reports.proven import held_by, proof
from planner.reports.replayed import replayed, surviving
from planner.reports.started import MANY, SHOWN, files, notes, rented
from planner.reports.terminal import caches, experts, long_prompts, replicas
from planner.reports.words import noted


def cluster(plan: Plan) -> Section:
    """The cluster drawn, and the replica groups on it."""
    groups = tuple(blocks(replicas(plan), "Replica groups"))
    nodes = tuple(Words.of(f"{line[:1].upper()}{line[1:]}.", note=True) for line in rented(plan))
    return Section("cluster", "What runs where", (*groups, *nodes, drawing(plan)))


def memory(plan: Plan) -> Section | None:
    """A GPU's memory, by group and device; what lies beside the GPUs; the cache and its use."""
    found = [
        Bar(
            f"{r.id}: a {device}",
            f"{m.capacity_bytes / GIB:.0f} GiB",
            in_row(MEMORY, parts(m), m.capacity_bytes),
            in_words(m),
        )
        for r in plan.replicas
        for device, m in fullest(r).items()
    ]
    said: list[Block] = [Bars(tuple(found), MEMORY_KEYS)] if found else []
    if weights(plan):
        said += blocks(beside(plan), "Weights beside the GPUs")
    room = tuple(blocks(caches(plan), "KV cache"))
    kept = [block for part in keeping(plan) for block in blocks(part, "Cache between requests")]
    if room:
        said.append(Folded("Room and use of the KV cache", room))
    said += [Words.of("Between requests:"), *kept] if kept else []
    return Section("memory", "Memory of a GPU", tuple(said)) if said else None


def balanced(plan: Plan) -> Section | None:
    """How evenly experts are busy."""
    if not plan.experts or all(e.ep == 1 for e in plan.experts.replicas):
        return None
    return Section(
        "experts", "Balance of experts", tuple(blocks(experts(plan.experts), "Balance of experts"))
    )


def again(plan: Plan) -> Section | None:
    """What a replay of requests showed, where it sized the plan."""
    if not plan.replayed:
        return None
    return Section("replay", "In the replay", tuple(blocks(replayed(plan, plan.replayed), "In the replay")))


def lost(plan: Plan) -> Section | None:
    """What is left when nodes are lost."""
    if not plan.survives:
        return None
    return Section("lost", "If nodes are lost", (Listed(tuple(surviving(plan, plan.survives))),))


def longest(plan: Plan) -> Section | None:
    """Ways for a long prompt by itself."""
    if not plan.long_prompts:
        return None
    tokens = max(b["isl"] for b in plan.problem.workload["buckets"])
    shown = tuple(blocks(long_prompts(plan), "Ways to compute a long prompt"))
    return Section("long", f"A prompt of {tokens:,} tokens by itself", shown)


STATUS = {
    "optimal": "The search ended by itself.",
    "within_gap": "The search ended as near to the best possible as was asked for.",
    "time_limit": "The search ended before it came as near to the best possible as was asked for.",
    "not_closed": "The search ended by itself, further from the best possible than was asked for.",
    "interrupted": "The search was interrupted.",
}
"""How the search ended, in plain words."""


def proven(plan: Plan) -> Section:
    """The proof in plain words, then in those of the trade."""
    p = plan.proof
    words = (
        f"{how_good(plan)} {STATUS.get(p.status, '')}".rstrip(),
        "A bound is a figure that no plan can beat. It is computed apart from the plan, with every "
        "uncertainty rounded in favour of other plans, for the designs named below and by this model of how "
        "fast they are.",
    )
    found = f"best found {p.objective:,.6g} {p.unit}, bound {p.bound:,.6g} {p.unit}"
    trade = [*([] if p.status == "joint" else [found]), *proof(plan).plain.splitlines()]
    trade += [held_by(cap) for cap in p.space.caps if not cap.binds and cap.left_out]
    folded = Folded("The proof in figures", (Listed(tuple(dict.fromkeys(trade))),))
    return Section("proof", "How sure it is that nothing better exists", (*map(Words.of, words), folded))


def supposed(plan: Plan) -> Section | None:
    """What nobody asked for or told, and what of it decides."""
    if not plan.problem.defaulted and not plan.assumptions and not plan.evidence:
        return None
    told = assumed(plan.problem)
    found: list[Block] = [Listed(tuple(decisive(plan)))] if plan.assumptions else []
    if told:
        found += [Words.of("Not asked for, so assumed:"), Listed(tuple(told))]
    if plan.evidence:
        found += [
            Words.of("Beyond what was measured, so told by what is like it:"),
            Listed(tuple(untried(plan))),
        ]
    return Section("assumed", "What this rests on", tuple(found))


def warned(plan: Plan) -> tuple[str, ...]:
    """What is to be known before a plan is trusted."""
    return tuple(noted(w) for w in plan.warnings)


FEW = 4
"""Commands that are shown; the others when they are asked for."""


def started(plan: Plan) -> Section | None:
    """How the servers of a plan are started: commands and files to copy, and what is to be known of them;
    nothing where no launch is told."""
    if not any(r.launch for r in plan.replicas):
        return None
    typed, said = [], list[str]()
    try:
        typed = [Command(f"on {node}", text) for node, text in commands(plan, MANY)]
    except InputError as error:
        said.append(f"not written: {error.message}")
    said += notes(plan, bool(typed))
    typed += [Command(f"file {name}", text) for name, text in files(plan).items()]
    short = tuple(c for c in typed if len(c.text) <= SHOWN)
    said += [
        f"{c.where}: {len(c.text):,} characters, which `meshwright export` writes"
        for c in typed
        if c not in short
    ]
    found: list[Block] = [Commands(short[:FEW])] if short else []
    if rest := short[FEW:]:
        found.append(Folded(f"{len(rest):,} more", (Commands(rest),)))
    if said:
        found.append(Listed(tuple(said)))
    return Section("start", "How it is started", tuple(found))

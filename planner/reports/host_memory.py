"""What of a plan lies beside its GPUs, and what a token then waits for."""

from __future__ import annotations

from fractions import Fraction

from rich.console import Group
from rich.text import Text

from planner.plans.schema import Plan, Replica, Tiered
from planner.reports import words as say
from planner.reports.words import grid

PLACES = {"host": "host memory", "cxl": "CXL memory", "nvme": "NVMe"}
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

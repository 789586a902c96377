"""All rules, in the order in which a reader wants to hear of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from planner.check import (
    admitted,
    bands,
    beside,
    budgets,
    cache,
    chain_nodes,
    chains,
    chances,
    drafts,
    engines,
    evidence,
    experts,
    measured,
    memory,
    packing,
    pairs,
    proof,
    queueing,
    replayed,
    roofline,
    routing,
    saturated,
    structure,
    survive,
    tiers,
    totals,
    transfer,
    waits,
)
from planner.check import idle_cache as kept
from planner.check.case import Case, open_case
from planner.check.violation import Violation
from planner.plans.schema import Plan


@dataclass(frozen=True)
class Rule:
    """One topic: what it verifies, in words, and how."""

    name: str
    what: str
    violations: Callable[[Case], Iterable[Violation]]


SHAPE = (
    Rule("structure", "layers covered once, splits multiply out, engine rules hold", structure.violations),
    Rule("routing", "shares add up to one, groups exist and have the right roles", routing.violations),
    Rule("chains", "nodes of a chain run every layer once and reach one another", chains.violations),
)
"""Rules without which the others make no sense."""

RULES = (
    *SHAPE,
    Rule("engines", "engines run there, with such formats and stages so divided", engines.violations),
    Rule("pairs", "prefill and decode servers as their engine starts and joins them", pairs.violations),
    Rule("memory", "weights, KV cache, activations and reserve fit every GPU", memory.violations),
    Rule("experts", "every expert has its slots, the fullest rank is as full as stated", experts.violations),
    Rule("tiers", "what lies beside the GPUs fits there once, and is read in time", tiers.violations),
    Rule(
        "kept", "what is kept between requests rests there, is found, and is loaded in time", kept.violations
    ),
    Rule("packing", "all replicas fit on their nodes and scale-up domains at once", packing.violations),
    Rule("idle", "no GPU idles without a warning and its reason", totals.idle),
    Rule("transfer", "KV and activation flows fit NICs and links", transfer.violations),
    Rule(
        "queueing", "Little's law: batches and caches hold the promised rate, SLOs kept", queueing.violations
    ),
    Rule("bands", "no band is narrower than the shipped calibration's errors", bands.violations),
    Rule("waits", "first tokens are told with the wait for a place in batch and cache", waits.violations),
    Rule("chances", "odds of keeping a limit follow from bands, and are as asked", chances.violations),
    Rule("cache", "who holds room in the cache, waits for it, is preempted", cache.violations),
    Rule("admitted", "servers that decode take in what their caches hold", admitted.violations),
    Rule("nodes", "nodes of chains have the time, places and cache for them", chain_nodes.violations),
    Rule("measured", "rates, GPUs and watts of measured groups are those of the table", measured.violations),
    Rule(
        "roofline",
        "no step time is below bytes / peak bandwidth or FLOPs / best measured rate",
        roofline.violations,
    ),
    Rule("drafts", "no more accepted than drafted, drafters in memory and in the step", drafts.violations),
    Rule("totals", "tokens, money and energy follow from rates, nodes and watts", totals.violations),
    Rule("budgets", "within the budgets, and the power caps of nodes, racks and zones", budgets.violations),
    Rule("survive", "whichever nodes are lost, the rest serves its share of the rate", survive.violations),
    Rule("replayed", "what a replay sized keeps the workload's own promise", replayed.violations),
    Rule("saturated", "a closed loop beside random arrivals keeps the limits", saturated.violations),
    Rule("proof", "objective, bound, gap and status agree", proof.violations),
    Rule("evidence", "what was never measured is what those replicas do", evidence.violations),
    Rule("beside", "what other ways lose follows from the objectives", beside.violations),
)


def check(plan: Plan) -> list[Violation]:
    """Every broken limit of `plan`, in the order of `RULES`; empty = sound. Never raises.

    Where the shape itself is broken the other rules would only repeat it, so they wait.
    """
    case = open_case(plan)
    if isinstance(case, list):
        return case
    broken = [violation for rule in SHAPE for violation in _found(rule, case)]
    if broken:
        return broken
    return [violation for rule in RULES if rule not in SHAPE for violation in _found(rule, case)]


def _found(rule: Rule, case: Case) -> list[Violation]:
    """What one rule finds. Numbers too large to compute with are a finding too."""
    try:
        return list(rule.violations(case))
    except (OverflowError, ZeroDivisionError) as error:
        return [Violation("absurd_number", rule.name, f"a figure is too large or too small: {error}")]

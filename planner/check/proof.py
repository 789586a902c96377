"""The proof line: gap, status and sense agree with objective and bound, which speak of the best fleet found;
the chosen objective is the plan's own figure, as far from the best as stated, and stands in the price list.
Where the plan does without the split of the best fleet, the list is of fleets without one.

A kind of replica is a design (layout, layers of its stages, what lies beside its GPUs) on its classes in one
role of one engine. A plan that states no `chosen` is the best itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from planner.check import budgets
from planner.check.case import Case
from planner.check.violation import EXACT, FIGURE, MODEL, Violation, at_most, same
from planner.plans.schema import Proof, Replica

FEW = 2
"""Kinds of replica that no band of their own speaks against."""

WIDEST = 1.2
"""No band of a kind's rate reaches further above it, as a share: 0.6 of its logarithm."""

SURE = 1.1
"""A plan may leave out a split of prefill and decode whose predicted gain is at most this factor: in public
comparisons such splits did not pay when they were measured."""

UNITS = {"throughput": "req/s", "cost": "USD/h", "energy": "W", "gpus": "GPUs", "latency": "s"}

ALWAYS = ("sequences of a server",)
"""How caps begin that every search has,"""

ON_GPUS = ("GPUs of a replica", "designs of usual sizes")
"""and every one without weights in host memory."""

DESIGNS = ("designs of usual sizes", "pipelines over several classes")
"""Those that bind where they leave anything out."""

MOST_GPUS, ENGINES, SPLITS = 144, 16, 6
"""GPUs of the largest replica; engines, each with a format or two; tp, pp, attention-dp, cp, ep, copies."""

EACH = 500
"""Designs and operating points for each layout that caps tell of, at most: the roles, loads, drafts, caches
and limits of power it is looked at with. Twenty where most were seen."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the proof."""
    proof = case.plan.proof
    yield from bounded(proof, sense(case))
    own = apart(proof.bound, proof.objective)
    if proof.status == "optimal" and not own <= EXACT:
        yield Violation("status_wrong", "proof.status", f"optimal with a gap of {own:.3g}")
    if proof.status == "within_gap" and not at_most(own, case.options.gap, EXACT):
        text = f"within_gap, but {own:.4g} is more than the {case.options.gap:.4g} asked for"
        yield Violation("status_wrong", "proof.status", text)
    if (proof.status == "not_closed") != bool(proof.why):
        text = (
            f"{proof.status} because of {proof.why!r}: a search that ended by itself says why, no other does"
        )
        yield Violation("status_wrong", "proof.why", text)
    yield from _space(case)
    yield from _objective(case)
    yield from _given_up(case)
    yield from _kinds(case)


def bounded(proof: Proof, sense: str) -> Iterator[Violation]:
    """The gap is that of objective and bound, and the objective is no better than its bound."""
    own = apart(proof.bound, proof.objective)
    if not abs(proof.gap - own) <= EXACT * max(1.0, own):
        yield Violation("gap_wrong", "proof.gap", f"{proof.gap:.7g}, objective and bound give {own:.7g}")
    low, high = (proof.objective, proof.bound) if sense == "max" else (proof.bound, proof.objective)
    if not at_most(low, high, EXACT):
        text = f"bound {proof.bound:.7g} is worse than objective {proof.objective:.7g} ({sense})"
        yield Violation("bound_crossed", "proof.bound", text)


def apart(a: float, b: float) -> float:
    """The distance of two figures, as a part of `b`."""
    return abs(a - b) / abs(b) if b else (0.0 if a == b else float("inf"))


def _space(case: Case) -> Iterator[Violation]:
    """Nothing is kept, or left out, that was not considered; a space is complete where no cap binds."""
    space = case.plan.proof.space
    binding = next((cap.what for cap in space.caps if cap.binds), None)
    if space.caps and space.complete != (binding is None):
        text = f"{space.complete}, but {f'a cap binds: {binding}' if binding else 'no cap binds'}"
        yield Violation("space_wrong", "proof.space.complete", text)
    yield from _caps(case)
    if space.kept > space.considered:
        yield Violation("space_wrong", "proof.space", f"{space.kept} kept of {space.considered}")
    if space.considered > (most := _most_considered(case)):
        text = f"{space.considered:,}: of what there is on these nodes no more than {most:,} are looked at"
        yield Violation("space_wrong", "proof.space.considered", text)
    for i, cap in enumerate(space.caps):
        if cap.left_out is not None and cap.considered is not None and cap.left_out > cap.considered:
            text = f"{cap.what}: {cap.left_out} left out of {cap.considered}"
            yield Violation("space_wrong", f"proof.space.caps[{i}]", text)


def _caps(case: Case) -> Iterator[Violation]:
    """Every search names the caps that it always has; a cap that leaves something out binds, and speaks of no
    more designs than there are."""
    caps, away = case.plan.proof.space.caps, any("host memory" in c.what for c in case.plan.proof.space.caps)
    for named in ALWAYS if away else (*ALWAYS, *ON_GPUS):
        if searched(case) and not any(cap.what.startswith(named) for cap in caps):
            yield Violation("space_wrong", "proof.space.caps", f"no cap on {named}, which each search has")
    for i, cap in enumerate(caps):
        where = f"proof.space.caps[{i}]"
        if cap.what.startswith(DESIGNS) and cap.left_out and not cap.binds:
            text = f"{cap.what}: it leaves out {cap.left_out:,} designs, and does not bind"
            yield Violation("space_wrong", where, text)
        if cap.what.startswith(ON_GPUS) and (cap.considered or 0) > (most := layouts(case)):
            text = f"{cap.what}: {cap.considered:,} designs, on its classes there are {most:,} at most"
            yield Violation("space_wrong", where, text)


def searched(case: Case) -> bool:
    """Whether fleets of designs were searched: chains are of units of nodes, a table of its rows."""
    return bool(case.plan.replicas) and not any(
        r.role == "chain" or r.engine == "measured" for r in case.plan.replicas
    )


def _most_considered(case: Case) -> int:
    """No fewer than a search looks at: designs and operating points, the units of chains, rows of a table."""
    if searched(case):
        told = sum(cap.considered or 0 for cap in case.plan.proof.space.caps)
        return EACH * (told + layouts(case))
    return EACH * (sum(node.gpus for node in case.cluster.classes) + len(case.table.profile))


def layouts(case: Case) -> int:
    """No fewer than the ways to lay out a replica of one class: its GPUs are a product of `SPLITS` splits,
    times engines and formats."""
    most = {min(node.gpus, MOST_GPUS) for node in case.cluster.classes}
    each = {gpus: _products(gpus) for gpus in most}
    return ENGINES * sum(each[min(node.gpus, MOST_GPUS)] for node in case.cluster.classes)


def _products(most: int) -> int:
    """How many ordered products of `SPLITS` factors are `most` or less.

    >>> _products(1), _products(2)
    (1, 7)
    """
    ways = [0] + [1] * most
    for _ in range(SPLITS - 1):
        longer = [0] * (most + 1)
        for factor in range(1, most + 1):
            for other in range(1, most // factor + 1):
                longer[factor * other] += ways[other]
        ways = longer
    return sum(ways)


def _given_up(case: Case) -> Iterator[Violation]:
    """The plan is not better than the best, as far from it as stated, and no further than asked for."""
    proof, best = case.plan.proof, case.plan.proof.objective
    worse, better = (proof.own, best) if sense(case) == "max" else (best, proof.own)
    if not at_most(worse, better, EXACT):
        text = f"{proof.own:.7g} is better than the best fleet's {best:.7g} ({sense(case)})"
        yield Violation("given_up_wrong", "proof.chosen", text)
    own = apart(proof.own, best)
    if not abs(proof.given_up - own) <= EXACT * max(1.0, own):
        text = f"{proof.given_up:.7g}, objective and chosen give {own:.7g}"
        yield Violation("given_up_wrong", "proof.given_up", text)
    if proof.unsplit is not None:
        yield from _unsplit(case, proof.unsplit)
        own = apart(proof.own, proof.unsplit)
    most = case.options.simple
    if proof.unpaid is not None:
        yield from _unpaid(case, proof.unpaid)
        most = max(most, proof.unpaid)
    if not at_most(own, most + EXACT, EXACT):
        text = f"{own:.4g} is given up, more than the {most:.4g} asked for"
        yield Violation("given_up_over", "proof.given_up", text)


def _unpaid(case: Case, band: float) -> Iterator[Violation]:
    """Kinds that a plan does without, as they bring no more than their own band, are beyond the second, not
    asked for (`--simple 0`), and serve at most what is left of the requests, each of which has two phases."""
    most = max((entry.kinds for entry in case.plan.proof.kinds), default=0)
    if most <= FEW or not case.options.simple:
        yield Violation("given_up_wrong", "proof.unpaid", f"a band of kinds beyond the second of {most}")
    elif not at_most(band, 2 * (most - FEW) / most * WIDEST, EXACT):
        text = f"{band:.4g} is more than the band of {most - FEW} kinds of {most}"
        yield Violation("given_up_wrong", "proof.unpaid", text)


def _unsplit(case: Case, together: float) -> Iterator[Violation]:
    """A plan that does without the split of the best fleet has none, nor a goal that says nothing of it; it
    lies between the best without and the best of all, which gains little over that, or where GPUs do not read
    each other's memory: of those no split in the public comparisons paid."""
    proof, more = case.plan.proof, sense(case) == "max"
    if case.goal in ("energy", "latency") or any(r.role in ("prefill", "decode") for r in case.plan.replicas):
        yield Violation("given_up_wrong", "proof.unsplit", "a split is given up, for energy, or by one")
    low, high = (proof.own, proof.objective) if more else (proof.objective, proof.own)
    if not (at_most(low, together, EXACT) and at_most(together, high, EXACT)):
        text = f"{together:.7g} is not between the plan's {proof.own:.7g} and the best {proof.objective:.7g}"
        yield Violation("given_up_wrong", "proof.unsplit", text)
    best, least = (proof.objective, together) if more else (together, proof.objective)
    slow = any(not node.peer_to_peer for node in case.classes.values())
    if not slow and not at_most(best, SURE * least, EXACT):
        text = f"a split that gains {best / least - 1:.3g} is given up, more than {SURE - 1:.2g}"
        yield Violation("given_up_over", "proof.unsplit", text)


def _kinds(case: Case) -> Iterator[Violation]:
    """The price list: more kinds are better, this plan is in it, and the best ends it; without copies of
    experts a plan may have as many kinds as that."""
    proof, better = case.plan.proof, 1 if sense(case) == "max" else -1
    if not proof.kinds:
        if searched(case):
            text = "each search lists its best fleet by how many kinds of replica it has: nothing is listed"
            yield Violation("kinds_wrong", "proof.kinds", text)
        if proof.given_up > EXACT:
            text = f"{proof.given_up:.4g} is given up for fewer kinds of replica, and none are listed"
            yield Violation("kinds_wrong", "proof.kinds", text)
        return
    for i, (few, more) in enumerate(pairwise(proof.kinds)):
        forgoes = few.kinds == more.kinds and same(few.objective, proof.own, EXACT)
        if few.kinds >= more.kinds + forgoes or better * few.objective >= better * more.objective:
            text = f"{more.kinds} kinds at {more.objective:.7g} after {few.kinds} at {few.objective:.7g}"
            yield Violation("kinds_wrong", f"proof.kinds[{i + 1}]", text)
    own = len({kind(case, replica) for replica in case.plan.replicas})
    stated = [entry.objective for entry in proof.kinds if entry.kinds == own]
    if not any(same(objective, proof.own, EXACT) for objective in stated):
        text = f"the plan's {own} kinds at {proof.own:.7g} are not among them"
        yield Violation("kinds_wrong", "proof.kinds", text)
    last = proof.objective if proof.unsplit is None else proof.unsplit
    if not same(proof.kinds[-1].objective, last, EXACT):
        text = f"ends at {proof.kinds[-1].objective:.7g}, the best fleet's is {last:.7g}"
        yield Violation("kinds_wrong", f"proof.kinds[{len(proof.kinds) - 1}]", text)


def kind(case: Case, r: Replica) -> tuple[object, ...]:
    """What makes two groups of one kind."""
    sizes = (r.tp, r.pp, r.attn_dp, r.cp, r.moe_tp, r.ep, r.redundant_experts)
    stages = tuple((stage.node_class, stage.gpus, stage.tp, tuple(stage.layers)) for stage in r.stages)
    beside = sorted(
        (part.tier, part.what, str(part.layers), part.share, part.way, str(part.stage))
        for part in case.plan.tiers
        if part.replica == r.id and part.what != "cache"
    )
    drafts = (r.draft.kind, r.draft.tokens, str(r.draft.model)) if r.draft else ()
    return (r.role, r.engine, sizes, stages, tuple(beside), drafts, r.power_limit_watts)


def sense(case: Case) -> str:
    """As stated; where the plan leaves it out, the goal's."""
    if "sense" in case.plan.proof.model_fields_set:
        return case.plan.proof.sense
    return "max" if case.goal == "throughput" else "min"


def _objective(case: Case) -> Iterator[Violation]:
    """Unit and sense are those of the goal, and the value is the figure that the plan predicts."""
    proof, name = case.plan.proof, case.goal
    if proof.unit not in (UNITS[name], ""):
        yield Violation("objective_wrong", "proof.unit", f"{proof.unit}, {name} is in {UNITS[name]}")
    if sense(case) != ("max" if name == "throughput" else "min"):
        yield Violation("objective_wrong", "proof.sense", f"{sense(case)} for {name}")
    own = figure(case, name)
    if own is None:
        return
    # a latency is promised at the design's own operating point; loaded less, the plan answers sooner
    agrees = (
        at_most(_soonest(case, own), proof.own, MODEL) if name == "latency" else same(proof.own, own, FIGURE)
    )
    if not agrees:
        where = "objective" if proof.chosen is None else "chosen"
        text = f"{proof.own:.6g}, the plan's own figure is {own:.6g} {UNITS[name]}"
        yield Violation("objective_wrong", f"proof.{where}", text)


def _soonest(case: Case, own_s: float) -> float:
    """Seconds of a request at least. A plan states one TPOT, of the mean request or of a percentile: where
    buckets have answers of unlike length, long answers have shorter ones, though none below a step without
    prompts."""
    predicted, buckets = case.plan.predicted, case.workload.buckets
    alike = {b.osl for b in buckets} if case.workload.slo.percentile == "mean" else buckets
    if len(alike) == 1:
        return own_s
    steps = [r.token_s for r in case.plan.replicas if r.role in ("mixed", "decode")]
    ttft_s, tpot_s = predicted.ttft_ms.value / 1e3, predicted.tpot_ms.value / 1e3
    shorter_s = max(tpot_s - min(steps, default=0.0), 0.0)
    return own_s - shorter_s * (own_s - ttft_s) / max(tpot_s, 1e-9)


def figure(case: Case, name: str) -> float | None:
    """What the plan itself says of its goal; None where it doesn't."""
    predicted = case.plan.predicted
    if name == "throughput":
        return predicted.rps.value
    if name == "cost":
        return predicted.usd_per_hour.value if predicted.usd_per_hour else None
    if name == "energy":
        return predicted.watts.value
    if name == "gpus":
        return float(budgets.gpus_used(case))
    return (predicted.ttft_ms.value + case.mean(lambda b: b.osl - 1) * predicted.tpot_ms.value) / 1e3

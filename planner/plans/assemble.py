"""Solution -> Plan: places replicas on nodes, asks the cost model for each at its real load, and words the
proof; `predicted` adds up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cluster_configs.schema import Device, NodeClass
from planner.candidates.setup import Setup
from planner.cost.bands import Z80
from planner.cost.reserve import default_tokens_per_step, device_bytes
from planner.designs.shape import Floats, Stage
from planner.designs.stages import stage_layers
from planner.drafts.model import DraftedModel
from planner.engines import named
from planner.operating.room import planned_sequences
from planner.plans import idle_cache as kept
from planner.plans import parts, placement, schema, tiers
from planner.plans.evidence import evidence
from planner.plans.found import Found, Group, operate_anew
from planner.plans.insured import Insured
from planner.plans.operation import admission, index_of
from planner.plans.parts import routing
from planner.plans.predicted import predicted
from planner.queueing.spare import PREEMPTED
from planner.version import __version__
from solvers import linear

MOST_BUSY = 0.99
"""Utilisation up to which a batch is made larger: how many are inside varies by 1 / (1 - utilisation)."""


def replica(
    g: Group,
    nodes: Mapping[str, NodeClass],
    placed: placement.Placed,
    mix_osl: Floats,
    watts: float,
    keeps: schema.Kept | None,
    after: Sequence[Group],
) -> schema.Replica:
    """One group in the Plan's form; `after`: other loads that its batch is for, too: of what is left of it
    after losses, or in bursts."""
    c, d, op, s = g.candidate, g.candidate.design, g.operation, g.setup
    like = [Stage(c.node_class, d.tp, x) for x in stage_layers(len(s.model.card.stack), d.pp)]
    stages, held = d.stages or like, placed.stages[c.id]
    index = np.array([index_of(s, c)])
    designs = s.designs.take(index)
    sequences = planned_sequences(s.model, designs, s.token_budget, max(s.mix.context, 1.0))
    memory = s.model.memory_by_stage(designs, s.token_budget, sequences)
    tokens = _kv_tokens(s, index, d.attn_dp)
    decoding = 0.0 if c.role == "prefill" else op.sequences
    return schema.Replica(
        id=g.id,
        role=c.role,
        count=g.count,
        engine=c.engine,
        precision=parts.precision(s.model.precisions, s.model.card.moe),
        tp=d.tp,
        pp=d.pp,
        attn_dp=d.attn_dp,
        moe_tp=d.moe_tp,
        ep=d.ep,
        cp=d.cp,
        redundant_experts=d.redundant,
        max_batched_tokens=_step_tokens(g, [nodes[stage.node_class].device for stage in stages]),
        stages=[
            parts.stage(nodes[x.node_class], held[i], x.tp, x.layers, x.tp * d.attn_dp * d.cp)
            for i, x in enumerate(stages)
        ],
        max_batch=max(_batch(own, mix_osl) for own in (g, *after)),
        kv_tokens=tokens,
        cache=_cache(g, tokens),
        kept=keeps,
        draft=_draft(g),
        utilisation=op.used,
        step=schema.Step(
            decode_s=op.decode_s,
            prefill_s=op.prefill_s,
            engine_s=float(s.model.engine_s(designs, np.array([decoding]))[0]),
            by=tiers.seconds_by(g),
        ),
        memory=[parts.stage_memory(memory, i, i) for i in range(d.pp)],
        watts=watts,
        power_limit_watts=s.model.limit_watts,
    )


def whole_shares(made: Sequence[Group]) -> dict[str, tuple[float, float]]:
    """What whole steps of each group compute over the best product, and the upper edge of their 80 % band."""
    found = {}
    for g in made:
        own = g.operation.own
        edge = math.exp(Z80 * float(own.model.sigma_prompts(own.designs)[0]))
        found[g.id] = g.operation.whole_share, edge
    return found


def _step_tokens(g: Group, devices: Sequence[Device]) -> int | None:
    """Prompt tokens of a step that the engine has to be told: those counted where they are chosen, or are not
    what it takes by itself on these devices."""
    c, counted = g.candidate, g.setup.token_budget
    own = min(default_tokens_per_step(c.engine, device_bytes(d), d.name) for d in devices)
    return c.chunk or (counted if c.design.offloads or own != counted else None)


def _draft(g: Group) -> schema.Draft | None:
    """What drafts beside the replicas of a group."""
    model = g.setup.model
    if not isinstance(model, DraftedModel):
        return None
    draft, index = model.draft, np.array([index_of(g.setup, g.candidate)])
    return schema.Draft(
        kind=draft.kind,
        model=draft.card.model_dump(exclude_none=True) if draft.kind == "draft" and draft.card else None,
        tokens=draft.tokens,
        accepted=draft.accepted,
        weights_bytes=float(model.drafter_bytes(g.setup.designs.take(index))[0]),
        option=draft.option(g.candidate.engine),
    )


def _batch(g: Group, mix_osl: np.ndarray) -> int:
    """Sequences in flight on one replica: those that Little's law finds there; where they come at random, or
    from other servers that prefill, with a burst of three deviations on top, of a number that varies as in
    processor sharing, by n / (1 - busy), but no more than decode or than its cache holds of the smallest or
    its engine is told: the others wait."""
    s, op, c = g.setup, g.operation, g.candidate
    index, ranks = index_of(s, c), c.design.attn_dp
    closed = s.promise.loop == "closed" and s.promise.percentile != "mean"
    mean = operate_anew(g, promise=replace(s.promise, percentile="mean")).operation if closed else op
    in_flight = mean.in_flight(mix_osl, c.role) * ranks
    if s.promise.loop == "closed" and c.role != "decode":
        return max(1, math.ceil(in_flight - 1e-6))
    burst = in_flight + 3 * math.sqrt(max(in_flight, 1.0) / (1 - min(op.busy, MOST_BUSY)))
    each = (s.prompt_bytes if c.role == "prefill" else s.held_bytes)[index][op.rate > 0].min()
    held = ranks * math.floor(float(s.memory.kv_bytes[index]) / each) if each > 0 else math.inf
    held = min(held, ranks * s.most_sequences) if c.role != "prefill" else held
    decoding = 0.0 if op.does == "prefill" else op.sequences * ranks
    return max(1, math.ceil(min(burst, max(held, decoding)) - 1e-6))


def _kv_tokens(s: Setup, index: np.ndarray, attn_dp: int) -> float:
    """Cache room of one replica in tokens at the workload's mean context."""
    context = max(s.mix.context, 1.0)
    held = s.model.cache_bytes(s.designs.take(index), np.array([context]), s.memory.stage[index])[0, 0]
    return math.floor(attn_dp * float(s.memory.kv_bytes[index[0]]) / held * context) if held > 0 else 1e15


def _cache(g: Group, kv_tokens: float) -> schema.Cache | None:
    """How the cache is used; None on prefill replicas, which hold prompts only while they compute them."""
    s, op, d = g.setup, g.operation, g.candidate.design
    if op.does == "prefill":
        return None
    met = admission(s, g.candidate, op)
    decoding = float(op.rate @ ((s.mix.osl - 1) * op.at.mean_tpot_s[0]))  # however few requests there are
    inside = min(met.inside / decoding, 1.0) if decoding > 0 else 1.0
    return schema.Cache(
        tokens_per_gpu=kv_tokens / g.candidate.gpus,
        used=min(op.kv_prompts + (op.kv_used - op.kv_prompts) * inside, 1.0),
        sequences=met.inside * d.attn_dp,
        block_tokens=named(s.model.engine).block_tokens,
        block_waste=s.unfilled / s.held_tokens,
        delayed=met.delayed,
        preempted=met.preempted,
        preempted_limit=PREEMPTED,
    )


Price = Sequence[tuple[int, float]]
"""Kinds of replica, and the objective of the best fleet found of so many."""


def proof(
    best: Found, chosen: Found, price: Price, seconds: float, seed: int, space: schema.Space
) -> schema.Proof:
    """The proof line's numbers: of the best fleet, and what the chosen one gives up for its simplicity. What
    was not looked at in time may be better than the best of all that was."""
    s, own = best.solution, chosen.solution.objective
    assert s.objective is not None
    assert s.bound is not None
    objective = s.objective
    bound = objective if s.status == "optimal" else s.bound  # equal but for rounding: solvers.linear.EXACT
    open_: schema.Status = "not_closed" if best.unclosed else "time_limit"
    status = s.status if s.status in ("optimal", "within_gap", "interrupted") else open_
    if space.late and status != "interrupted":
        status = "time_limit"
    return schema.Proof(
        objective=objective,
        bound=bound,
        gap=linear.gap(objective, bound),
        status=status,
        why=best.unclosed if status == "not_closed" else "",
        seconds=seconds,
        solver=s.solver,
        seed=seed,
        space=space,
        sense="max" if best.objective.more else "min",
        unit=best.objective.unit,
        chosen=own,
        given_up=0.0 if own is None or not objective else abs(own - objective) / abs(objective),
        kinds=[schema.KindCount(kinds=k, objective=value) for k, value in price],
    )


def idle(found: Found, made: Sequence[Group], given_up: float) -> list[schema.PlanWarning]:
    """GPUs that no replica uses, with the reason; `given_up`: share of the objective, for fewer kinds."""
    classes = found.cluster.classes
    busy = {node.id: sum(g.count * g.candidate.gpus_on(node.id) for g in made) for node in classes}

    def why(node: NodeClass, left: int) -> str:
        sizes = [gpus for c in found.pool.candidates if (gpus := c.gpus_on(node.id))]
        if not sizes and any(name == node.id for name, _ in found.pool.unseen):
            return "the time was over before all that could run on this class was looked at"
        if not sizes:
            return "no replica of this model fits on this class and keeps the SLO"
        if given_up and found.objective.more:
            return "a simpler fleet without them serves nearly as much"
        if found.objective.more and any(node.id in feed.classes for feed in found.cluster.feeds):
            return "what its rack or zone may draw is spent"
        return why_idle(found, left, min(sizes), "replica that keeps the SLO")

    return parts.idle(classes, busy, why)


def why_idle(found: Found, left: int, smallest: int, what: str) -> str:
    """Why so many GPUs are left where the smallest `what` would take `smallest`."""
    if not found.objective.more:
        return "the load is served without them"
    if found.problem.budget:
        return "a budget is spent"
    if smallest > left:
        return f"the smallest {what} takes {smallest}"
    return "no fleet was found that serves more by using them"


def assemble(
    found: Found,
    problem: schema.Problem,
    made: Sequence[Group],
    proven: schema.Proof,
    extras: Mapping[str, Any],
) -> schema.Plan:
    """The Plan; `extras`: prices, warnings, alternatives, experts, long prompts, insured, the closed loop
    (`saturated`); what was replayed, and the groups at the load that they were `sized_for`, by candidate;
    where they stand, if `placed`."""
    safe: Insured | None = extras.get("insured")
    counts = {g.candidate.id: g.count for g in made}
    nodes = {n.id: n for n in found.cluster.classes}
    placed = extras.get("placed") or (
        safe.on if safe else placement.place(found.cluster.classes, counts, found.candidates)
    )
    osl = np.array([b.osl for b in found.workload.buckets], dtype=float)
    keeps = {g.id: kept.kept(g, found.workload) for g in made}
    loads = safe.after if safe else extras.get("sized_for", {})
    after = {g.id: loads.get(g.candidate.id, []) for g in made}
    replicas = [replica(g, nodes, placed, osl, g.operation.watts, keeps[g.id], after[g.id]) for g in made]
    routed = routing(found, made)
    return schema.Plan(
        meshwright_version=__version__,
        problem=problem,
        replicas=replicas,
        routing=routed,
        experts=extras.get("experts"),
        tiers=[*tiers.tiers(made), *kept.tiers(made, keeps)],
        predicted=predicted(found, made, placed),
        proof=proven,
        prices=list(extras.get("prices", [])),
        warnings=[*extras.get("warnings", []), *kept.routing(keeps), *idle(found, made, proven.given_up)],
        alternatives=list(extras.get("alternatives", [])),
        assumptions=list(extras.get("assumptions", [])),
        evidence=evidence(
            replicas, routed, found.cluster, any(g.setup.model.card.moe for g in made), whole_shares(made)
        ),
        long_prompts=list(extras.get("long_prompts", [])),
        survives=safe.told(found, made, proven.own) if safe else None,
        replayed=extras.get("replayed"),
        saturated=extras.get("saturated"),
        brief=bool(extras.get("brief")),
    )

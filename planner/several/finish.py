"""Fleets of several models become a document: placed together, assembled one by one, checked as a whole."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from planner.check.several import check
from planner.errors import InputError
from planner.launch import launched
from planner.launch.instances import instances
from planner.launch.words import ROUTER_PORT
from planner.plans import placement, schema
from planner.plans.assemble import assemble, proof
from planner.plans.experts import experts_of
from planner.plans.found import Found
from planner.plans.parts import idle
from planner.plans.predicted import price
from planner.plans.schema.several import Demand, Several, Takes, Total
from planner.plans.space import space_of
from planner.plans.verified import Unsound
from planner.question.asked import problem_of
from planner.search.simple import kinds
from planner.several.joint import Fleets, Model
from planner.version import __version__
from solvers.fleet.union import named, own
from solvers.linear import Limits


def finish(
    fleets: Fleets, rates: Sequence[float | None], began: float, limits: Limits, prices: Sequence[Takes] = ()
) -> Several:
    """The document of solved fleets. `rates`: what was asked of each model. Raises Unsound where it fails its
    check."""
    placed, used = place(fleets)
    fleets = paid(fleets, used)
    plans = [
        _plan(fleets, i, placed[i], limits, time.perf_counter() - began) for i in range(len(fleets.found))
    ]
    plans = seated(plans)
    told = _idle(fleets)
    demands = [
        Demand(model=m.name, part=m.weight, rate_rps=rate)
        for m, rate in zip(fleets.joint.models, rates, strict=True)
    ]
    result = Several(
        meshwright_version=__version__,
        models=demands,
        plans=plans,
        total=_total(fleets, plans, used, rates),
        proof=_proof(fleets, plans, time.perf_counter() - began, limits.seed),
        prices=list(prices),
        warnings=told,
    )
    for violation in check(result):
        text = f"the plan failed its own check: {violation.message}"
        raise Unsound(text, violation.where, "this is a mistake in the planner, not in your input: report it")
    return result


def seated(plans: Sequence[schema.Plan]) -> list[schema.Plan]:
    """The plans, each with the GPUs and ports of its servers, so that no two servers of any have the same.
    Raises Unsound where they find no room so."""
    every = [
        r.model_copy(update={"id": named(m, r.id)}) for m, plan in enumerate(plans) for r in plan.replicas
    ]
    try:
        made = instances(plans[0].model_copy(update={"replicas": every}))
    except InputError as error:
        raise Unsound(error.message, "replicas") from None
    seats: list[list[schema.Seat]] = [[] for _ in plans]
    for i in made:
        m, name = own(i.replica.id)
        gpus = {node: list(numbers) for node, numbers in i.gpus}
        seats[m].append(schema.Seat(replica=name, number=i.number, gpus=gpus, port=i.port))
    return [
        plan.model_copy(update={"seats": own_, "router_port": ROUTER_PORT + m})
        for m, (plan, own_) in enumerate(zip(plans, seats, strict=True))
    ]


def place(fleets: Fleets) -> tuple[list[placement.Placed], dict[str, int]]:
    """Where the replicas of each model stand, all placed at once; and the nodes in use of each class. Raises
    Unsound."""
    counts, candidates = dict[str, int](), {}
    for m, (found, made) in enumerate(zip(fleets.found, fleets.made, strict=True)):
        known = found.candidates
        for g in made:
            name = named(m, g.candidate.id)
            counts[name] = g.count
            candidates[name] = replace(known[g.candidate.id], id=name)
    all_ = placement.place(fleets.found[0].cluster.classes, counts, candidates)
    stages: list[dict[str, Sequence[Sequence[int]]]] = [{} for _ in fleets.found]
    for name, held in all_.stages.items():
        m, c = own(name)
        stages[m][c] = held
    standing: list[dict[tuple[str, int], dict[str, int]]] = [defaultdict(dict) for _ in fleets.found]
    for at, here in all_.standing.items():
        for name, count in here.items():
            m, c = own(name)
            standing[m][at][c] = count
    ids = [node.id for node in fleets.found[0].cluster.classes]
    nodes = [{i: sum(at[0] == i for at in mine) for i in ids} for mine in standing]
    return [placement.Placed(s, n, dict(st)) for s, n, st in zip(stages, nodes, standing, strict=True)], dict(
        all_.used
    )


def paid(fleets: Fleets, used: dict[str, int]) -> Fleets:
    """The fleets with the objective that their placement has, where dollars are counted."""
    if fleets.joint.objective.spends == "gpus":
        return _valued(fleets, float(sum(g.count * g.candidate.gpus for made in fleets.made for g in made)))
    usd = price(fleets.found[0].cluster.classes, used)
    if fleets.joint.objective.spends != "usd_per_hour" or usd is None:
        return fleets
    return _valued(fleets, usd)


def _valued(fleets: Fleets, objective: float) -> Fleets:
    return replace(fleets, solution=replace(fleets.solution, objective=objective))


def _plan(fleets: Fleets, i: int, placed: placement.Placed, limits: Limits, seconds: float) -> schema.Plan:
    """One model's plan: its proof has a bound of its own, its warnings of idle GPUs leave out the others'."""
    m, found, made = fleets.joint.models[i], fleets.found[i], fleets.made[i]
    found = _own(fleets, m, found, placed)
    space = space_of(m.asked, replace(found, bounding=None))
    count = kinds(found)
    value = found.solution.objective
    assert value is not None
    proven = proof(found, found, ((count, value),), seconds, limits.seed, space)
    proven = proven.model_copy(update={"status": "joint"})
    asked = m.asked
    if found.objective.more and asked.workload.rate_rps is not None:
        asked = replace(asked, workload=asked.workload.model_copy(update={"rate_rps": found.solution.rate}))
    extras = {"warnings": asked.warnings, "experts": experts_of(made, limits), "placed": placed}
    plan = launched(assemble(found, problem_of(asked), made, proven, extras))
    others = {
        node.id: sum(
            g.count * g.candidate.gpus_on(node.id) for j, o in enumerate(fleets.made) if j != i for g in o
        )
        for node in found.cluster.classes
    }
    return plan.model_copy(update={"warnings": [_beside(w, others) for w in plan.warnings]})


def _beside(w: schema.PlanWarning, others: dict[str, int]) -> schema.PlanWarning:
    """A warning of GPUs that a plan leaves idle with how many of them other models take."""
    taken = others.get(w.node_class or "", 0)
    if w.code != "idle_gpus" or not taken or w.count is None:
        return w
    rest = w.count - taken
    reason = f"other models take {taken} of them" + (f"; {rest} idle: {w.reason}" if rest else "")
    message = f"{w.message.partition(' idle: ')[0]} not used by this model: {reason}"
    return w.model_copy(update={"message": message, "reason": reason})


def _own(fleets: Fleets, m: Model, found: Found, placed: placement.Placed) -> Found:
    """One model's fleet with its own objective and bound: its part of the rate and of its bound; of dollars
    and GPUs, what it takes, above what any fleet of it alone would take on the empty cluster."""
    s, whole = found.solution, fleets.solution
    assert whole.bound is not None
    if found.objective.more:
        return replace(
            found, solution=replace(s, objective=s.rate, bound=max(m.weight * whole.bound, s.rate))
        )
    if found.objective.spends == "gpus":
        value = float(sum(count * found.candidates[c].gpus for c, count in s.replicas.items()))
    else:
        value = price(found.cluster.classes, placed.used) or 0.0
    return replace(found, solution=replace(s, objective=value, bound=min(alone(m), value)))


def alone(m: Model) -> float:
    """What no fleet of one model alone can beat on the empty cluster, by the relaxation."""
    from solvers import fleet

    return fleet.relaxed(m.question.state(m.pool, "bound"), Limits(seconds=5.0)) or 0.0


def _proof(fleets: Fleets, plans: Sequence[schema.Plan], seconds: float, seed: int) -> schema.Proof:
    """The proof of all together; its space is that of every model."""
    s, f = fleets.solution, fleets.found[0]
    spaces = [p.proof.space for p in plans]
    names = [m.name for m in fleets.joint.models]
    space = schema.Space(
        considered=sum(x.considered for x in spaces),
        kept=len((fleets.bounding or fleets.problem).columns),
        complete=all(x.complete for x in spaces),
        what="all models at once; " + "; ".join(f"{n}: {x.what}" for n, x in zip(names, spaces, strict=True)),
        caps=[
            cap.model_copy(update={"what": f"{n}: {cap.what}"})
            for n, x in zip(names, spaces, strict=True)
            for cap in x.caps
        ],
    )
    best = replace(f, solution=s, unclosed=fleets.unclosed)
    return proof(best, best, (), seconds, seed, space)


def _total(
    fleets: Fleets, plans: Sequence[schema.Plan], used: dict[str, int], rates: Sequence[float | None]
) -> Total:
    asked = [rate for rate in rates if rate is not None]
    rps = sum(p.predicted.rps.value for p in plans)
    return Total(
        rps=rps,
        share=rps / sum(asked) if asked else None,
        out_tok_per_s=sum(p.predicted.out_tok_per_s.value for p in plans),
        gpus=sum(g.count * g.candidate.gpus for made in fleets.made for g in made),
        usd_per_hour=price(fleets.found[0].cluster.classes, used),
    )


def _idle(fleets: Fleets) -> list[schema.PlanWarning]:
    """GPUs that no model uses."""
    classes, groups = fleets.found[0].cluster.classes, [g for made in fleets.made for g in made]
    busy = {node.id: sum(g.count * g.candidate.gpus_on(node.id) for g in groups) for node in classes}
    more = "no fleet was found that serves more of all models by using them"
    why = more if fleets.joint.objective.more else "the load is served without them"
    return idle(classes, busy, lambda node, left: why)

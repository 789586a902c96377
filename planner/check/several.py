"""Plans of several models on one cluster: each holds by itself, and together they hold what is shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.check import budgets, packing, transfer
from planner.check.case import Case, open_case
from planner.check.packing import NodeIndex
from planner.check.proof import apart, bounded
from planner.check.rules import check as check_one
from planner.check.violation import EXACT, FIGURE, Violation, at_most, same
from planner.plans.schema.several import Several

UNITS = {"throughput": "req/s", "cost": "USD/h", "gpus": "GPUs"}

JOINT = {
    "plans": "each model's plan holds by itself",
    "packing": "all replicas of all models fit on their nodes at once, no GPU twice",
    "seats": "no GPU and no port of a node is two servers', and the node has that GPU",
    "routers": "no two models' routers have the same port",
    "links": "what all models send fits the links between classes",
    "totals": "requests, tokens, GPUs and money of all add up, a shared node paid once",
    "parts": "each model has its part of all requests, and its rate",
    "takes": "what each model takes from the others follows from the objectives",
    "budgets": "all together are within the budgets and the power caps of racks and zones",
    "proof": "objective, bound, gap and status of all together agree",
}
"""What is verified of a joint document, in words."""


def check(several: Several) -> list[Violation]:
    """Every broken limit; empty = sound. Never raises."""
    found = [
        replace(v, where=f"plans[{i}].{v.where}")
        for i, plan in enumerate(several.plans)
        for v in check_one(plan)
    ]
    if found:
        return found
    if len(several.models) != len(several.plans):
        text = f"{len(several.models)} models, {len(several.plans)} plans"
        return [Violation("models_wrong", "models", text)]
    cases = [case for plan in several.plans if isinstance(case := open_case(plan), Case)]
    try:
        alike = list(_alike(several, cases))
        if alike:
            return alike
        rules = (_packing, _seats, _routers, _links, _parts, _totals, _takes, _budgets, _proof)
        return [v for rule in rules for v in rule(several, cases)]
    except (OverflowError, ZeroDivisionError) as error:
        return [Violation("absurd_number", "total", f"a figure is too large or too small: {error}")]


def _alike(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """The same cluster and goal in every plan, each model once, under its own name."""
    names = [demand.model for demand in several.models]
    for i, case in enumerate(cases):
        if case.cluster != cases[0].cluster:
            yield Violation("cluster_differs", f"plans[{i}].problem.cluster", "not that of the first plan")
        if case.goal != cases[0].goal or case.goal not in UNITS:
            yield Violation("goal_differs", f"plans[{i}].problem.options", f"{case.goal}, {cases[0].goal}")
        if case.card is None or case.card.name != names[i] or names[i] in names[:i]:
            yield Violation("models_wrong", f"models[{i}].model", f"{names[i]} is not the plan's, or twice")
        if case.plan.proof.status != "joint":
            text = f"{case.plan.proof.status}: the proof of one of several plans is that of all, `joint`"
            yield Violation("status_wrong", f"plans[{i}].proof.status", text)


def _packing(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """The replicas of all plans as those of one."""
    replicas = [
        r.model_copy(update={"id": f"{i} {r.id}"})
        for i, plan in enumerate(several.plans)
        for r in plan.replicas
    ]
    whole = cases[0].plan.model_copy(update={"replicas": replicas})
    yield from packing.violations(replace(cases[0], plan=whole))


def _seats(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """Every server has the GPUs of its stages, on nodes of its stages, and no other has them or its port."""
    gpus: dict[tuple[str, int], str] = {}
    ports: dict[tuple[str, int], str] = {}
    for i, case in enumerate(cases):
        expected = {(r.id, k) for r in case.plan.replicas for k in range(r.count)}
        if sorted((seat.replica, seat.number) for seat in case.plan.seats) != sorted(expected):
            yield Violation("seats_wrong", f"plans[{i}].seats", "not one for every server of the plan")
            continue
        for j, seat in enumerate(case.plan.seats):
            where, name = f"plans[{i}].seats[{j}]", f"{several.models[i].model} {seat.replica}-{seat.number}"
            taken = [(node, gpu) for node, numbers in seat.gpus.items() for gpu in numbers]
            group = case.groups[seat.replica]
            if len(taken) != sum(stage.gpus for stage in group.stages):
                yield Violation("seats_wrong", where, f"{len(taken)} GPUs, not those of its stages")
            stages = {node.partition("/")[0] for stage in group.stages for node in stage.nodes}
            if strangers := seat.gpus.keys() - stages - {n for s in group.stages for n in s.nodes}:
                yield Violation("seats_wrong", where, f"{min(strangers)} is no node of its stages")
            yield from _there(case, taken, where)
            for at in taken:
                if (other := gpus.setdefault(at, name)) != name:
                    yield Violation("gpu_twice", where, f"GPU {at[1]} of {at[0]} is {other}'s, too")
            for node in list(seat.gpus)[:1]:
                if (other := ports.setdefault((node, seat.port), name)) != name:
                    yield Violation("port_twice", where, f"port {seat.port} of {node} is {other}'s, too")


def _there(case: Case, taken: Sequence[tuple[str, int]], where: str) -> Iterator[Violation]:
    """Nodes have the GPUs of a seat, each of which stands there once."""
    if len(set(taken)) < len(taken):
        yield Violation("seats_wrong", where, "a GPU is named twice")
    sizes = {
        name: node.gpus_per_node
        for node in case.classes.values()
        for name, _ in taken
        if NodeIndex(node.nodes).find(name) is not None
    }
    for name, gpu in taken:
        if gpu >= sizes.get(name, gpu + 1):
            yield Violation("seats_wrong", where, f"{name} has {sizes[name]} GPUs, none is number {gpu}")


def _routers(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """No two models with several servers have the same port for their routers."""
    known = dict[int | None, str]()
    for i, case in enumerate(cases):
        name = several.models[i].model
        if len(case.plan.seats) > 1 and (other := known.setdefault(case.plan.router_port, name)) != name:
            yield Violation("port_twice", f"plans[{i}].router_port", f"it is that of {other}, too")


def _links(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """Flows of all plans over the same links."""
    between: dict[tuple[str, str], float] = defaultdict(float)
    for case in cases:
        for ends, flow in transfer.between(case).items():
            between[ends] += flow
    yield from transfer.over_links(cases[0], between)


def _parts(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """Requests/s of each model are its part of all, its part is its rate's, and the rate is served, or the
    common share of it."""
    total, rates = several.total, [demand.rate_rps for demand in several.models]
    asked = sum(rate for rate in rates if rate is not None)
    if any(rate is None for rate in rates) and asked:
        yield Violation("rates_wrong", "models", "some models have a rate, others have none")
        return
    for i, (demand, case) in enumerate(zip(several.models, cases, strict=True)):
        if not same(case.rps, demand.part * total.rps, FIGURE):
            text = f"{case.rps:.6g} req/s, its part of all is {demand.part * total.rps:.6g}"
            yield Violation("part_wrong", f"plans[{i}].predicted.rps", text)
        if demand.rate_rps is not None and not same(demand.part, demand.rate_rps / asked, EXACT):
            text = f"{demand.part:.6g}, its rate is {demand.rate_rps / asked:.6g} of all"
            yield Violation("part_wrong", f"models[{i}].part", text)
    if not same(sum(demand.part for demand in several.models), 1.0):
        yield Violation("part_wrong", "models", "the parts of all requests do not add up to one")
    own = total.rps / asked if asked else None
    if (own is None) != (total.share is None) or (own and not same(total.share or 0.0, own, FIGURE)):
        yield Violation("share_wrong", "total.share", f"{total.share}, rates and requests give {own}")
    if cases[0].goal != "throughput" and not at_most(1.0, total.share or 0.0, FIGURE):
        yield Violation("rate_missed", "total.share", f"{total.share}: not all that is asked for is served")


def _totals(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """Sums, and the price of nodes in use."""
    total = several.total
    for name, stated, own in (
        ("rps", total.rps, sum(case.rps for case in cases)),
        ("out_tok_per_s", total.out_tok_per_s, sum(c.plan.predicted.out_tok_per_s.value for c in cases)),
        ("gpus", float(total.gpus), float(_gpus(several))),
    ):
        if not same(stated, own, FIGURE):
            yield Violation("totals", f"total.{name}", f"{stated:.6g}, the plans have {own:.6g}")
    usd = _usd_per_hour(cases)
    if (usd is None) != (total.usd_per_hour is None):
        yield Violation("totals", "total.usd_per_hour", f"{total.usd_per_hour}, nodes in use cost {usd}")
    elif usd is not None and not same(total.usd_per_hour or 0.0, usd, FIGURE):
        text = f"{total.usd_per_hour:.6g} $/h, the nodes in use cost {usd:.6g}"
        yield Violation("totals", "total.usd_per_hour", text)


def _gpus(several: Several) -> int:
    return sum(r.count * s.gpus for plan in several.plans for r in plan.replicas for s in r.stages)


def _usd_per_hour(cases: list[Case]) -> float | None:
    """Price of every node that any plan stands on, once; of the parts of one node once."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        for r in case.plan.replicas:
            for stage in r.stages:
                nodes[stage.node_class] |= set(stage.nodes)
    paid: dict[tuple[str, str], float] = {}
    for node_class, used in nodes.items():
        node = cases[0].classes[node_class]
        if node.price_usd_per_hour is None:
            return None
        key = ("box", node.box) if node.box else ("class", node.id)
        paid[key] = max(paid.get(key, 0.0), node.price_usd_per_hour * len(used))
    return sum(paid.values())


def _takes(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """What a model takes: of throughput what the others would serve more without it, else what they would
    save."""
    more, total = cases[0].goal == "throughput", several.proof.objective
    parts = {demand.model: demand.part for demand in several.models}
    for i, takes in enumerate(several.prices):
        others = total * (1 - parts.get(takes.model, 0.0)) if more else total
        own = takes.without - others if more else others - takes.without
        best = max(takes.without, takes.bound) if more else min(takes.without, takes.bound)
        if takes.model not in parts or not (same(takes.costs, own, FIGURE) or abs(takes.costs - own) < EXACT):
            text = f"{takes.costs:.6g} for {takes.model}, the objectives give {own:.6g}"
            yield Violation("takes_wrong", f"prices[{i}].costs", text)
        if not same(takes.bound, best, EXACT):
            text = f"bound {takes.bound:.7g} is worse than {takes.without:.7g}"
            yield Violation("bound_crossed", f"prices[{i}].bound", text)


def _budgets(several: Several, cases: list[Case]) -> Iterator[Violation]:
    budget, total = cases[0].options.budget, several.total
    for name, limit, own in (
        ("usd_per_hour", budget.usd_per_hour, total.usd_per_hour),
        ("gpus", budget.gpus, float(total.gpus)),
    ):
        if limit is not None and not at_most(own if own is not None else float("nan"), limit):
            yield Violation("budget_over", f"total.{name}", f"{own} of a budget of {limit:g}")
    yield from budgets.over_feeds(cases[0].cluster, (r for case in cases for r in case.plan.replicas))


def _proof(several: Several, cases: list[Case]) -> Iterator[Violation]:
    """The objective is the total's own figure; no better than its bound; gap and status follow."""
    proof, total, goal = several.proof, several.total, cases[0].goal
    own = {"throughput": total.rps, "cost": total.usd_per_hour, "gpus": float(total.gpus)}[goal]
    if own is None or not same(proof.objective, own, FIGURE):
        text = f"{proof.objective:.6g}, all together have {own}"
        yield Violation("objective_wrong", "proof.objective", text)
    sense = "max" if goal == "throughput" else "min"
    if proof.unit != UNITS[goal] or proof.sense != sense:
        yield Violation("objective_wrong", "proof.unit", f"{proof.unit}, {proof.sense} for {goal}")
    if proof.given_up or not same(proof.own, proof.objective):
        yield Violation("given_up_wrong", "proof.chosen", "plans of several models give nothing up")
    yield from bounded(proof, sense)
    gap = apart(proof.bound, proof.objective)
    most = {"optimal": EXACT, "within_gap": cases[0].options.gap}.get(proof.status)
    if proof.status == "joint" or (most is not None and not at_most(gap, most)):
        yield Violation("status_wrong", "proof.status", f"{proof.status} with a gap of {gap:.3g}")

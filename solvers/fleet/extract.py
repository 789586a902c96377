"""From the numbers of a solve to a fleet: counts are rounded, and all else is recomputed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from solvers import packing
from solvers.fleet.types import Built, FleetProblem, FleetSolution, Pair
from solvers.linear import EXACT, Outcome, Status, gap

NOTHING = 1e-11
"""Share of a bucket below which a flow is the solver's rounding, not traffic."""


def extract(p: FleetProblem, built: Built, outcome: Outcome) -> FleetSolution:
    """Read the counts and recompute the rest from them: the solver's own figures are not trusted."""
    sign = p.objective.sign
    bound = None if outcome.bound is None else sign * outcome.bound
    if outcome.values is None:
        return FleetSolution(outcome.status, None, bound, outcome.solver)
    replicas = outcome.counts(built.n)
    rate = float(outcome.values[built.rate.column]) * built.reference
    own = {key: v for key, v in outcome.of(built.f).items() if v > NOTHING and key[0] in replicas}
    flows = {key: v * built.unit[key[1]] for key, v in own.items()}
    pair_flows = {key: v * built.unit[key[2]] for key, v in outcome.of(built.x).items() if v > NOTHING}
    s = FleetSolution(
        outcome.status, None, bound, outcome.solver, replicas, {}, flows, pair_flows, rate, outcome.values
    )
    s = replace(s, nodes=nodes_in_use(p, replicas, outcome.counts(built.y)), held=outcome.counts(built.at))
    if p.objective.more:
        s = _scaled(s, 1.0 / max(1.0, fullest(p, s)))
    return _judged(replace(s, objective=value(p, s)), sign)


def value(p: FleetProblem, s: FleetSolution) -> float:
    """The objective of `s`, from its counts and flows."""
    return p.objective.value(p, s)


def fullest(p: FleetProblem, s: FleetSolution) -> float:
    """Use of the fullest replica, NIC or link: 1 = exactly full."""
    levels = [0.0]
    for c, k in s.replicas.items():
        for use in p.columns[c].use.values():
            levels.append(sum(s.flows.get((c, w), 0.0) * u for w, u in use.items()) / k)
    room: dict[str, int] = {}
    for c, k in s.replicas.items():
        group = p.columns[c].group
        if group is not None:
            room[group] = room.get(group, 0) + k * p.columns[c].gpus
    moved: dict[tuple[str, str], float] = {}
    for (prefill, decode, w), v in s.pair_flows.items():
        pair = p.pairs[prefill, decode, w]
        nics = [("nic", prefill), ("nic", decode)] if pair.on_nic else []
        nics += [("inside", prefill), ("inside", decode)] if pair.inside else []
        for key in nics + [("link", k) for k in pair.links]:
            moved[key] = moved.get(key, 0.0) + v * pair.bytes
    for (c, w), v in s.flows.items():
        for name, each in p.columns[c].sent.items():
            moved["link", name] = moved.get(("link", name), 0.0) + v * each[w]
    for (kind, end), byte_rate in moved.items():
        port = p.inside if kind == "inside" else p.nic
        limit = p.links[end] if kind == "link" else port[end] * room.get(end, 0)
        levels.append(byte_rate / limit if limit else 0.0)
    return max(levels)


def nodes_in_use(p: FleetProblem, replicas: Mapping[str, int], solved: Mapping[str, int]) -> dict[str, int]:
    """Nodes in use of each class: what the replicas fill, where the solver left more on than that; as many as
    they can stand on each by itself where some may be lost, for those that stand apart are not lost
    together."""
    used: dict[str, int] = {}
    for g, stock in p.stocks.items():
        whole, small = 0, dict[int, int]()
        for c, k in replicas.items():
            for (of, gpus), times in p.columns[c].stands.items():
                if of == g:
                    whole += k * times * stock.span(gpus)
                    if not stock.span(gpus):
                        small[gpus] = small.get(gpus, 0) + k * times
        apart = p.survive is not None
        filled = sum(small.values()) if apart else packing.bins_filled(small, stock.gpus_per_node)
        used[g] = min(whole + filled, solved.get(g, stock.nodes))
    return {g: k for g, k in used.items() if k}


def _scaled(s: FleetSolution, factor: float) -> FleetSolution:
    """The same fleet with `factor` of its traffic."""
    if factor == 1.0:
        return s
    flows = {key: v * factor for key, v in s.flows.items()}
    pair_flows: dict[Pair, float] = {key: v * factor for key, v in s.pair_flows.items()}
    return replace(s, flows=flows, pair_flows=pair_flows, rate=s.rate * factor)


def _judged(s: FleetSolution, sign: float) -> FleetSolution:
    """The status that the recomputed objective deserves; a bound met but for rounding is the objective."""
    if s.objective is None or s.bound is None:
        return s
    met = sign * s.objective <= sign * s.bound or gap(s.objective, s.bound) <= EXACT
    if met or (s.status == "optimal" and abs(s.objective - s.bound) <= 1e-9):
        return replace(s, bound=s.objective, status="optimal")
    status: Status = "within_gap" if s.status == "optimal" else s.status
    return replace(s, status=status)

"""Experts: how many replicas of each, and on which GPU, layer by layer.

Sets       e in E experts   g in G GPUs, on nodes n   T sampled tokens, each a set of experts
Data       w[e] load [token]   s[g] slots   v[g] speed [token a unit of time]
Choose     x[e,g] integer >= 0   replicas of e on g
some[e]    r[e] = sum(g) x[e,g] >= 1
slots[g]   sum(e) x[e,g] == s[g]
balance    B = max(g) sum(e) x[e,g] * w[e]/r[e] / v[g]  divided by  sum(e) w[e] / sum(g) v[g]
traffic    N = mean over T of sum(n) (1 - prod(e in T) (1 - share of e's replicas on n))    [nodes a token]
minimise   `balance`: B, then N     `combined`: J = B + weight * N     `traffic`: N with B <= cap

Each layer alone; the objective and its bound are means over layers. `balance`: `experts_balance`, with the
bound of `experts_bound`, exact (`experts_exact`) where a layer is small, and with groups kept whole if asked
(`experts_grouped`). The others: `experts_joint`, with the bound of `experts_traffic_bound`.

Assumes    tokens of an expert are shared equally by its replicas, and a token picks one at random.
Source     the question: DeepSeek's EPLB; scoring: shared cases of its form. The formulation is ours.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from solvers.experts import balance as experts_balance
from solvers.experts import exact as experts_exact
from solvers.experts.balance import counted, times
from solvers.experts.bound import balance_bound
from solvers.experts.grouped import Groups
from solvers.experts.joint import CAPS, Layer
from solvers.experts.traffic_bound import Meetings
from solvers.experts.types import Aim, ExpertsProblem, ExpertsSolution, Floats, Ints
from solvers.linear import Limits, judge

ROUNDS = 24
"""Times that the best placement of a layer is disturbed and searched again."""


def solve(p: ExpertsProblem, aim: Aim | None = None, limits: Limits | None = None) -> ExpertsSolution:
    """Place all layers. Raises ValueError that names the layer where the numbers make no sense."""
    aim, limits = aim or Aim(), limits or Limits(seconds=30.0)
    _check(p, aim)
    stop = time.perf_counter() + limits.seconds
    mean = p.load_tok.sum(1) / p.speeds.sum()
    if aim.grouped:
        placed, bound = _grouped(p, limits, stop)
    else:
        placed, bound = _balanced(p, limits, stop)
    if p.tokens is None or p.nodes == 1:
        return _answer(p, aim, limits, placed, bound, [])
    reached = times(p.load_tok, placed, p.speeds).max(1) / mean
    layers = [Layer(p, at, _judged(aim, float(b)), limits.seed) for at, b in enumerate(reached)]
    for layer, table in zip(layers, placed, strict=True):
        layer.offer(table[table >= 0])
    if not aim.grouped:
        rounds = ROUNDS if limits.work is None else min(ROUNDS, limits.work)
        _search(layers, aim, rounds, np.inf if limits.work is not None else stop)
    return _answer(p, aim, limits, np.stack([layer.table() for layer in layers]), bound, layers)


def _judged(aim: Aim, balance: float) -> Aim:
    """What a layer is judged by: where balance is the aim, traffic at the balance that was reached."""
    return replace(aim, objective="traffic", balance_cap=balance) if aim.objective == "balance" else aim


def _search(layers: list[Layer], aim: Aim, rounds: int, stop: float) -> None:
    """All layers a turn each, as long as there is time."""
    for turn in range(1 if aim.objective == "balance" else 1 + len(CAPS) + rounds):
        for layer in layers:
            if time.perf_counter() > stop:
                return
            if turn == 0:
                layer.regroup()
            elif turn <= len(CAPS):
                layer.first(CAPS[turn - 1])
            else:
                layer.again()


def _balanced(p: ExpertsProblem, limits: Limits, stop: float) -> tuple[Ints, Floats]:
    """Placements (layers, gpus, most slots) and what bounds their times."""
    bound = balance_bound(p.load_tok, p.slots, p.speeds)
    placed = experts_balance.balance(p.load_tok, p.slots, p.speeds, bound, limits.seed)
    reached = times(p.load_tok, placed, p.speeds).max(1)
    for at in np.flatnonzero(reached > bound * (1 + max(1e-9, limits.gap))):
        left = replace(limits, seconds=(stop - time.perf_counter()) / 4)
        if left.seconds <= 0:
            break  # what is placed stands, with the bound that it has
        better, bound[at] = experts_exact.balance(
            p.load_tok[at], p.slots, p.speeds, reached[at], bound[at], left
        )
        if better is not None:
            placed[at] = better
    return placed, bound


def _grouped(p: ExpertsProblem, limits: Limits, stop: float) -> tuple[Ints, Floats]:
    assert p.group is not None
    placed, bound = [], []
    for at, load in enumerate(p.load_tok):
        left = max(0.1, (stop - time.perf_counter()) / (len(p.load_tok) - at))
        found, _, proven = Groups(load, p.group, p.slots, p.speeds, p.node).solve(
            replace(limits, seconds=left)
        )
        placed.append(found)
        bound.append(proven)
    return np.stack(placed), np.array(bound)


def _answer(
    p: ExpertsProblem, aim: Aim, limits: Limits, placed: Ints, bound: Floats, layers: list[Layer]
) -> ExpertsSolution:
    """Recomputes the balance from the placement, and compares it with its bound."""
    mean = p.load_tok.sum(1) / p.speeds.sum()
    balance = times(p.load_tok, placed, p.speeds).max(1) / mean
    least = np.minimum(bound / mean, balance)
    nodes = np.array([layer.nodes_per_token for layer in layers]) if layers else np.ones(len(placed))
    value, proven = balance, least
    if aim.objective != "balance":
        visits = np.ones(len(placed))
        joint = least + aim.traffic_weight
        value = balance + aim.traffic_weight * nodes
        for at, layer in enumerate(layers):
            met = Meetings(layer.load, layer.tokens, layer.node_slots, layer.node_speed)
            visits[at] = met.nodes_per_token(aim.balance_cap)
            joint[at] = met.joint(float(least[at]), aim.traffic_weight, float(value[at]))
        value, proven = (value, joint) if aim.objective == "combined" else (nodes, np.minimum(visits, nodes))
    status = judge(float(value.mean()), float(proven.mean()), limits, "time_limit")
    if aim.objective == "traffic" and (balance > aim.balance_cap * (1 + 1e-9)).any():
        status = "infeasible" if (least > aim.balance_cap * (1 + 1e-9)).any() else "time_limit"
    return ExpertsSolution(
        place=[[gpu[gpu >= 0].tolist() for gpu in layer] for layer in placed],
        replicas=counted(placed, p.load_tok.shape[1]),
        balance=balance,
        balance_bound=least,
        nodes_per_token=nodes if layers or p.nodes == 1 else None,
        objective=float(value.mean()),
        bound=float(proven.mean()),
        status=status,
    )


def _check(p: ExpertsProblem, aim: Aim) -> None:
    if p.load_tok.ndim != 2 or 0 in p.load_tok.shape:
        raise ValueError("loads: want one row a layer, one column an expert")
    layers, experts = p.load_tok.shape
    for at, load in enumerate(p.load_tok):
        if not np.isfinite(load).all() or (load < 0).any():
            raise ValueError(f"layer {at}: a load is negative or no number")
        if load.sum() <= 0:
            raise ValueError(f"layer {at}: no expert has any load")
    if not len(p.slots) == len(p.node) == len(p.speeds) or (p.slots < 1).any():
        raise ValueError("GPUs: want a node and at least one slot for each")
    if not (np.isfinite(p.speeds).all() and (p.speeds > 0).all()):
        raise ValueError("GPUs: a speed is not above zero")
    if sorted(set(p.node.tolist())) != list(range(p.nodes)):
        raise ValueError("GPUs: nodes must be numbered from 0 on, none left out")
    if p.slots.sum() < experts:
        raise ValueError(f"{experts} experts want {experts} slots, and there are {p.slots.sum()}")
    if p.group is not None and len(p.group) != experts:
        raise ValueError(f"groups: {len(p.group)} numbers for {experts} experts")
    if aim.grouped and (p.group is None or aim.objective != "balance"):
        raise ValueError("keeping groups on nodes wants groups, and balance as the objective")
    if aim.objective != "balance" and p.tokens is None:
        raise ValueError("traffic wants sampled tokens")
    if p.tokens is None:
        return
    if len(p.tokens) != layers:
        raise ValueError(f"sampled tokens: {len(p.tokens)} layers of {layers}")
    for at, tokens in enumerate(p.tokens):
        if tokens.ndim != 2 or 0 in tokens.shape or tokens.min() < 0 or tokens.max() >= experts:
            raise ValueError(f"layer {at}: sampled tokens must be rows of experts 0 to {experts - 1}")

"""An expert map from loads: the story. `expert_map(path, gpus="32", slots="9")` is `meshwright experts`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.errors import Infeasible
from planner.expert_maps.asking import Ask, ask
from planner.expert_maps.moving import drift, moves, near, windows
from planner.expert_maps.schema import ExpertMap, Floats, Found, Hops, Hot, Moves, State
from planner.problems.experts import linear, nodes_per_token, time_over_mean
from solvers import experts
from solvers.experts import robust as experts_robust
from solvers.experts.bound import balance_bound
from solvers.experts.types import ExpertsProblem, Place
from solvers.linear import Status, gap, judge

GOALS = {
    "balance": "hottest GPU / mean",
    "combined": "hottest GPU / mean + weight * nodes a token",
    "traffic": "nodes a token",
}
SHOWN = 6
"""Experts with most replicas that are named."""


def expert_map(path: str | Path, **options: Any) -> Found:
    """The map for the loads in `path`; `options` as in `asking.ask`. Raises InputError, Infeasible."""
    return find(ask(path, **options))


@dataclass(frozen=True)
class _Placed:
    """A placement and what is proven of it; `bound_of` (layers,): balance that none is below."""

    place: Sequence[Place]
    goal: str
    objective: float
    bound: float
    status: Status
    bound_of: Floats
    hops: Hops | None = None
    moves: Moves | None = None


def find(asked: Ask) -> Found:
    """Places, compares with what was there before, and looks at drift where there are steps."""
    began = time.perf_counter()
    load, gpus = asked.loads.total, asked.gpus
    start = linear(gpus, load.shape[1])
    before = _state(asked, "experts in order", [start] * len(load))
    if asked.previous is not None:
        before = _state(asked, "the previous map", asked.previous)
    placed = _placed(asked)
    after = _state(asked, "this map", placed.place)
    seconds = time.perf_counter() - began
    made = ExpertMap(
        model=asked.card.name if asked.card else None,
        layers=asked.loads.layers or tuple(range(len(load))),
        experts=load.shape[1],
        nodes=tuple(np.bincount(gpus.node).tolist()),
        place=[[list(gpu) for gpu in place] for place in placed.place],
        balance=tuple(after.balance.tolist()),
        bound=tuple(np.minimum(placed.bound_of, after.balance).tolist()),
        model_layers=len(asked.card.stack) if asked.card else 0,
    )
    return Found(
        map=made,
        goal=placed.goal,
        objective=placed.objective,
        bound=placed.bound,
        gap=gap(placed.objective, placed.bound),
        status=placed.status,
        seconds=seconds,
        before=before,
        after=after,
        hottest=_hottest(asked, placed.place),
        steps=len(asked.loads.tokens),
        windows=len(windows(asked.loads.tokens)),
        moves=placed.moves,
        hops=placed.hops,
        drift=drift(asked) if len(asked.loads.tokens) > 1 and placed.hops is None else None,
        warnings=(*asked.warnings, *_warnings(asked)),
    )


def _placed(asked: Ask) -> _Placed:
    """By the way that was asked for."""
    load, gpus = asked.loads.total, asked.gpus
    if asked.transitions is not None:
        place, hops, status = near(asked)
        least = balance_bound(load, gpus.slots, gpus.speed) / load.sum(1) * gpus.speed.sum()
        goal = "hops between GPUs (1) and nodes (2), tokens times cost"
        return _Placed(place, goal, hops.after, hops.bound, status, least, hops)
    if asked.robust is not None:
        p = experts_robust.RobustProblem(
            windows(asked.loads.tokens), gpus.slots, gpus.speed, asked.robust
        )  # fmt: skip
        r = experts_robust.solve(p, asked.limits)
        words = {"mean": "mean over steps", "worst": "worst step"}[asked.robust]
        least = balance_bound(load, gpus.slots, gpus.speed) / load.sum(1) * gpus.speed.sum()
        return _Placed(r.place, f"{GOALS['balance']}, {words}", r.objective, r.bound, r.status, least)
    share = 1.0 if asked.previous is None else 0.5
    limits = replace(asked.limits, seconds=share * asked.limits.seconds)
    p_ = ExpertsProblem(load, gpus.slots, gpus.node, gpus.speed, asked.group, asked.tokens)
    s = experts.solve(p_, asked.aim, limits)
    if s.status == "infeasible":
        raise _too_uneven(asked, s.balance_bound)
    if asked.previous is not None:
        place, found, balance = moves(asked, s.place)
        value, bound = float(balance.mean()), float(np.minimum(s.balance_bound, balance).mean())
        status = judge(value, bound, asked.limits, "time_limit")
        return _Placed(place, GOALS["balance"], value, bound, status, s.balance_bound, moves=found)
    goal = GOALS[asked.aim.objective]
    return _Placed(s.place, goal, s.objective, s.bound, s.status, s.balance_bound)


def _too_uneven(asked: Ask, least: Floats) -> Infeasible:
    worst = int(least.argmax())
    message = f"layer {asked.loads.name(worst)}: no placement is below {least[worst]:.4f} times the mean"
    hint = f"--max-balance {np.ceil(least[worst] * 1000) / 1000:g}, or more --slots"
    return Infeasible(f"{message}, and --max-balance asks for {asked.aim.balance_cap:g}", hint=hint)


def _state(asked: Ask, what: str, places: Sequence[Place]) -> State:
    load, gpus = asked.loads.total, asked.gpus
    heat = np.array([time_over_mean(w, place, gpus.speed) for w, place in zip(load, places, strict=True)])
    nodes = None
    if asked.tokens is not None:
        pairs = zip(asked.tokens, places, strict=True)
        nodes = float(np.mean([nodes_per_token(t, place, gpus.node, load.shape[1]) for t, place in pairs]))
    return State(what, heat.max(1), heat, nodes)


def _hottest(asked: Ask, places: Sequence[Place]) -> tuple[Hot, ...]:
    """Replicated experts that carry most of their layer."""
    load = asked.loads.total
    share = load / load.sum(1, keepdims=True)
    order = np.argsort(-share, axis=None)[:SHOWN]
    found = []
    for layer, expert in zip(*(part.tolist() for part in np.unravel_index(order, share.shape)), strict=True):
        replicas = sum(gpu.count(expert) for gpu in places[layer])
        found.append(Hot(asked.loads.name(layer), expert, float(share[layer, expert]), replicas))
    return tuple(found)


def _warnings(asked: Ask) -> list[str]:
    lines = []
    if len(set(asked.gpus.speed.tolist())) > 1:
        lines.append("a GPU's speed is taken as its memory bandwidth: loads are balanced by time")
    if asked.loads.layers is None:
        lines.append("the loads do not number their layers: they are 0, 1, 2, …; --model numbers them")
    if asked.tokens is not None and asked.gpus.nodes == 1:
        lines.append("all GPUs are on one node: there is no traffic between nodes")
    return lines

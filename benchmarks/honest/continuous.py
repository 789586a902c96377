"""Fleets under continuous loads, judged by the one model: any that keeps the limits is a witness against a
bound.

How many requests/s a unit carries is found by bisection, so the planner has not seen the witness: no grid of
loads or batches, no rounding of times, no linear program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.honest.fleets import Fleet, Unit, changed, nodes, one, sampled
from benchmarks.honest.one_model import OneModel, Role
from benchmarks.honest.problems import Problem, Rng
from planner.designs.shape import Floats
from planner.inputs.workload import Slo

SECTIONS, ROUNDS = 8, 6
"""Loads tried at once, and how often: to 1 / 8^6 of the range."""

TINY_RPS = 1e-6
"""A load so small that times are those of a lone request."""

WIDEN = 3.0
"""Times the load at which a server would be full by its figures at next to none."""

CHANGE, FURTHER = 0.7, 0.5
"""Chance that a fleet is a known one changed, and then that it is the best one seen."""

JUDGED = ("throughput", "cost", "gpus")
"""Goals whose figure follows from rates and replicas alone; not watts and latencies."""


@dataclass(frozen=True)
class Limits:
    """Of TTFT and TPOT in seconds; infinite: none."""

    ttft_s: float
    tpot_s: float

    @staticmethod
    def of(slo: Slo) -> Limits:
        """From milliseconds."""
        return Limits(*(math.inf if x is None else x / 1e3 for x in (slo.ttft_ms, slo.tpot_ms)))


@dataclass(frozen=True)
class Witness:
    """A fleet that keeps the limits, and its figure of the goal."""

    fleet: Fleet
    value: float

    def __str__(self) -> str:
        return " + ".join(map(str, self.fleet))


def kept(model: OneModel, unit: Unit, limits: Limits, rates: Floats) -> NDArray[np.bool_]:
    """Whether the unit keeps the limits at `rates` (m,) requests/s, (m,)."""
    share = np.array(unit.share)
    load, taken = rates[:, None] * share, share > 0
    if unit.second is None:
        at = model.judge(unit.first, "mixed", load / unit.count)
        ttft, full = at.cautious_ttft_s, np.maximum(at.utilisation, at.cache)
    else:
        each = load / unit.count, load / unit.others
        sender = model.judge(unit.first, "prefill", each[0])
        at = model.judge(unit.second, "decode", each[1])
        moved = model.handed_s(unit.first, unit.second, load, each)
        if moved is None:
            return np.zeros(len(rates), dtype=bool)
        ttft = sender.cautious_ttft_s + model.caution(unit.first, "prefill")[0] * (moved + at.tpot_s)
        full = np.max([sender.utilisation, sender.cache, at.utilisation, at.cache], axis=0)
    later = model.caution(unit.second or unit.first, "decode" if unit.second else "mixed")[1]
    in_time = np.isfinite(ttft) & (ttft <= limits.ttft_s) & (later * at.tpot_s <= limits.tpot_s)
    return np.asarray(in_time[:, taken].all(axis=1) & (full <= 1.0))


def carried(model: OneModel, unit: Unit, limits: Limits) -> float:
    """The most requests/s at which the unit was seen to keep the limits, by bisection; 0 where at none."""
    if not kept(model, unit, limits, np.array([TINY_RPS]))[0]:
        return 0.0
    low, high = TINY_RPS, WIDEN * _full(model, unit)
    for _ in range(ROUNDS):
        tries = low + (high - low) * np.arange(1, SECTIONS + 1) / SECTIONS
        good = kept(model, unit, limits, tries)
        first = int(good.argmin())  # that is too much
        if good.all():
            low, high = float(tries[-1]), 2 * float(tries[-1])
        else:
            low, high = float(tries[first - 1]) if first else low, float(tries[first])
    return low


def _full(model: OneModel, unit: Unit) -> float:
    """About the requests/s at which the unit is full."""
    load, most = np.array([unit.share]), math.inf
    roles: tuple[Role, ...] = ("mixed",) if unit.second is None else ("prefill", "decode")
    for (design, count), role in zip(unit.parts, roles, strict=True):
        busy = float(model.judge(design, role, TINY_RPS * load).utilisation[0])
        most = min(most, count * TINY_RPS / max(busy, 1e-12))
    return most


def worth(model: OneModel, fleet: Fleet, limits: Limits, share: Sequence[float]) -> float:
    """The most requests/s of the mix `share` that the units together were seen to carry. Of units with mixes
    of their own each a part of what it carries alone, judged again at that part."""
    most = [carried(model, unit, limits) for unit in fleet]
    if all(np.allclose(unit.share, share, rtol=1e-9) for unit in fleet):
        return sum(most)
    mixes = np.array([unit.share for unit in fleet]).T  # buckets x units
    rows = np.hstack([mixes, -np.array(share)[:, None]])  # what units take is the mix at one rate
    bounds = [*((0.0, m) for m in most), (0.0, None)]
    found = linprog([*[0.0] * len(fleet), -1.0], A_eq=rows, b_eq=np.zeros(len(rows)), bounds=bounds)
    if found.x is None:
        return 0.0
    parts = zip(fleet, found.x[:-1].tolist(), strict=True)
    again = all(part <= TINY_RPS or kept(model, u, limits, np.array([part]))[0] for u, part in parts)
    return float(found.x[-1]) if again else 0.0


def judged(model: OneModel, problem: Problem, fleet: Fleet) -> Witness | None:
    """The fleet's figure under the problem's limits; None where it does not stand, misses the rate or the
    budget, or the goal is not one of `JUDGED`."""
    taken = nodes(model, fleet)
    gpus = sum(design.gpus * count for unit in fleet for design, count in unit.parts)
    if problem.objective not in JUDGED or taken is None or gpus > (problem.most_gpus or math.inf):
        return None
    rate = worth(model, fleet, Limits.of(problem.slo), problem.workload.shares)
    if rate <= 0 or rate < (problem.rate or 0.0):
        return None
    prices = {name: node.price_usd_per_hour or 0.0 for name, node in model.classes.items()}
    cost = sum(count * prices[name] for name, count in taken.items())
    return Witness(fleet, {"throughput": rate, "gpus": float(gpus), "cost": cost}[problem.objective])


def continuous(
    model: OneModel, problem: Problem, known: Sequence[Fleet], rng: Rng, tries: int
) -> Witness | None:
    """The best of `tries` random fleets: new ones, `known` ones changed, and the best one changed further.
    None where none keeps the limits."""
    best: Witness | None = None
    for _ in range(tries):
        seeds = [best.fleet] if best is not None and rng.random() < FURTHER else list(known)
        change = bool(seeds) and rng.random() < CHANGE
        fleet = changed(model, one(rng, seeds), rng) if change else sampled(model, problem, rng)
        found = judged(model, problem, fleet) if fleet else None
        if found is not None and (best is None or _better(problem, found, best)):
            best = found
    return best


def _better(problem: Problem, a: Witness, b: Witness) -> bool:
    return a.value > b.value if problem.objective == "throughput" else a.value < b.value

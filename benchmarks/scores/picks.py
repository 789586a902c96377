"""What a planner that trusts the predictions picks among measured configurations, and how that turns out.

A *case* is a problem (model, device, engine, precision, lengths) with two or more measured configurations,
and a TPOT limit. At risk R a configuration is feasible if exp(z(1-R) * sigma) times its predicted TPOT keeps
the limit; the pick is the feasible one of highest predicted tokens/s per GPU. Each measured row is a
candidate; rows that tie (repeats of one configuration) share the pick evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.scores.held import CONFIGURATION, PROBLEM, Floats, Held, Indices, alike
from benchmarks.scores.render import share, signed, table
from planner.cost.student import deviations

ONE_VERSION = (*PROBLEM, "backend_version")
LIMITS_MS = (8.0, 10.0, 15.0, 20.0, 30.0, 50.0)
RISKS = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02)
FINE = tuple(round(0.8 - 0.01 * i, 2) for i in range(79))
"""The curve on which the marks are looked for."""

MARKS = ((0.18, "18 %"), (0.05, "5 %"))
"""Shares of broken limits at which the loss is asked for; the first is what the vendor's planner breaks."""

SAME_RATE = 1 - 1e-9


@dataclass(frozen=True)
class Case:
    """The candidates of a problem, their indices of shape (k,), and a limit."""

    rows: Indices
    limit_ms: float


@dataclass(frozen=True)
class Picks:
    """All picks at one risk, shapes (m,): row, weight (ties share 1), whether its measured TPOT breaks the
    limit, and else 1 - measured tokens/s per GPU / the best measured among those that keep it; `best` is that
    row, -1 where none keeps it.

    `missed` cases have no pick though a measured row keeps the limit, `none` others have none either.
    """

    cases: int
    missed: int
    none: int
    row: Indices
    weight: Floats
    broken: npt.NDArray[np.bool_]
    loss: Floats
    best: Indices

    @property
    def share_broken(self) -> float:
        """Of all picks."""
        return _mean(self.broken.astype(float), self.weight)

    @property
    def mean_loss(self) -> float:
        """Of the picks that keep their limit."""
        return _mean(self.loss[~self.broken], self.weight[~self.broken])

    @property
    def full_loss(self) -> float:
        """The same where a missed case has lost everything."""
        kept = float(self.weight[~self.broken].sum())
        lost = float((self.loss * self.weight)[~self.broken].sum())
        return (lost + self.missed) / (kept + self.missed) if kept + self.missed else float("nan")


def cases(held: Held, problem: Sequence[str] = PROBLEM) -> Iterator[Case]:
    """Every problem that leaves a choice, at every limit."""
    for rows in alike(held.rows, problem):
        if len({tuple(held.rows[i][c] for c in CONFIGURATION) for i in rows}) > 1:
            yield from (Case(rows, limit) for limit in LIMITS_MS)


def pick(held: Held, risk: float, problem: Sequence[str] = PROBLEM) -> Picks:
    """The picks of all cases at one risk."""
    return pick_among(held, risk, cases(held, problem))


def pick_among(held: Held, risk: float, asked: Iterable[Case]) -> Picks:
    """The picks of these cases at one risk."""
    edge = held.edge("tpot", deviations(1 - risk))
    promised, real = held.rate(), held.measured_rate()
    total = missed = none = 0
    found: list[tuple[Indices, Floats, npt.NDArray[np.bool_], Floats, Indices]] = []
    for case in asked:
        total += 1
        keeps = case.rows[held.measured_tpot[case.rows] <= case.limit_ms]
        feasible = case.rows[edge[case.rows] <= case.limit_ms]
        if not len(feasible):
            missed, none = missed + bool(len(keeps)), none + (not len(keeps))
            continue
        rows = feasible[promised[feasible] >= promised[feasible].max() * SAME_RATE]
        broken = held.measured_tpot[rows] > case.limit_ms
        loss = 1 - real[rows] / (real[keeps].max() if len(keeps) else np.inf)
        best = keeps[np.argmax(real[keeps])] if len(keeps) else -1
        found.append((rows, np.full(len(rows), 1 / len(rows)), broken, loss, np.full(len(rows), best)))
    if not found:
        return Picks(total, missed, none, *(np.zeros(0, dtype=t) for t in (int, float, bool, float, int)))
    return Picks(total, missed, none, *(np.concatenate(column) for column in zip(*found, strict=True)))


def least_loss(curve: Sequence[Picks], broken: float) -> float:
    """The smallest mean loss at which no more than the share `broken` is broken; NaN if always more is."""
    return min((p.mean_loss for p in curve if p.share_broken <= broken), default=float("nan"))


def flattery(predicted: Floats, measured: Floats, picks: Picks) -> tuple[float, float]:
    """Mean log(predicted / measured) of what is picked, and of all rows: what choosing adds to the bias."""
    log = np.log(predicted / measured)
    return _mean(log[picks.row], picks.weight), float(log.mean())


def pick_table(held: Held) -> str:
    """The whole curve, the losses at the marks, and how far what is picked is flattered."""
    curve = [pick(held, risk) for risk in RISKS]
    lines = [
        [
            f"{risk:.2f}",
            f"{p.weight.sum():.0f}",
            share(p.share_broken),
            share(p.mean_loss),
            str(p.missed),
            str(p.none),
            share(p.full_loss),
        ]
        for risk, p in zip(RISKS, curve, strict=True)
    ]
    heads = ["risk", "picks", "broken", "loss of the rest", "missed", "none keeps", "loss with missed"]
    fine, alone = ([pick(held, risk, problem) for risk in FINE] for problem in (PROBLEM, ONE_VERSION))
    ends = [_least(fine), f"{_least(alone)}, choosing within one engine version", _flattered(held, curve[0])]
    return "\n".join([table(heads, lines), *ends])


def _least(curve: Sequence[Picks]) -> str:
    marks = " and ".join(f"{share(least_loss(curve, x))} with at most {name} broken" for x, name in MARKS)
    return f"least loss in {curve[0].cases} cases: {marks}"


def _flattered(held: Held, picks: Picks) -> str:
    parts = []
    for name, predicted, measured in (
        ("tokens/s", held.rate(), held.measured_rate()),
        ("TPOT", held.tpot, held.measured_tpot),
    ):
        chosen, every = flattery(predicted, measured, picks)
        parts.append(f"{name} {signed(chosen)} of picks, {signed(every)} of all rows")
    return f"mean log(predicted / measured) at risk {RISKS[0]}: {'; '.join(parts)}"


def _mean(values: Floats, weights: Floats) -> float:
    """Weighted; NaN of nothing."""
    return float((values * weights).sum() / weights.sum()) if weights.sum() > 0 else float("nan")

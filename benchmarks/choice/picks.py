"""What is picked among public runs that the shipped fit never saw: `python -m benchmarks.choice picks`.

A group is one model, device, engine and pair of lengths with runs of two layouts or more. Limits on TPOT
stand half-way (of logarithms) between runs of a group that follow each other. Picked is the run of the
highest predicted output rate a GPU whose predicted TPOT keeps the limit, at the risk asked for; regret is
what its measured rate falls short of the best run that keeps the limit. Where no TPOT is published the rate
alone decides, and no limit can be broken. A broken limit has no regret; where the caution of a risk leaves
nothing to pick, all is lost in the column "with missed". Means are of groups, each of its own limits' mean.
Of published2.csv no group has TPOTs or rates of two layouts.
`folds.py` has the same of the rows that the fit is made of.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from benchmarks.choice import pipelines
from benchmarks.saturated import overview, read
from benchmarks.scores.held import LAYOUT, PROBLEM, Floats, Held, Row
from benchmarks.scores.picks import Case, pick_among
from benchmarks.scores.render import share, table
from planner.cost.bands import Z80
from planner.predict.predictions import Prediction, predict_rows

RISKS = (0.5, 0.2)

SHAPE = ("tp", "pp", "attn_dp", "ep", "stages")


@dataclass(frozen=True)
class Run:
    """One public run: what it is compared with, its layout, and what was measured and predicted of it: TPOT
    in ms (1 of both where none was published), output tokens/s of a GPU, and the deviation of TPOT's log."""

    group: tuple[str, ...]
    layout: tuple[str, ...]
    measured: tuple[float, float]
    predicted: tuple[float, float]
    sigma: float
    limited: bool = True


def report() -> str:
    """The table of rows that no fit saw."""
    found = {
        "pipelines.csv": piped_runs(),
        "MiniMax-M2.5 by positions": position_runs(),
        "TensorRT-LLM overview": overview_runs(),
    }
    return lines_of(found)


def runs_of(held: Held) -> list[Run]:
    """Rows of the fit as runs."""
    figures = zip(
        held.measured_tpot, held.measured_rate(), held.tpot, held.rate(), held.sigma_tpot, strict=True
    )
    return [
        Run(tuple(row[x] for x in PROBLEM), tuple(row[x] for x in LAYOUT), (seen, made), (told, out), sigma)
        for row, (seen, made, told, out, sigma) in zip(held.rows, figures, strict=True)
    ]


def lines_of(found: Mapping[str, Sequence[Run]]) -> str:
    """A line a source and risk, and the sum of those with limits."""
    named = {
        f"{name}{'' if limited else ', rate alone'}": [run for run in runs if run.limited == limited]
        for name, runs in found.items()
        for limited in (True, False)
    }
    every = [run for runs in found.values() for run in runs if run.limited]
    if len(found) > 1:
        named["all with limits"] = every
        named["  each group's median known"] = corrected(every, lambda run: run.group)
        named["  and each layout's"] = corrected(every, lambda run: (run.group, run.layout))
    heads = ("runs", "groups", "limits", "risk", "broken", "regret", "missed", "with missed", "layout right")
    lines = [line for name, runs in named.items() for line in _lines(name, runs)]
    return table(("source", *heads), lines)


def corrected(runs: Iterable[Run], key: Callable[[Run], object]) -> list[Run]:
    """Runs less the median error of those of one key, in TPOT and in rate: what it would be to know that.

    >>> run = Run((), (), (10.0, 8.0), (20.0, 4.0), 0.1)
    >>> [tuple(round(x, 6) for x in other.predicted) for other in corrected([run], lambda run: run.group)]
    [(10.0, 8.0)]
    """
    alike: dict[object, list[Run]] = defaultdict(list)
    for run in runs:
        alike[key(run)].append(run)
    out = []
    for own in alike.values():
        told, seen = (np.array([getattr(run, name) for run in own]) for name in ("predicted", "measured"))
        off = np.exp(np.median(np.log(told / seen), axis=0))
        out += [
            replace(run, predicted=(tpot, rate))
            for run, (tpot, rate) in zip(own, (told / off).tolist(), strict=True)
        ]
    return out


def _lines(name: str, runs: Sequence[Run]) -> list[list[str]]:
    chosen = [group for group in by_group(runs) if len({run.layout for run in group}) > 1]
    if not chosen:
        return []
    limits = sum(len(limits_of(group)) for group in chosen)
    sizes = [str(sum(map(len, chosen))), str(len(chosen)), str(limits)]
    lines = []
    for risk in RISKS if any(run.limited for run in runs) else RISKS[:1]:
        scores = np.array([scores_of(group, risk) for group in chosen])
        broken, regret, missed, whole, right = (_mean(column) for column in scores.T)
        cells = (broken, regret, missed, whole, right)
        lines.append([name, *sizes, f"{risk:g}", *(share(x) for x in cells)])
    return lines


def by_group(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs that are compared with each other."""
    groups: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    return list(groups.values())


def limits_of(group: Sequence[Run]) -> list[float]:
    """Half-way between the TPOTs that were measured; no limit where none was.

    >>> runs = [Run((), (), (tpot, 1.0), (1.0, 1.0), 0.1) for tpot in (40.0, 10.0, 10.0)]
    >>> [round(limit, 6) for limit in limits_of(runs)]
    [20.0]
    """
    seen = sorted({run.measured[0] for run in group})
    between = [math.sqrt(low * high) for low, high in pairwise(seen)]
    return between if group[0].limited else [math.inf]


def scores_of(group: Sequence[Run], risk: float) -> tuple[float, float, float, float, float]:
    """Share of picks that break their limit, mean regret of the others, share of limits with no pick though a
    run keeps it, regret with these as lost, and share of picks of the layout of the best run."""
    ask = [Case(np.arange(len(group)), limit) for limit in limits_of(group)]
    if not ask:
        return (math.nan,) * 5
    p = pick_among(held_of(group), risk, ask)
    same = [group[i].layout == group[k].layout for i, k in zip(p.row, p.best, strict=True)]
    right = float(np.dot(p.weight, same)) / p.weight.sum() if len(same) else math.nan
    return p.share_broken, p.mean_loss, p.missed / p.cases, p.full_loss, right


@dataclass(frozen=True)
class Rated(Held):
    """Runs whose output rates were measured, and predicted, as such; tokens/s per GPU."""

    out: Floats
    measured_out: Floats

    def rate(self) -> Floats:
        return self.out

    def measured_rate(self) -> Floats:
        return self.measured_out


def held_of(group: Sequence[Run]) -> Rated:
    """The runs as picks are made among; of first tokens nothing is asked."""
    (tpot, rate), (told, promised) = (
        np.array([getattr(run, name) for run in group]).T for name in ("measured", "predicted")
    )
    sigma, none = np.array([run.sigma for run in group]), np.zeros(len(group))
    return Rated([{}] * len(group), tpot, none, told, none, sigma, none, promised, rate)


def run_of(
    group: Sequence[str], row: Row, gpus: float, measured: tuple[str, float], answer: object
) -> Run | None:
    """A run by its row, TPOT and output rate of all GPUs as published; None where nothing is predicted."""
    if not isinstance(answer, Prediction) or not answer.fits or not answer.out_tok_per_s:
        return None
    layout, tpot = tuple(row.get(name, "") or "1" for name in SHAPE), measured[0]
    if tpot and not answer.tpot_ms:
        return None
    told = (answer.tpot_ms or 1.0) if tpot else 1.0
    width = math.log((answer.tpot_ms_high or 1) / (answer.tpot_ms_low or 1)) / (2 * Z80)
    seen = (float(tpot or 1), measured[1] / gpus)
    return Run(tuple(group), layout, seen, (told, answer.out_tok_per_s / gpus), width, bool(tpot))


def piped_runs() -> list[Run]:
    """Pipelines and their like of one stage; not those of one stage over unlike GPUs, which cannot be
    asked."""
    rows = [row for row in read("pipelines.csv") if row["stages"] or "unlike GPUs" not in row["doubt"]]
    found = []
    for row, answer in zip(rows, pipelines.asked(rows), strict=True):
        if row["measured_out_tok_s"] and row["isl"]:
            parts = [part.split(":") for part in row["stages"].split("+")] if row["stages"] else []
            gpus = sum(int(tp[2:]) for _, tp, _ in parts) or _product(row, "tp", "pp", "attn_dp")
            devices = " ".join(sorted({part[0] for part in parts})) or row["device"]
            same = [row[x] for x in ("source", "model", "precision", "engine", "isl", "osl", "link")]
            figures = row["measured_tpot_ms"], float(row["measured_out_tok_s"])
            found.append(run_of([devices, *same], row, gpus, figures, answer))
    return [run for run in found if run]


def position_runs() -> list[Run]:
    """Experts on ranks of their own behind tp or attention-dp on 8 H200."""
    rows = read("inferencex_positions.csv")
    names = ("engine", "tp", "attn_dp", "ep", "isl", "osl", "concurrency")
    asked = [
        {name: row[name] for name in names} | {"model": "minimax-m2.5", "device": "h200-sxm"} for row in rows
    ]
    answers = predict_rows(asked)
    found = []
    for row, answer in zip(rows, answers, strict=True):
        figures = row["median_tpot_ms"], float(row["out_tok_per_s"])
        found.append(run_of([row["isl"], row["osl"]], row, float(row["gpus"]), figures, answer))
    return [run for run in found if run]


def overview_runs() -> list[Run]:
    """Offline runs at full load."""
    rows = overview()
    answers = predict_rows([cells for _, cells, _ in rows])
    found = []
    for (row, _, rate), answer in zip(rows, answers, strict=True):
        same = [row[x] for x in ("model", "device", "precision", "isl", "osl")]
        found.append(run_of(same, row, _product(row, "tp", "pp", "attn_dp"), ("", rate), answer))
    return [run for run in found if run]


def _product(row: Row, *names: str) -> float:
    return math.prod(float(row[name] or 1) for name in names)


def _mean(column: Floats) -> float:
    """Of the groups that have the figure."""
    known = column[np.isfinite(column)]
    return float(known.mean()) if len(known) else math.nan

"""Picks among the rows that the fit is made of, each predicted without what is left out with it:
`python -m benchmarks.choice picks_folds` (some five minutes).

Left out are a model on an engine, whatever the device, and a layout (tp, attention-dp, experts by tp and by
ep) on an engine, whatever the model (`folded` in `benchmarks/held_out.py`). Then what bounds the picks: how
they would be if the median error of each group were known, and how far errors inside groups fall by factors
that layouts of one engine share, learnt on all models but the one that is judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.choice.picks import lines_of, runs_of
from benchmarks.fit import NOISE, SPREAD
from benchmarks.held_out import CHOSEN, FOLDS, added, as_held, bench_of, folded, of_today, sigmas, traits_of
from benchmarks.printouts import rows_of_fit
from benchmarks.scores.held import LAYOUT, PROBLEM, Floats, Row
from benchmarks.scores.render import table
from planner.calibration.bench import TPOT
from planner.calibration.fitting import Fit
from planner.cost.calibration import Calibration, shipped

Key = Callable[[Row], tuple[str, ...]]


def layout_of(row: Row) -> tuple[str, ...]:
    """The layout on its engine; of printed runs, which have other columns, their own."""
    return (row["backend"], *(row.get(name) or "-" for name in LAYOUT))


def place_of(row: Row) -> tuple[str, ...]:
    """A model on an engine and a device."""
    return (row["backend"], row["family"], row["system"])


def problem_of(row: Row) -> tuple[str, ...]:
    """What the runs of a group share."""
    return tuple(row[name] for name in PROBLEM)


LEFT: dict[str, Key] = {CHOSEN: FOLDS[CHOSEN], "layout x engine": layout_of}

KNOWN: dict[str, Key] = {
    "model, engine, device": place_of,
    "model, engine, device, layout": lambda row: (*place_of(row), *layout_of(row)),
    "group": problem_of,
    "group and layout": lambda row: (*problem_of(row), *layout_of(row)),
}
"""Whose median error is known, in turn."""

SHARED: dict[str, Mapping[str, Callable[[Row], float]]] = {
    "tp": {"tp": lambda row: np.log2(float(row["attn_tp"]))},
    "experts by ep": {"ep": lambda row: float(float(row["ep"]) > 1)},
    "parts of experts": {"moe_tp": lambda row: np.log2(float(row["moe_tp"])) * (row["ffn"] == "moe")},
    "attention-dp": {"dp": lambda row: float(float(row["attn_dp"]) > 1)},
    "requests a GPU": {"load": lambda row: np.log2(float(row["concurrency"]) / float(row["gpus"]))},
}
"""What layouts of an engine may share, as a slope of log TPOT for each engine."""

DRAWN = 0.003
"""Weight of slopes against rows: a slope of 1 counts as an error in that share of all rows."""


def report() -> str:
    """The three tables."""
    every = rows_of_fit()
    bench, told = bench_of(every), of_today(every)
    fit = Fit(bench, Calibration(), SPREAD, NOISE)
    fit.begin(shipped())
    fit.linearise()
    rows, measured = [every[i] for i in told], bench.measured[told]
    servers, more = traits_of(bench, told), added(bench)[told]

    def picks(predicted: Floats, groups: Sequence[tuple[str, ...]]) -> str:
        deviations = sigmas(measured - predicted, more, servers, groups)
        return lines_of({"": runs_of(as_held(rows, measured, predicted, deviations))})

    tables, found = [], {}
    for name, key in LEFT.items():
        found[name] = folded(fit, [" ".join(key(row)) for row in every])[told]
        tables.append(f"left out: {name}\n{picks(found[name], [key(row) for row in rows])}")
    predicted, groups = found[CHOSEN], [FOLDS[CHOSEN](row) for row in rows]
    for name, key in KNOWN.items():
        tables.append(
            f"left out: {CHOSEN}; median error known of each {name}\n"
            f"{picks(less_medians(predicted, measured, [key(row) for row in rows]), groups)}"
        )
    return "\n\n".join([*tables, shared_table(rows, (measured - predicted)[:, TPOT], groups)])


def less_medians(predicted: Floats, measured: Floats, keys: Sequence[tuple[str, ...]]) -> Floats:
    """Predictions less the median error of each key's rows, of both times.

    >>> less_medians(np.array([[2.0], [4.0]]), np.array([[1.0], [1.0]]), [("a",), ("a",)])
    array([[0.],
           [2.]])
    """
    out = predicted.copy()
    for own in _members(keys):
        out[own] -= np.nanmedian((predicted - measured)[own], axis=0)
    return out


def shared_table(rows: Sequence[Row], errors: Floats, groups: Sequence[tuple[str, ...]]) -> str:
    """How far errors of TPOT inside groups fall by what layouts of an engine share."""
    layouts = [layout_of(row) for row in rows]
    members = [
        own for own in _members([problem_of(row) for row in rows]) if len({layouts[i] for i in own}) > 1
    ]
    at, within = np.concatenate(members), inside(members, errors[:, None])[:, 0]
    names = [" ".join(group) for group in groups]
    lines = [["", "", f"{_rms(within[at]):.4f}", ""]]
    for what, slopes in SHARED.items():
        x = inside(members, columns(rows, slopes))
        left, told = left_of(within, x, at, names)
        lines.append(
            [what, _slopes(rows, told), f"{_rms(left[at]):.4f}", f"{_rms((within - x @ told)[at]):.4f}"]
        )
    heads = (
        "shared by an engine's layouts",
        "log TPOT a doubling, or where so",
        "left, model held out",
        "not",
    )
    return table(heads, lines)


def columns(rows: Sequence[Row], slopes: Mapping[str, Callable[[Row], float]]) -> Floats:
    """Each slope's variable for each engine, 0 for rows of others."""
    engines = sorted({row["backend"] for row in rows})
    return np.array(
        [
            [float(of(row)) * (row["backend"] == engine) for engine in engines for of in slopes.values()]
            for row in rows
        ]
    )


def inside(members: Sequence[Floats], values: Floats) -> Floats:
    """Values less their mean in each group."""
    out = np.zeros_like(values)
    for own in members:
        out[own] = values[own] - values[own].mean(axis=0)
    return out


def left_of(errors: Floats, x: Floats, at: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    """What is left of the errors of rows `at` by slopes of all other names' rows, and slopes of all."""
    out, name, own = errors.copy(), np.array(names), np.zeros(len(errors), dtype=bool)
    own[at] = True

    def fitted(keep: Floats) -> Floats:
        drawn = DRAWN * len(errors) * np.eye(x.shape[1])
        return np.asarray(np.linalg.solve(x[keep].T @ x[keep] + drawn, x[keep].T @ errors[keep]))

    for one in np.unique(name):
        out[name == one] -= x[name == one] @ fitted(own & (name != one))
    return out, fitted(own)


def _slopes(rows: Sequence[Row], told: Floats) -> str:
    engines = sorted({row["backend"] for row in rows})
    return ", ".join(f"{engine} {value:+.3f}" for engine, value in zip(engines, told.tolist(), strict=True))


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _members(keys: Sequence[tuple[str, ...]]) -> list[Floats]:
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        found[key].append(i)
    return [np.array(own) for own in found.values()]

"""How much further off predictions are where a mechanism was never measured:
`python -m benchmarks.choice mechanisms` (some five minutes).

Each mechanism is left out of the fit with one engine at a time, as if nobody had run it so: experts on ranks
of their own, attention-dp, an engine on a device, a format of weights on a device. With it goes one model
after the other on that engine, as bands are those of models that the engine's runs do not have. All other
rows predict that model's rows with the mechanism (one step from the optimum of all, as `stepped` in
`benchmarks/held_out.py`). A row needs a width w such that its error lies within the 80 % band of hypot(sigma,
w). Errors of one step are smaller than those of a fit without the rows, so sigma comes from such errors, too:
of models that are left out on an engine, of all but the row's own (`sigmas`); both are taken times the ratio
of the calibration's band to theirs. The mechanism's width is the one that four rows of five do with, a group
(engine, device, format, and model) counting as the root of its rows. "inside with it" is judged with the
width that the mechanism's *other* groups give, of a single one with that of its other models.

Of pipelines no row is in the fit: there the errors are those of their gain over one stage (`pipelines`),
where stages overlap as on today's engines, unlike stages apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.choice import pipelines
from benchmarks.fit import NOISE, SPREAD
from benchmarks.held_out import (
    CHOSEN,
    FOLDS,
    Keys,
    added,
    bands,
    bench_of,
    folded,
    of_today,
    reached,
    sigmas,
    stepped,
    traits_of,
)
from benchmarks.printouts import rows_of_fit
from benchmarks.saturated import read
from benchmarks.scores.held import Row
from benchmarks.scores.render import share, table
from benchmarks.truth import as_asked
from planner.calibration.bench import TPOT, TTFT
from planner.calibration.fitting import Fit
from planner.cost.bands import Z80
from planner.cost.calibration import Calibration, Traits, shipped
from planner.designs.shape import Floats as Array

FEWEST = 8
"""Rows of a group that is left out, and that are left of its engine on its device."""

TINY = 1e-9
"""Of a width that a row needs just so."""

KINDS = {"ttft": TTFT, "tpot": TPOT}

Group = tuple[str, str]
"""A mechanism, and what it is left out with."""


@dataclass(frozen=True)
class Left:
    """Errors of one group's rows in logarithms, measured over predicted, and the deviations of their bands
    without the mechanism, (n, 2); NaN where there is no such figure. `models`: of each row."""

    errors: Array
    sigma: Array
    models: NDArray[np.str_]

    def needed(self, kind: int) -> Array:
        """The width that each row needs, NaN where there is no such figure."""
        error, sigma = self.errors[:, kind], self.sigma[:, kind]
        return np.sqrt(np.maximum((error / Z80) ** 2 - sigma**2, 0.0))


def marks(row: Row) -> list[Group]:
    """The groups that a row of the fit belongs to."""
    engine, asked = row["backend"], as_asked(row)
    place = f"{engine} {row['system']}"
    found = [("device", place)]
    found += [("expert_parallel", engine)] * (float(asked.get("ep") or 1) > 1)
    found += [("attention_dp", engine)] * (float(asked.get("attn_dp") or 1) > 1)
    formats = (row.get("gemm_quant_mode", ""), row.get("moe_quant_mode", ""))
    return [*found, ("precision", " ".join(filter(None, (place, *formats))))]


def groups_of(rows: Sequence[Row]) -> dict[Group, Array]:
    """Masks of the rows of each group that can be left out."""
    of = [marks(row) for row in rows]
    sizes = Counter(mark for own in of for mark in own)
    places = Counter(f"{row['backend']} {row['system']}" for row in rows)

    def enough(group: Group) -> bool:
        place = " ".join(group[1].split()[:2])
        left = places[place] - sizes[group] if group[0] == "precision" else FEWEST
        return sizes[group] >= FEWEST and left >= FEWEST

    return {group: np.array([group in own for own in of]) for group in sorted(sizes) if enough(group)}


def left_out() -> dict[Group, Left]:
    """What the fit without each group says of it, of today's rows."""
    rows = rows_of_fit()
    bench, today = bench_of(rows), of_today(rows)
    fit = Fit(bench, Calibration(), SPREAD, NOISE)
    fit.begin(shipped())
    fit.linearise()
    names = [FOLDS[CHOSEN](row) for row in rows]
    models = np.array([" ".join(name) for name in names])
    usual = (bench.measured - folded(fit, models.tolist()))[today]
    larger, sigma = bands_of(usual, added(bench)[today], traits_of(bench, today), [names[i] for i in today])
    found = {}
    for group, mask in groups_of(rows).items():
        told = np.full_like(bench.measured, np.nan)
        for model in np.unique(models[mask]):
            own = mask & (models == model)
            told[own] = stepped(fit, mask | (models == model))[own]
        at = mask[today]
        found[group] = Left((larger * (bench.measured - told)[today])[at], sigma[at], models[today][at])
    return found


def bands_of(usual: Array, more: Array, servers: Sequence[Traits], groups: Keys) -> tuple[Array, Array]:
    """By how much the calibration's bands of TTFT and TPOT, (2,), are wider than the `usual` errors of one
    step without each row's group; and the deviations of bands by errors so much larger, of all groups but the
    row's own, (n, 2)."""
    by_step, larger = bands(usual, more, servers, groups), np.ones(2)
    for kind, column in KINDS.items():
        larger[column] = shipped().bands[kind]["all"]["all"] / by_step[kind]["all"]["all"]
    return larger, sigmas(larger * usual, more, servers, groups)


def piped() -> dict[Group, Left]:
    """Errors of pipelines' gains over one stage, alike in first tokens and steps, where stages overlap as on
    today's engines; which is which by engine."""
    rows = read("pipelines.csv")
    found = [f for f in pipelines.factors(rows, pipelines.asked(rows)) if f.kind == "overlapped"]
    errors = np.array([-math.log(f.factor) for f in found])
    both, engines = np.array([errors, errors]).T, np.array([f.engine for f in found])
    return {("pipeline", "overlapped"): Left(both, np.zeros_like(both), engines)}


def width_of(groups: Mapping[Group, Left], kind: int) -> float:
    """The width that four rows of five of some groups do with."""
    needed = np.concatenate([left.needed(kind) for left in groups.values()])
    names = np.array([f"{name} {model}" for (_, name), left in groups.items() for model in left.models])
    known = np.isfinite(needed)
    return reached(needed[known], names[known]) if known.any() else 0.0


def widths(found: Mapping[Group, Left]) -> dict[str, dict[str, float]]:
    """Mechanism → kind → width, to two digits."""
    names = sorted({mechanism for mechanism, _ in found})
    return {
        name: {kind: round(width_of(of_mechanism(found, name), column), 2) for kind, column in KINDS.items()}
        for name in names
    }


def of_mechanism(found: Mapping[Group, Left], name: str) -> dict[Group, Left]:
    """The groups of one mechanism."""
    return {group: left for group, left in found.items() if group[0] == name}


def inside(left: Left, width: float, kind: int) -> float:
    """Share of rows within their bands with a width."""
    needed = left.needed(kind)
    return float(np.mean(needed[np.isfinite(needed)] <= width + TINY)) if np.isfinite(needed).any() else 1.0


def parts_of(left: Left, name: str) -> dict[Group, Left]:
    """The models of a group."""
    return {
        (name, model): Left(left.errors[at], left.sigma[at], left.models[at])
        for model in np.unique(left.models).tolist()
        for at in [left.models == model]
    }


def inside_without(groups: Mapping[Group, Left], kind: int) -> dict[Group, float]:
    """Share of each group's rows within their bands with the width that the other groups give."""
    return {
        group: inside(left, width_of({g: x for g, x in groups.items() if g != group}, kind), kind)
        for group, left in groups.items()
    }


def report(learnt: Callable[[], dict[Group, Left]] | None = None) -> str:
    """A line for each mechanism and each group that was left out."""
    found = (learnt or learn)()
    lines = []
    for name in sorted({mechanism for mechanism, _ in found}):
        own = of_mechanism(found, name)
        lines.append([name, "", *_columns(own, own)])
        for group, left in own.items() if len(own) > 1 else ():
            others = {g: x for g, x in own.items() if g != group}
            lines.append([f"  {group[1]}", str(len(left.errors)), *_columns({group: left}, others)])
    heads = [f"{kind.upper()} {x}" for kind in KINDS for x in ("inside", "width", "inside with it")]
    return table(("left out of the fit", "n", *heads), lines)


def _columns(judged: Mapping[Group, Left], by: Mapping[Group, Left]) -> list[str]:
    """Of each kind the share inside, the width by some groups, and the share with it: the mean of groups."""
    cells = []
    for column in KINDS.values():
        width = width_of(by, column)
        before = float(np.mean([inside(left, 0.0, column) for left in judged.values()]))
        if judged.keys() != by.keys():
            after = float(np.mean([inside(left, width, column) for left in judged.values()]))
        elif len(judged) > 1:
            after = float(np.mean(list(inside_without(judged, column).values())))
        else:
            after = _by_models(*judged.items(), kind=column)
        cells += [share(before), f"{width:.2f}", share(after)]
    return cells


def _by_models(only: tuple[Group, Left], kind: int) -> float:
    """Share of a single group's rows within their bands with the width of its other models; its own where it
    has one."""
    (name, _), left = only
    parts = parts_of(left, name)
    if len(parts) == 1:
        return inside(left, width_of(parts, kind), kind)
    rows = [len(part.errors) for part in parts.values()]
    return float(np.average(list(inside_without(parts, kind).values()), weights=rows))


def learn() -> dict[Group, Left]:
    """Groups of the fit, and pipelines."""
    return {**left_out(), **piped()}

"""How much further off predictions are where a mechanism was never measured:
`python -m benchmarks.choice mechanisms` (some five minutes).

Each mechanism is left out of the fit with one engine at a time, as if nobody had run it so: experts on ranks
of their own, attention-dp, an engine on a device, a format of weights on a device. With it goes one model
after the other on that engine, as bands are those of models that the engine's runs do not have. All other
rows predict that model's rows with the mechanism (one step from the optimum of all, as `stepped` in
`benchmarks/held_out.py`). A row needs a width w such that its error lies within the 80 % band of hypot(sigma,
w), sigma being what the calibration says without the mechanism; the mechanism's width is the one that four
rows of five do with, a group (engine, device, format, and model) counting as the root of its rows. "inside
with it" is judged with the width that the mechanism's *other* groups give, its own where there is only one.

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
from benchmarks.held_out import CHOSEN, FOLDS, bench_of, reached, stepped
from benchmarks.printouts import rows_of_fit
from benchmarks.saturated import read
from benchmarks.scores.held import Row
from benchmarks.scores.render import share, table
from benchmarks.truth import as_asked
from planner.calibration.bench import TPOT, TTFT, Bench
from planner.calibration.fitting import Fit
from planner.cost.bands import Z80
from planner.cost.calibration import Calibration, shipped
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
    """What the fit without each group says of it."""
    rows = rows_of_fit()
    bench = bench_of(rows)
    sigma = bands_of(bench)
    fit = Fit(bench, Calibration(), SPREAD, NOISE)
    fit.begin(shipped())
    fit.linearise()
    found = {}
    models = np.array([" ".join(FOLDS[CHOSEN](row)) for row in rows])
    for group, mask in groups_of(rows).items():
        told = np.full_like(bench.measured, np.nan)
        for model in np.unique(models[mask]):
            own = mask & (models == model)
            told[own] = stepped(fit, mask | (models == model))[own]
        found[group] = Left((bench.measured - told)[mask], sigma[mask], models[mask])
    return found


def bands_of(bench: Bench) -> Array:
    """Deviations of each row's band, (n, 2): every way to run of these rows was measured."""
    found = np.zeros((len(bench), 2))
    for cell in bench.cells:
        whole = cell.group.cost(shipped()).sigmas(cell.load.designs)
        for told, column in zip(whole, (TTFT, TPOT), strict=True):
            found[cell.at, column] = told
    return found


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
        with_it = [
            width_of({g: x for g, x in judged.items() if g != group}, column) if len(judged) > 1 else width
            for group in judged
        ]
        before = float(np.mean([inside(left, 0.0, column) for left in judged.values()]))
        after = [inside(left, w, column) for left, w in zip(judged.values(), with_it, strict=True)]
        cells += [share(before), f"{width:.2f}", share(float(np.mean(after)))]
    return cells


def learn() -> dict[Group, Left]:
    """Groups of the fit, and pipelines."""
    return {**left_out(), **piped()}

"""Power limits: how much slower GPUs are under them, and what kernels draw: `python -m benchmarks.power`.

First table: the law of `planner/cost/power.py` against public sweeps of limits (`power_sweeps.py`), each card
predicted from the others, beside two simpler rules; and what a fit to all of them gives.

Second table: watts of kernels measured at the cards' own limits (`power.parquet` in the folder `shared`
beside the repository; reading it needs pyarrow): the form that plans use today, one law a device; and
P = limit (1 - (1 - p0) exp(-(a c^s + b m^t))) with c, m the shares of peak FLOP/s and bandwidth, one law for
each kind of kernel. `families`: of matrices, heads or experts of a shape that the fit has not seen;
`devices`: of a device that it has not seen, in shares of its limit. That data holds no kernel under a lower
limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks import power_kernels
from benchmarks.kernel_fits import OPS
from benchmarks.power_sweeps import SWEEPS
from planner.cost.power import HELD_SHARE, SLOWED_ARITHMETIC, SLOWED_MEMORY, slowdown
from planner.designs.shape import Floats

SCALE = 0.03
"""Relative error beyond which a point counts by its size and not by its square."""


@dataclass(frozen=True)
class Points:
    """What sweeps measured, (n,): card, kind of work, share of the draw that is left, share of the speed."""

    card: NDArray[np.str_]
    arithmetic: Floats
    allowed: Floats
    speed: Floats

    @staticmethod
    def of_sweeps() -> Points:
        rows = [
            (s.card, float(s.arithmetic), watts / s.points[0][0], tokens / s.points[0][1])
            for s in SWEEPS
            for watts, tokens in s.points[1:]
        ]
        card, arithmetic, allowed, speed = zip(*rows, strict=True)
        return Points(np.array(card), np.array(arithmetic), np.array(allowed), np.array(speed))

    def take(self, rows: NDArray[np.bool_]) -> Points:
        return Points(*(x[rows] for x in vars(self).values()))


def law(p: Points, memory: float, arithmetic: float, held: float) -> Floats:
    """Shares of the speed that are left, by the shipped form with other figures."""
    a = np.where(p.arithmetic > 0, arithmetic, memory)
    return np.asarray(1 / (1 + a * (1 - p.allowed) / (p.allowed - held)))


def fitted(p: Points) -> tuple[float, float, float]:
    """The figures of `law` at the least error of log speed."""

    def off(q: Floats) -> Floats:
        return np.asarray(np.log(law(p, *q)) - np.log(p.speed))

    found = least_squares(
        off, [0.1, 0.2, 0.3], bounds=([0, 0, 0], [1, 1, 0.48]), loss="soft_l1", f_scale=SCALE
    )
    memory, arithmetic, held = (float(x) for x in found.x)
    return memory, arithmetic, held


def held_out(p: Points) -> Floats:
    """Relative errors of speed, (n,), each card's by the law of the others."""
    errors = np.empty(len(p.speed))
    for card in dict.fromkeys(p.card.tolist()):
        here = p.card == card
        errors[here] = law(p.take(here), *fitted(p.take(~here))) / p.speed[here] - 1
    return np.abs(errors)


def slowed_table(p: Points) -> Iterator[str]:
    """Errors by card and kind of work."""
    ours = held_out(p)
    shipped = np.abs(1 / slowdown(p.allowed, p.arithmetic) / p.speed - 1)
    rules = (ours, shipped, np.abs(1 / p.speed - 1), np.abs(p.allowed / p.speed - 1))
    yield "| | points | card left out | shipped | no slowdown | as slow as the watts are few |"
    yield "|---|---|---|---|---|---|"
    everything = np.ones(len(p.speed), bool)
    rows = {card: p.card == card for card in dict.fromkeys(p.card.tolist())}
    rows |= {"bound by memory": p.arithmetic == 0, "bound by arithmetic": p.arithmetic > 0, "all": everything}
    for name, here in rows.items():
        cells = (f"{np.median(e[here]):.1%}, {np.quantile(e[here], 0.9):.1%}" for e in rules)
        yield f"| {name} | {here.sum()} | {' | '.join(cells)} |"
    told = ", ".join(f"{x:.4g}" for x in fitted(p))
    yield f"\nFitted to all: {told}; shipped: {SLOWED_MEMORY:g}, {SLOWED_ARITHMETIC:g}, {HELD_SHARE:g}."


def main() -> int:
    print("Relative error of speed under a limit, median and nine in ten:\n")
    print("\n".join(slowed_table(Points.of_sweeps())))
    print("\nRelative error of watts drawn by kernels of a tenth of a millisecond or more, median:\n")
    if find_spec("pyarrow") is None or not (OPS / "power.parquet").exists():
        print("Not counted: it takes pyarrow, and `shared` beside the repository.")
        return 0
    print("\n".join(power_kernels.table(power_kernels.measured())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

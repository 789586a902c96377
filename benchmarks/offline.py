"""Generation offline, weights and cache off the GPU, measured and predicted: `python -m benchmarks.offline`.

Every run of `offline_runs.py` is predicted with all rows of its model left out of the fit; hardware rates are
datasheets'. Not every share shows in the rows that are left: those stay at `PRIOR`. Below: what
the tiers program would choose in 16 bits on the same machine, and what one more unit is worth.

`--fit` prints the shares that all rows together give (planner/cost/block.yaml).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple

import numpy as np
from scipy.optimize import least_squares

from benchmarks.formulations.tiers_prices import Price, prices
from benchmarks.offline_runs import FILE, Run, cloud_t4, runs, tokens_per_s
from benchmarks.scores.render import table
from planner.cost.block import Job, Reached, reached
from planner.problems.tiers import state, way_of, ways
from solvers import tiers
from solvers.linear import Floats, Limits
from solvers.tiers.rounding import rounded

PRIOR = Reached(
    gpu_compute=0.4,  # a 70 W card: less than the 0.7 of GPUs that keep their clocks
    gpu_memory=0.8,  # efficiency/datasheet.yaml, for GPUs that were not measured
    pinned=0.7,  # 11 of 16 GB/s
    pageable=0.35,  # copied once more on the way, by one core
    host_memory=0.6,  # llama.cpp's on one socket, host.yaml
    disk=0.9,
    unpack_bytes=20.0,  # reads half a byte, then four passes that write and read 16 bits
)
SPREAD = 0.35
"""Of log(a share / its prior)."""
ERROR = 0.15
"""Of log(measured / predicted)."""
ROUNDED = 0.005
"""Tokens/s that a figure may be off by rounding: half of some."""

GIGA = {"gpu": 1e9, "host": 1e9, "pcie": 1e9, "host memory": 1e9, "disk read": 1e9}
"""What is priced: a GB, or a GB/s."""


def predicted(run: Run, shares: Reached) -> float:
    """Tokens/s."""
    return tokens_per_s(run.job, cloud_t4(), run.way, shares, run.policy.batches, run.shares)


def fitted(rows: Sequence[Run]) -> Reached:
    """The shares that fit `rows` best, each drawn to its prior as strongly as `SPREAD` says."""
    prior = np.log(astuple(PRIOR))

    def misses(x: Floats) -> Floats:
        shares = Reached(*np.exp(x))
        off = [math.log(predicted(run, shares) / run.tokens_per_s) / _error(run) for run in rows]
        return np.array([*off, *(x - prior) / SPREAD])

    return Reached(*np.exp(least_squares(misses, prior).x).tolist())


def _error(run: Run) -> float:
    return math.hypot(ERROR, ROUNDED / run.tokens_per_s)


def left_out(rows: Sequence[Run]) -> list[tuple[Run, float]]:
    """Each run and its prediction by a fit that saw nothing of its model."""
    models = {run.model for run in rows}
    shares = {model: fitted([run for run in rows if run.model != model]) for model in models}
    return [(run, predicted(run, shares[run.model])) for run in rows]


def accuracy(rows: Sequence[Run]) -> Iterable[str]:
    """The table of measured and predicted tokens/s, and its sum."""
    both = left_out(rows)
    heads = ["its model left out of the fit", "prompt", "batch", "measured", "predicted", "off"]
    lines = [
        [
            f"{run.engine} {run.model}",
            str(run.isl),
            f"{run.policy.batches} x {run.policy.gpu_batch}",
            f"{run.tokens_per_s:g}",
            f"{value:.3g}",
            f"{value / run.tokens_per_s - 1:+.0%}",
        ]
        for run, value in both
    ]
    yield table(heads, lines)
    off = [abs(value / run.tokens_per_s - 1) for run, value in both]
    logs = [abs(math.log(value / run.tokens_per_s)) for run, value in both if run.engine == "FlexLLMGen"]
    yield f"{len(both)} runs: median {np.median(off):.0%} off, largest {max(off):.0%}"
    yield f"FlexLLMGen in 16 bits: within a factor of {math.exp(max(logs)):.2f} each"


def chosen(jobs: dict[str, Job]) -> Iterable[str]:
    """What the program would choose; prices at the margin and of a whole unit, all solved again."""
    heads = [
        "chosen, 16 bits",
        "batch",
        "tok/s",
        "rounding",
        "LPs",
        "of points",
        *(f"{of} +1" for of in GIGA),
    ]
    lines = []
    for name, job in jobs.items():
        p = state(job, cloud_t4(), ways(), reached())
        found, whole = tiers.solve(p, Limits()), rounded(p, Limits(seconds=5.0))
        worth = prices(p, found, GIGA, Limits())
        if found.point is None or found.tokens_per_s is None or whole.tokens_per_s is None:
            lines.append([name, *"-" * (len(heads) - 1)])
            continue
        lines.append(
            [
                name,
                f"{found.point.batches} x {way_of(found.point).gpu_batch}",
                f"{found.tokens_per_s:.3g}",
                f"{1 - whole.tokens_per_s / found.tokens_per_s:.2%}",
                str(found.solved),
                f"{found.points:,}",
                *(_percent(price, found.tokens_per_s) for price in worth),
            ]
        )
    yield table(heads, lines)


def _percent(price: Price, of: float) -> str:
    return f"{100 * price.marginal * price.more / of:.1f} / {100 * price.worth / of:.1f}%"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--fit", action="store_true", help="print the shares fitted to all rows")
    asked, rows = parser.parse_args(), runs()
    if not rows:
        print(f"no measured rows: {FILE} is not there")
        return 2
    if asked.fit:
        print("\n".join(f"  {name}: {value:.3g}" for name, value in asdict(fitted(rows)).items()))
        return 0
    print("\n".join(accuracy(rows)), end="\n\n")
    own = {f"{run.model}, prompt {run.isl}": run.job for run in rows if run.engine == "FlexLLMGen"}
    print("\n".join(chosen(own)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

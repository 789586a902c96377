"""`python -m benchmarks.experts_drift [--layers 8]`: what maps of experts are worth when loads drift.

Loads by law: 256 experts, popularity lognormal (0.8), times a random walk with `sigma` a step, 400,000 tokens
a step and layer (Poisson); 12 steps. Maps are made on the first six; hottest GPU over mean in the other six,
mean over layers, for the six together. Moves: from that map to within 1 % of the best balance for them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from solvers import experts
from solvers.experts import moves as experts_moves
from solvers.experts import robust as experts_robust
from solvers.experts.balance import times
from solvers.experts.moves import MovesProblem, copied
from solvers.experts.robust import RobustProblem
from solvers.experts.types import ExpertsProblem, Place
from solvers.linear import Limits

Floats = NDArray[np.float64]
EXPERTS, STEPS, SPREAD, TOKENS = 256, 12, 0.8, 400_000
CASES = ((32, 9, 0.03), (32, 9, 0.1), (64, 5, 0.03), (64, 5, 0.1))
"""GPUs, slots, sigma."""


def drawn(layers: int, sigma: float, seed: int = 0) -> Floats:
    """Tokens (steps, layers, experts)."""
    rng = np.random.default_rng(seed)
    walk = rng.normal(0, sigma, (STEPS, layers, EXPERTS)).cumsum(0)
    share = rng.lognormal(0, SPREAD, (layers, EXPERTS)) * np.exp(walk)
    return rng.poisson(TOKENS * share / share.sum(2, keepdims=True)).astype(float)


def hottest(load: Floats, places: list[Place]) -> float:
    """Hottest over mean, mean over layers, GPUs alike."""
    placed = np.array(places)
    reached = times(load, placed, np.ones(placed.shape[1])).max(1)
    return float((reached * placed.shape[1] / load.sum(1)).mean())


def row(layers: int, gpus: int, slots: int, sigma: float) -> str:
    """One line of the table."""
    tokens, each, alike = drawn(layers, sigma), np.full(gpus, slots), np.ones(gpus)
    first, second = tokens[: STEPS // 2], tokens[STEPS // 2 :].sum(0)
    node = np.zeros(gpus, dtype=np.int64)
    limits = Limits(gap=0.02, seconds=20.0)
    old = experts.solve(ExpertsProblem(first.sum(0), each, node), limits=limits).place
    own = experts.solve(ExpertsProblem(second, each, node), limits=limits).place
    robust = experts_robust.solve(RobustProblem(first, each, alike, "worst"), limits).place
    began = time.perf_counter()
    moved = experts_moves.solve(MovesProblem(second, each, alike, old, own), limits)
    seconds = time.perf_counter() - began
    fresh = sum(copied(new, held) for new, held in zip(own, old, strict=True))
    cells = [
        f"{gpus} x {slots}",
        f"{sigma:g}",
        *(f"{hottest(second, places):.3f}" for places in (old, robust, own, moved.place)),
        f"{moved.objective:.0f} (at least {moved.bound:.0f})",
        f"{fresh}",
        f"{seconds:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=8)
    layers = parser.parse_args().layers
    heads = "GPUs x slots", "sigma", "first half's map", "robust, worst step", "own map", "after moves"
    print(f"| {' | '.join(heads)} | weights copied | own map's copies | seconds |")
    print("| --- " * (len(heads) + 3) + "|")
    for gpus, slots, sigma in CASES:
        print(row(layers, gpus, slots, sigma), flush=True)


if __name__ == "__main__":
    main()

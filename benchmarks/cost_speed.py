"""Operating points a second of the cost model on one core: `python -m benchmarks.cost_speed`.

Budget: 20,000 for a dense model.
"""

from __future__ import annotations

import time

import numpy as np

from model_zoo import catalog
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs
from planner.predict.predictions import usual_node

POINTS = 20_000
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-235b-a22b", "deepseek-v3", "qwen3.5-397b-a17b")


def main() -> None:
    """One line a model: points a second of `step_s` and of `step_times`."""
    rng = np.random.default_rng(0)
    tp, pp = 2 ** rng.integers(0, 4, POINTS), 2 ** rng.integers(0, 3, POINTS)
    ones = np.ones(POINTS, dtype=np.int64)
    designs = Designs.plain(tp, pp, ones, tp, ones)
    batch, context = rng.uniform(1, 512, POINTS), rng.uniform(100, 16000, POINTS)
    print(f"{'model':24s} {'step_s':>12s} {'step_times':>12s}   points a second, {POINTS} at once")
    for name in MODELS:
        card = catalog.find(name)[0]
        cost = CostModel(card, usual_node("h100-sxm"), "vllm", precisions(card))
        start = time.process_time()
        cost.step_s(designs, Load.of(batch, context, 512.0, context))
        middle = time.process_time()
        cost.step_times(designs, Load.of(batch, context, 2048.0))
        end = time.process_time()
        print(f"{name:24s} {POINTS / (middle - start):12,.0f} {POINTS / (end - middle):12,.0f}")


if __name__ == "__main__":
    main()

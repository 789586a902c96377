"""Lines under watts and seconds of columns, beside the one model at loads far nearer to each other than those
that they were made of: `python -m benchmarks.lines [--columns 40] [--loads 4000] [--only NAME …]`.

A line that lies above what its column costs makes a bound false. Of each question `--columns` columns are
asked, evenly taken from all, under the mix of the requests that they serve. Printed by question and by what
grows with the load: the largest share by which any line lies above the truth, columns in which one does, and
how far the lines lie below it where the load is a twentieth of the column's or more.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.loaded import Loaded
from planner.candidates.setup import Setup
from planner.candidates.tangents import sampled
from planner.designs.shape import Floats
from planner.plans.operation import index_of
from planner.question.asked import read
from planner.question.posed import pose

FOLDER = Path(__file__).resolve().parents[1] / "cluster_configs" / "examples"

QUESTIONS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "plain": ("8xH100,8xA100", "llama-3.1-70b", {"rate": 4.0}, {}),
    "pipelines": ("16xL4", "llama-3.1-70b", {"rate": 0.2, "isl": 500, "tpot_ms": 400.0}, {}),
    "experts": ("16xH100", "deepseek-v3", {"rate": 4.0, "percentile": "p95"}, {}),
    "long prompts": ("16xH100", "llama-3.1-8b", {"rate": 1.0, "isl": 30_000, "ttft_ms": 20_000.0}, {}),
    "short answers": ("8xH100", "llama-3.1-8b", {"rate": 4.0, "osl": 5}, {}),
    "three zones": ("three-zones", "qwen3-1.7b", {"rate": 4.0, "isl": 12_000, "ttft_ms": 10_000.0}, {}),
    "any engine": ("mixed-generations", "llama-3.1-8b", {"rate": 4.0}, {"engine": "any"}),
    "closed": ("8xH100", "qwen3-30b-a3b", {"rate": 4.0, "loop": "closed"}, {}),
}
"""GPUs or a shipped cluster, model, load and options."""

HEADS = ("question", "of", "columns", "above, most", "above in", "below, median", "below, most")

ROUNDING = 1e-9
"""Share by which a line may lie above the truth."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--columns", type=int, default=40)
    options.add_argument("--loads", type=int, default=4000)
    options.add_argument("--only", nargs="*", default=list(QUESTIONS), choices=list(QUESTIONS))
    asked = options.parse_args()
    print("".join(f"{head:>15s}" for head in HEADS))
    for name in asked.only:
        for objective in ("latency", "energy"):
            told = [over(*one, objective, asked.loads) for one in columns(name, objective, asked.columns)]
            above, below = (np.array([one[k] for one in told]) for k in (0, 1))
            cells = [name, objective, len(told), f"{max(above.max(), 0):.5%}", int((above > ROUNDING).sum())]
            cells += [f"{np.median(below):.2%}", f"{below.max():.2%}"]
            print("".join(f"{cell!s:>15s}" for cell in cells), flush=True)


def columns(name: str, objective: str, most: int) -> Iterator[tuple[Candidate, Setup]]:
    """Candidates of a question, and their setups."""
    where, model, load, more = QUESTIONS[name]
    file = FOLDER / f"{where}.yaml"
    cluster, gpus = (file, None) if file.exists() else (None, where)
    given = {"engine": "vllm", "objective": objective} | more
    _, pool, _ = pose(read(cluster, model, gpus, "chat", load, given))
    lined = [c for c in pool.candidates if c.tangents]
    for c in lined[:: max(len(lined) // most, 1)]:
        yield c, pool.setup(c)


def over(c: Candidate, s: Setup, objective: str, loads: int) -> tuple[float, float]:
    """The largest share by which a line of `c` lies above the truth, and the mean one by which the highest
    lies below it where the column is not nearly empty."""
    rate, cost, slopes = curve(Loaded.of(c, s, index_of(s, c)), objective, np.geomspace(1e-5, 1.0, loads))
    told = np.max([a + rate * sum(b[w] * slopes[w] for w in b) for a, b in c.tangents], axis=0)
    return float((told / cost - 1).max()), float((1 - told / cost)[rate > rate[-1] / 20].mean())


def curve(column: Loaded, objective: str, shares: Floats) -> tuple[Floats, Floats, dict[str, float]]:
    """Requests/s and cost at each of `shares` of one column's load, and the share of each bucket."""
    share = {str(w): float(x) for w, x in enumerate(column.share[0])}
    (rate,), (level,) = sampled(column, "watts" if objective == "energy" else "latency", shares)
    return rate, level if objective == "energy" else rate * level, share


if __name__ == "__main__":
    main()

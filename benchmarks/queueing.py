"""Queueing formulas against the replay: `python -m benchmarks.queueing [--quick]`.

For each step time, mix of buckets, token budget and utilisation: the relative error of the formula's mean and
90th percentile of TTFT and TPOT, the worst bucket's (with its sign); then closed loops (rate too) and prefill
servers. Arrivals are Poisson with a fixed seed; the formula gets the rates that came out, so that luck of the
draw is not taken for an error.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.replays.servers import Result, Settings, replay, replay_prefill
from planner.designs.shape import Floats, StepTimes
from planner.queueing import Percentile, closed_loop, estimate
from planner.simulate.requests import Requests


def step(t0: float, token: float, pair: float, sequence: float, context: float) -> StepTimes:
    return StepTimes(*(np.array([x]) for x in (t0, token, pair, sequence, context, 1.0)))


STEPS = {
    "8b": step(6e-3, 32e-6, 1e-9, 20e-6, 44e-9),  # about Llama-3.1-8B on one H100
    "70b": step(20e-3, 80e-6, 1e-9, 40e-6, 27e-9),  # about Llama-3.1-70B on four
    "moe": step(14e-3, 25e-6, 0.0, 60e-6, 12e-9),  # few active parameters, many read
}
MIXES: dict[str, list[tuple[int, int, float]]] = {  # (isl, osl, share)
    "chat": [(1000, 200, 1)],
    "long": [(8000, 256, 1)],
    "short": [(256, 1024, 1)],
    "code": [(2000, 28, 1)],
    "conversation": [(400, 100, 0.4), (1000, 400, 0.35), (4000, 60, 0.15), (200, 200, 0.1)],
    "completion": [(500, 12, 0.3), (2000, 30, 0.5), (7000, 20, 0.2)],
    "duo": [(300, 300, 0.8), (6000, 300, 0.2)],
}
BUDGETS = (2048, 8192)
UTILISATIONS = (0.3, 0.6, 0.9)
CONCURRENCY = (1, 4, 16, 64, 256)
LIMIT = 0.10
KEYS = ("ttft", "tpot")


@dataclass(frozen=True)
class Setting:
    step: str
    mix: str
    budget: int
    utilisation: float

    def __str__(self) -> str:
        return f"{self.step:4s} {self.mix:12s} {self.budget:5d} {self.utilisation:5.2f}"

    @property
    def times(self) -> StepTimes:
        return STEPS[self.step]

    @property
    def buckets(self) -> tuple[Floats, Floats, Floats]:
        """isl, osl, share of each bucket."""
        isl, osl, share = np.array(MIXES[self.mix], dtype=float).T
        return isl, osl, share / share.sum()


def errors(setting: Setting, count: int, role: str = "mixed", seed: int = 1) -> dict[str, float]:
    """Relative error of the formula in the worst bucket: keys "ttft mean", "ttft p90", "tpot mean", "tpot
    p90"."""
    isl, osl, share = setting.buckets
    parts = setting.times, isl, isl, osl
    whole = estimate(*parts, share, setting.budget, role=role)  # type: ignore[arg-type]
    rate = setting.utilisation / whole.utilisation[0]
    rng = np.random.default_rng(seed)
    arrival, kind = np.cumsum(rng.exponential(1 / rate, count)), rng.choice(len(isl), count, p=share)
    run = replay_prefill if role == "prefill" else replay
    result = run(setting.times, Requests(arrival, isl[kind], osl[kind]), Settings(setting.budget))
    came = np.bincount(kind, minlength=len(isl)) / arrival[-1]
    steady = np.arange(count)[count // 20 : -count // 50]
    found = {}
    for percentile in ("mean", "p90"):
        e = estimate(*parts, came, setting.budget, percentile, role=role)  # type: ignore[arg-type]
        for name, formula in (("ttft", e.ttft_s[0]), ("tpot", e.tpot_s[0])):
            if role == "mixed" or name == "ttft":
                truth = [
                    measured(result, name, steady[kind[steady] == j], percentile) for j in range(len(isl))
                ]
                found[f"{name} {percentile}"] = max((formula / truth - 1).tolist(), key=abs)
    return found


def measured(result: Result, name: str, chosen: np.ndarray, percentile: str) -> float:
    values = getattr(result, f"{name}_s")[chosen]
    return float(values.mean() if percentile == "mean" else np.percentile(values, 90))


def loop_errors(setting: Setting, concurrency: int, seed: int = 1) -> dict[str, float]:
    """Relative error of the means of a closed loop, outputs between 0.8 and 1.2 of their bucket's: "rate",
    "ttft", "tpot", and the formula's "utilisation"."""
    isl, osl, share = setting.buckets
    count = max(6000, concurrency * 60)
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(isl), count, p=share)
    made = np.maximum(np.round(osl[kind] * rng.uniform(0.8, 1.2, count)), 2)
    rules = Settings(setting.budget, concurrency=concurrency)
    result = replay(setting.times, Requests(np.zeros(count), isl[kind], made), rules)
    begin, end = np.quantile(result.end_s, [0.2, 0.9])
    steady = (result.end_s > begin) & (result.end_s <= end)
    e = closed_loop(setting.times, isl, isl, osl, share, np.array([float(concurrency)]), setting.budget)
    return {
        "rate": float(e.rate[0] / (steady.sum() / (end - begin)) - 1),
        "ttft": float(e.ttft_s[0] @ share / result.ttft_s[steady].mean() - 1),
        "tpot": float(e.tpot_s[0] @ share / result.tpot_s[steady].mean() - 1),
        "utilisation": float(e.utilisation[0]),
    }


def loop_within(
    setting: Setting, concurrency: int, percentile: Percentile, seed: int = 1
) -> dict[str, float]:
    """Share of requests of a closed loop within the formula's percentile, of the bucket that has the fewest:
    "ttft", "tpot". Outputs as in `loop_errors`; the first begin in the middle of their answers, at even
    places."""
    isl, osl, share = setting.buckets
    count = max(6000, concurrency * 60)
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(isl), count, p=share)
    made = np.maximum(np.round(osl[kind] * rng.uniform(0.8, 1.2, count)), 2)
    made[:concurrency] = np.ceil(made[:concurrency] * rng.permutation(concurrency) / concurrency) + 1
    rules = Settings(setting.budget, concurrency=concurrency)
    result = replay(setting.times, Requests(np.zeros(count), isl[kind], made), rules)
    begin, end = np.quantile(result.end_s, [0.2, 0.9])
    steady = (result.end_s > begin) & (result.end_s <= end)
    inside = np.array([float(concurrency)])
    e = closed_loop(setting.times, isl, isl, osl, share, inside, setting.budget, percentile)
    buckets = [steady & (kind == j) for j in range(len(isl))]
    return {
        "ttft": min(float((result.ttft_s[own] <= e.ttft_s[0, j]).mean()) for j, own in enumerate(buckets)),
        "tpot": min(float((result.tpot_s[own] <= e.tpot_s[0, j]).mean()) for j, own in enumerate(buckets)),
    }


def requests_for(utilisation: float) -> int:
    """Enough that the replay's own noise is 1 to 3 %."""
    return int(40_000 / (1 - utilisation) ** 0.8)


def grid(quick: bool, utilisations: Iterable[float]) -> Iterator[Setting]:
    steps = ["8b"] if quick else list(STEPS)
    budgets = BUDGETS[:1] if quick else BUDGETS
    return (Setting(s, m, b, u) for s in steps for m in MIXES for b in budgets for u in utilisations)


def table(title: str, rows: list[tuple[str, dict[str, float]]], judged: list[str]) -> None:
    """Rows as percentages; what exceeds LIMIT is marked, and counted below."""
    print(f"\n{title}\n" + " " * 32 + "".join(f"{key:>12s}" for key in judged))
    for name, found in rows:
        cells = (f"{100 * found[key]:+10.1f}%{'*' if abs(found[key]) > LIMIT else ' '}" for key in judged)
        print(f"{name:32s}" + "".join(cells))
    for key in judged:
        size = np.abs([found[key] for _, found in rows])
        over = int((size > LIMIT).sum())
        worst = f"mean {100 * size.mean():.1f} %, most {100 * size.max():.0f} %"
        print(f"{key:12s} {over:3d} of {len(rows)} beyond 10 %, {worst}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one step time, one token budget")
    parser.add_argument("--utilisation", type=float, nargs="+", default=list(UTILISATIONS))
    options = parser.parse_args()
    began = time.process_time()
    settings = list(grid(options.quick, options.utilisation))
    mixed = [(str(s), errors(s, requests_for(s.utilisation))) for s in settings]
    table("open loop, prefill and decode", mixed, ["ttft mean", "ttft p90", "tpot mean", "tpot p90"])
    prefill = [(str(s), errors(s, requests_for(s.utilisation), "prefill")) for s in settings]
    table("open loop, prefill server", prefill, ["ttft mean", "ttft p90"])
    lone = [s for s in settings if s.utilisation == settings[0].utilisation]
    closed = [(f"{str(s)[:23]} N={n}", loop_errors(s, n)) for s in lone for n in CONCURRENCY]
    closed = [row for row in closed if row[1]["utilisation"] <= 0.93]
    table("closed loop, utilisation up to 0.93", closed, ["rate", "ttft", "tpot"])
    some = [s for s in lone if len(MIXES[s.mix]) > 1]
    shares = [loop_within(s, n, "p90") for s in some for n in (4, 16, 64)]
    told = ", ".join(f"{k} {min(x[k] for x in shares):.3f} to {max(x[k] for x in shares):.3f}" for k in KEYS)
    print(f"\nclosed loop of several buckets: share within the p90, of the bucket with the fewest: {told}")
    print(f"\n{time.process_time() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
